"""Do protocols, deletion values and grids rank methods alike?"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pandas as pd

from heatcheck.benchmarks.idsds_scores import Score
from heatcheck.benchmarks.idsds_tables import is_control
from heatcheck.metrics.agreement import protocol_agreement

# The sign convention drives much of the disagreement, so families of transforms are also compared alone.
FAMILIES: dict[str, tuple[str, ...]] = {"all": ("raw", "abs"), "raw": ("raw",), "absolute": ("abs",)}
# Two rankings of fewer methods agree or not by chance.
MIN_METHODS = 3


def agreement_table(scores: Sequence[Score], *, seed: int = 0) -> pd.DataFrame:
    """Rank agreement over methods of every pair of scores of one model, with intervals over images.

    Controls do not count. Scores of fine-tuned and original models are compared on the same images, and so
    are other grids, deletion values and outputs.

    Args:
        scores: Scores of one model.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``model, first, second, family`` (``all``, ``raw`` or ``absolute`` maps), ``spearman,
        spearman_low, spearman_high, kendall, kendall_low, kendall_high, n`` (methods) and ``n_images``.

    Raises:
        ValueError: Scores of several models.
    """
    models = sorted({score.condition.model for score in scores})
    if len(models) > 1:
        raise ValueError(f"scores must be of one model, got {', '.join(models)}")
    rows = [row for pair in combinations(scores, 2) for row in _rows(*pair, seed)]
    columns = ["model", "first", "second", "family", "spearman", "spearman_low", "spearman_high"]
    more = ["kendall", "kendall_low", "kendall_high", "n", "n_images"]
    return pd.DataFrame(rows, columns=[*columns, *more])


def condition_label(score: Score, other: Score) -> str:
    """Name of a score that tells it from ``other``: its protocol, with whatever else differs."""
    own, theirs = score.condition, other.condition
    differing = [
        f"{name} {getattr(own, name)}"
        for name in ("output", "grid", "fill")
        if getattr(own, name) != getattr(theirs, name) and own.protocol == theirs.protocol
    ]
    return ", ".join([own.protocol, *differing])


def _rows(first: Score, second: Score, seed: int) -> Iterator[dict[str, object]]:
    images = first.values.index.intersection(second.values.index)
    for family, transforms in FAMILIES.items():
        shared = [
            column
            for column in first.values.columns
            if column in second.values.columns and column[1] in transforms and not is_control(str(column[0]))
        ]
        if len(shared) < MIN_METHODS or not len(images):
            continue
        left, right = (score.values.loc[images, shared].to_numpy(dtype=float) for score in (first, second))
        sign = 1 if first.better == second.better else -1
        found = protocol_agreement(left, sign * right, seed=seed)
        yield {
            "model": first.condition.model,
            "first": condition_label(first, second),
            "second": condition_label(second, first),
            "family": family,
            **found._asdict(),
            "n_images": len(images),
        }
