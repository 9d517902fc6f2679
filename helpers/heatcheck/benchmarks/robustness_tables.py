"""From similarities per image to the robustness tables: method against generative variant, sweep by sweep."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.findings import Finding, compare
from heatcheck.benchmarks.robustness import Robustness
from heatcheck.benchmarks.sweeps import Sweep, label_of
from heatcheck.metrics.robustness import accuracy_spread, aggregate_similarity, compare_similarity
from heatcheck.metrics.similarity import SIMILARITIES
from heatcheck.metrics.statistics import Interval, paired_bootstrap

HEADLINE = "spearman"
# Variants and the prefix of their columns.
_VARIANTS = {"base": "base", "generative": "g"}


def robustness_table(robust: Robustness, *, seed: int = 0) -> pd.DataFrame:
    """Mean similarity to the reference setting, of each method and its variant; higher is more robust.

    Args:
        robust: Of ``run_robustness``.
        seed: Seed of the bootstrap over images.

    Returns:
        A row per sweep and measure. Columns ``sweep, method, generative, values, measure``; for ``base`` and
        ``g`` (the generative variant) ``_mean, _low, _high`` with a 95 % interval over images, ``_deviation``
        (square root of the mean over images of the variance over settings, as Bansal et al. 2020 report) and
        ``_undefined``, the number of undefined pairs of maps; the paired ``difference`` g minus base with
        ``difference_low, difference_high``; and ``n``, the images in it, or in the base's mean where there is
        no variant. What there is no variant for is NaN.
    """
    rows = [
        _similarity_row(robust, sweep, measure, seed) for sweep in robust.sweeps for measure in SIMILARITIES
    ]
    return pd.DataFrame(rows)


def spread_table(robust: Robustness, *, seed: int = 0) -> pd.DataFrame:
    """Standard deviation of an image's score over the settings, mean over images; lower is more robust.

    A mean over images hides that the score of every image changes with the setting; this does not (Bansal
    et al. 2020).

    Args:
        robust: Of ``run_robustness``.
        seed: Seed of the bootstrap over images.

    Returns:
        A row per sweep and metric (``deletion``, ``iou``), with the columns of ``robustness_table``, but
        ``metric`` for ``measure`` and without ``_deviation``; ``_undefined`` counts images.
    """
    metrics = list(dict.fromkeys(robust.accuracy["metric"]))
    rows = [_spread_row(robust, sweep, metric, seed) for sweep in robust.sweeps for metric in metrics]
    return pd.DataFrame(rows)


def robustness_findings(robust: Robustness, *, measure: str = HEADLINE) -> list[Finding]:
    """Are the generative variants more robust? One answer per method, over all its sweeps.

    Per image: the mean over sweeps of the mean over settings, so that a sweep of many settings counts no
    more than one of few; only settings that are defined for both.

    Args:
        robust: Of ``run_robustness``.
        measure: ``spearman``, ``ssim`` or ``hog``.
    """
    paired = [sweep for sweep in robust.sweeps if sweep.generative]
    pairs = dict.fromkeys((sweep.method, str(sweep.generative)) for sweep in paired)
    found = []
    for base, generative in pairs:
        sweeps = [sweep for sweep in paired if sweep.method == base]
        means = _paired_means(robust, sweeps, measure)
        values = means.rename(columns={"base": base, "generative": generative})
        found.append(
            compare(
                f"robust_{base.replace('-', '_')}",
                f"Heatmaps of {generative} change less with their settings than those of {base}.",
                values,
                generative,
                base,
                less=False,
                source="agarwal2020explaining",
                quantity=f"similarity to the reference ({measure})",
            )
        )
    return found


def _similarity_row(robust: Robustness, sweep: Sweep, measure: str, seed: int) -> dict[str, Any]:
    rows = robust.similarities
    rows = rows[(rows["sweep"] == sweep.name) & (rows["measure"] == measure)]
    tables = {
        variant: _wide(rows, variant, sweep, "similarity", reference=False) for variant in _variants(sweep)
    }
    row: dict[str, Any] = _described(sweep) | {"measure": measure}
    for variant, prefix in _VARIANTS.items():
        summary = aggregate_similarity(tables[variant], seed=seed) if variant in tables else None
        row |= _interval(prefix, summary and summary.mean)
        row[f"{prefix}_deviation"] = summary.deviation if summary else np.nan
        row[f"{prefix}_undefined"] = summary.n_undefined if summary else np.nan
    difference = (
        compare_similarity(tables["generative"], tables["base"], seed=seed) if sweep.generative else None
    )
    counted = difference or aggregate_similarity(tables["base"], seed=seed).mean
    return row | _difference(difference) | {"n": counted.n}


def _spread_row(robust: Robustness, sweep: Sweep, metric: str, seed: int) -> dict[str, Any]:
    rows = robust.accuracy
    rows = rows[(rows["sweep"] == sweep.name) & (rows["metric"] == metric)]
    tables = {variant: _wide(rows, variant, sweep, "score", reference=True) for variant in _variants(sweep)}
    spreads = {variant: accuracy_spread(table, seed=seed) for variant, table in tables.items()}
    row: dict[str, Any] = _described(sweep) | {"metric": metric}
    for variant, prefix in _VARIANTS.items():
        found = spreads.get(variant)
        row |= _interval(prefix, found)
        row[f"{prefix}_undefined"] = found.n_excluded if found else np.nan
    difference = (
        paired_bootstrap(_deviations(tables["generative"]), _deviations(tables["base"]), seed=seed)
        if sweep.generative
        else None
    )
    return row | _difference(difference) | {"n": (difference or spreads["base"]).n}


def _paired_means(robust: Robustness, sweeps: Sequence[Sweep], measure: str) -> pd.DataFrame:
    """Columns ``base`` and ``generative``, a row per image."""
    parts: dict[str, list[pd.Series]] = {variant: [] for variant in _VARIANTS}
    rows = robust.similarities[robust.similarities["measure"] == measure]
    for sweep in sweeps:
        mine = rows[rows["sweep"] == sweep.name]
        both = {variant: _wide(mine, variant, sweep, "similarity", reference=False) for variant in _VARIANTS}
        defined = both["base"].notna() & both["generative"].notna()
        for variant, table in both.items():
            parts[variant].append(table.where(defined).mean(axis="columns"))
    return pd.DataFrame(
        {
            variant: pd.concat(columns, axis="columns").mean(axis="columns")
            for variant, columns in parts.items()
        }
    )


def _wide(rows: pd.DataFrame, variant: str, sweep: Sweep, column: str, *, reference: bool) -> pd.DataFrame:
    """Images by settings, both in the order they were run."""
    mine = rows[rows["variant"] == variant]
    table = mine.pivot(index="image", columns="value", values=column).astype(float)
    settings = [label_of(value) for value in (sweep.values if reference else sweep.varied)]
    return table.loc[list(dict.fromkeys(mine["image"])), settings]


def _deviations(table: pd.DataFrame) -> pd.Series:
    """Population standard deviation of each image's defined scores; NaN for fewer than two."""
    return table.std(axis="columns", ddof=0).where(table.notna().sum(axis="columns") >= 2)


def _variants(sweep: Sweep) -> list[str]:
    return ["base", "generative"] if sweep.generative else ["base"]


def _described(sweep: Sweep) -> dict[str, Any]:
    varied = ", ".join(label_of(value) for value in sweep.varied)
    return {
        "sweep": sweep.name,
        "method": sweep.method,
        "generative": sweep.generative,
        "values": f"{label_of(sweep.reference)} → {varied}",
    }


def _interval(prefix: str, found: Interval | None) -> dict[str, float]:
    mean, low, high = (np.nan,) * 3 if found is None else (found.mean, found.low, found.high)
    return {f"{prefix}_mean": mean, f"{prefix}_low": low, f"{prefix}_high": high}


def _difference(found: Interval | None) -> dict[str, float]:
    mean, low, high = (np.nan,) * 3 if found is None else (found.mean, found.low, found.high)
    return {"difference": mean, "difference_low": low, "difference_high": high}
