"""From scores per image to the chapter's tables: means with paired intervals, ranks, published values."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.attribution.registry import is_control as is_control
from heatcheck.benchmarks.idsds_methods import is_aligned, study_row
from heatcheck.benchmarks.idsds_scores import N_RESAMPLES, Condition, Score
from heatcheck.metrics.flags import FLAGS, OK
from heatcheck.metrics.resampling import defined_means, mean_intervals
from heatcheck.metrics.statistics import average_ranks

CHAPTER = "idsds"
Array = NDArray[np.float64]


def score_table(scores: Sequence[Score], *, profile: str, seed: int = 0) -> pd.DataFrame:
    """Means of all methods with 95 % bootstrap intervals over images, one row per method and transform.

    Args:
        scores: Which scores.
        profile: ``reference`` or ``corrected``; a table holds one of them.
        seed: Seed of the bootstrap; the methods of a score share their resamples.

    Returns:
        Columns ``profile, model, stage, protocol, output, grid, fill, method, transform, row`` (the study's
        name), ``mean, standard_error, low, high, rank, n, n_excluded``, one count per flag,
        ``mean_common, n_common`` over the images that every method has a score of, ``mean_correct,
        n_correct`` over those the model is right about, ``is_control, is_aligned, better``. Equal means
        share a rank.
    """
    tables = [_summary(score, seed).assign(profile=profile) for score in scores if score.values.shape[1]]
    table = pd.concat(tables, ignore_index=True)
    first = ["profile", *Condition._fields, "method", "transform", "row"]
    return table[[*first, *(name for name in table if name not in first)]]


def compare_transforms(
    score: Score, *, first: str = "raw", second: str = "abs", seed: int = 0
) -> pd.DataFrame:
    """Difference that a transform makes to each method, paired over images.

    Args:
        score: Scores of one condition.
        first: Transform.
        second: Another one.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``method, <first>, <second>, difference, low, high, n`` with the 95 % interval of first minus
        second. Methods that lack one of them are left out.
    """
    methods = [
        str(name)
        for name in dict.fromkeys(score.values.columns.get_level_values("method"))
        if {(name, first), (name, second)} <= set(score.values.columns)
    ]
    pairs = [score.values[[(name, first), (name, second)]].to_numpy(dtype=float) for name in methods]
    columns = [difference_interval(pair[:, 0], pair[:, 1], seed=seed) for pair in pairs]
    means = [defined_means(pair) for pair in pairs]
    return pd.DataFrame(
        {
            "method": methods,
            first: [float(mean[0]) for mean in means],
            second: [float(mean[1]) for mean in means],
            "difference": [found[0] for found in columns],
            "low": [found[1] for found in columns],
            "high": [found[2] for found in columns],
            "n": [found[3] for found in columns],
        }
    )


def difference_interval(first: Array, second: Array, *, seed: int = 0) -> tuple[float, float, float, int]:
    """Mean of ``first - second`` ``(N,)``, its 95 % interval over images, and the number of pairs."""
    difference = np.asarray(first, dtype=float) - np.asarray(second, dtype=float)
    mean, low, high = mean_intervals(difference[:, None], n_resamples=N_RESAMPLES, seed=seed)
    return float(mean[0]), float(low[0]), float(high[0]), int((~np.isnan(difference)).sum())


def _summary(score: Score, seed: int) -> pd.DataFrame:
    values, columns = score.values.to_numpy(dtype=float), score.values.columns
    mean, low, high = score.intervals(seed=seed)
    defined = ~np.isnan(values)
    common = defined.all(1)
    right = score.correct.loc[score.values.index].to_numpy(dtype=bool)
    methods = [str(name) for name in columns.get_level_values("method")]
    transforms = [str(name) for name in columns.get_level_values("transform")]
    flags = score.flags.to_numpy()
    return pd.DataFrame(
        {
            **score.condition._asdict(),
            "method": methods,
            "transform": transforms,
            "row": [study_row(*pair) for pair in zip(methods, transforms, strict=True)],
            "mean": mean,
            "standard_error": _errors(values),
            "low": low,
            "high": high,
            "rank": average_ranks(mean, best="high" if score.better == "higher" else "low"),
            "n": defined.sum(0),
            "n_excluded": (~defined).sum(0),
            **{f"n_{flag}": (flags == flag).sum(0) for flag in FLAGS if flag != OK},
            "mean_common": defined_means(values[common]),
            "n_common": int(common.sum()),
            "mean_correct": defined_means(values[right]),
            "n_correct": defined[right].sum(0),
            "is_control": [is_control(name) for name in methods],
            "is_aligned": [is_aligned(name) for name in methods],
            "better": score.better,
        }
    )


def _errors(values: Array) -> Array:
    """Standard errors ``(P,)`` of the means; NaN for fewer than two values."""
    defined = ~np.isnan(values)
    count = defined.sum(0)
    squares = np.where(defined, (values - defined_means(values)) ** 2, 0).sum(0)
    free = np.maximum(count - 1, 1) * np.maximum(count, 1)
    return np.where(count > 1, np.sqrt(squares / free), np.nan)
