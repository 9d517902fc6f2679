"""What else the scores say: ceiling, resolution, controlled degradation, and where a score is high or low."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd
from torch import Tensor

from heatcheck.benchmarks.idsds import Results, Subject, SumsKey
from heatcheck.benchmarks.idsds_scores import N_RESAMPLES, PROTOCOLS, Score, confidences
from heatcheck.benchmarks.idsds_tables import difference_interval
from heatcheck.benchmarks.patch_table import PatchTable, TableKey
from heatcheck.metrics.patches import TRANSFORMS, aggregate, single_deletion_scores
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.metrics.resolution import random_deviation, resolution_table
from heatcheck.runtime.seeds import CounterGenerator, content_ids

ORACLE = "true drops"
# Numbers of images of the published runs, and of smaller ones.
COUNTS = (100, 200, 1000, 4096, 50_000)
LEVELS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)


def oracle_table(results: Results, subject: Subject, *, seed: int = 0) -> pd.DataFrame:
    """Scores of the true drops as an attribution: the ceiling, and what its sign and source are worth.

    ``true drops`` themselves score 1; their absolute values and positive parts show how much the sign
    carries; drops under another deletion value, or of the model before or after fine-tuning, show how far
    the ranking is a fact about the image and not about the deletion.

    Returns:
        Columns ``model, stage, oracle, transform, mean, low, high, n, n_excluded``.
    """
    headline = results.headline
    drops = subject.tables[headline].responses.drops()
    found = [(ORACLE, transform, TRANSFORMS[transform](drops)) for transform in TRANSFORMS]
    for key, table in subject.tables.items():
        if key.sets is None and key.grid == headline.grid and key != headline:
            found.append((f"{ORACLE}, fill {key.fill}", "raw", table.responses.drops()))
    other = results.find(subject.studied.model, "original" if subject.studied.stage == "tuned" else "tuned")
    if other is not None:
        found.append(
            (f"{ORACLE}, {other.studied.stage} model", "raw", other.tables[headline].responses.drops())
        )
    rows = [
        {
            "oracle": name,
            "transform": transform,
            **_interval(single_deletion_scores(map_, drops).values, seed),
        }
        for name, transform, map_ in found
    ]
    return pd.DataFrame(rows).assign(model=subject.studied.model, stage=subject.studied.stage)


def resolution_rows(score: Score, counts: Sequence[int] = COUNTS) -> pd.DataFrame:
    """How many images tell which difference, from the spread of one score over images.

    Args:
        score: Scores of at least two methods.
        counts: Numbers of images.

    Returns:
        Columns ``n_images, standard_error, readable, detectable, random``: standard error of a method's
        mean; smallest paired difference that may be read as a ranking (two standard errors); the difference
        a test finds four times in five; and the standard error of the mean of a random map.
    """
    values = score.values.to_numpy(dtype=float)
    # A control without any defined score says nothing about the spread.
    values = values[:, ~np.isnan(values).all(0)]
    table = pd.DataFrame(resolution_table(values, counts))
    spread = random_deviation(score.condition.grid**2)
    return table.assign(random=spread / np.sqrt(table["n_images"].to_numpy(dtype=float)))


def degradation_table(
    subject: Subject,
    key: TableKey,
    method: str,
    transform: str = "raw",
    *,
    levels: Sequence[float] = LEVELS,
    seed: int = 0,
) -> pd.DataFrame:
    """Score of a map that noise makes worse and worse: a sound protocol must say so.

    Args:
        subject: The classifier.
        key: Grid and deletion value.
        method: Method whose patch sums are degraded, or ``true drops``.
        transform: Its transform.
        levels: Standard deviations of the noise, as multiples of that of the image's own patch sums.
        seed: Seed of the noise, which is the same at every level.

    Returns:
        Columns ``method, transform, noise, mean, low, high, n, n_excluded``, and ``change, change_low,
        change_high``: the paired difference to the level before.

    Raises:
        ValueError: The method was not run.
    """
    drops = subject.tables[key].responses.drops()
    sums = drops if method == ORACLE else _sums(subject, SumsKey(method, "logit", key.grid, transform))
    spread = sums.std(1, keepdim=True)
    generator = CounterGenerator(seed, content_ids(subject.studied.explained.images))
    noise = generator.normal(0, sums)
    rows, before = [], None
    for level in levels:
        values = single_deletion_scores(sums + level * spread * noise, drops).values
        row = {"method": method, "transform": transform, "noise": level, **_interval(values, seed)}
        change = (np.nan,) * 3
        if before is not None:
            change = difference_interval(values.numpy(), before.numpy(), seed=seed)[:3]
        row |= dict(zip(("change", "change_low", "change_high"), change, strict=True))
        rows.append(row)
        before = values
    return pd.DataFrame(rows)


def breakdown_table(
    results: Results,
    subject: Subject,
    score: Score,
    *,
    by: Literal["class", "confidence"],
    n_bins: int = 4,
    seed: int = 0,
) -> pd.DataFrame:
    """Mean score of each method within classes, or within equal parts of the images by confidence.

    Args:
        results: Of the run.
        subject: The classifier of the score.
        score: Scores per image.
        by: ``class``, or ``confidence``: probability of the target while nothing is deleted.
        n_bins: Number of parts by confidence, from the least sure.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``method, transform, group, mean, low, high, n`` and, by confidence, ``from`` and ``to``.
    """
    table = subject.tables[results.headline]
    groups = _class_groups(subject, table) if by == "class" else _confidence_groups(table, n_bins)
    parts = []
    for name, rows, more in groups:
        values = score.values.to_numpy(dtype=float)[rows]
        mean, low, high = mean_intervals(values, n_resamples=N_RESAMPLES, seed=seed)
        fixed = {"group": name, "mean": mean, "low": low, "high": high, "n": (~np.isnan(values)).sum(0)}
        parts.append(pd.DataFrame({**score.values.columns.to_frame(index=False), **fixed, **more}))
    return pd.concat(parts, ignore_index=True)


def drop_facts(results: Results, subject: Subject) -> dict[str, float | str]:
    """Numbers about the drops themselves: accuracy intact and under deletion, and how many are negative."""
    table = subject.tables[results.headline]
    drops = table.responses.drops()
    return {
        "protocol": PROTOCOLS[subject.studied.stage],
        "accuracy": float(table.correct[:, 0].double().mean()),
        "accuracy_deleted": float(table.correct[:, 1:].double().mean()),
        "negative_drops": float((drops < 0).double().mean()),
        "mean_absolute_drop": float(drops.abs().mean()),
    }


def _sums(subject: Subject, key: SumsKey) -> Tensor:
    if key not in subject.sums:
        known = sorted({f"{one.method} ({one.transform})" for one in subject.sums})
        raise ValueError(f"no patch sums of {key.method!r} ({key.transform}); there are: {', '.join(known)}")
    return subject.sums[key]


def _interval(values: Tensor, seed: int) -> dict[str, float]:
    found = aggregate(values)
    mean, low, high = mean_intervals(values.numpy()[:, None], n_resamples=N_RESAMPLES, seed=seed)
    ends = {"mean": float(mean[0]), "low": float(low[0]), "high": float(high[0])}
    return {**ends, "n": found.n, "n_excluded": found.n_excluded}


Groups = list[tuple[str, np.ndarray, dict[str, float]]]


def _class_groups(subject: Subject, table: PatchTable) -> Groups:
    names, targets = subject.studied.explained.classifier.classes, table.targets.numpy()
    return [(names[target], np.flatnonzero(targets == target), {}) for target in np.unique(targets)]


def _confidence_groups(table: PatchTable, n_bins: int) -> Groups:
    found = confidences(table)
    if not 1 <= n_bins <= len(found):
        raise ValueError(f"n_bins must lie in 1 to {len(found)}, the number of images; got {n_bins}")
    parts = np.array_split(np.argsort(found, kind="stable"), n_bins)
    return [
        (
            f"part {number} of {n_bins}",
            rows,
            {"from": float(found[rows].min()), "to": float(found[rows].max())},
        )
        for number, rows in enumerate(parts, start=1)
    ]
