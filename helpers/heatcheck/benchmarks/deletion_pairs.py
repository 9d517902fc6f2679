"""Perturbation methods against their generative variants: what inpainting does to maps and scores."""

import numpy as np
import pandas as pd

from heatcheck.benchmarks.deletion import Results
from heatcheck.benchmarks.deletion_removal import PAIRS, run_pairs
from heatcheck.benchmarks.deletion_scores import STATISTICS
from heatcheck.benchmarks.deletion_tables import BETTER, LOCALIZATION, Score
from heatcheck.benchmarks.findings import Finding, compare
from heatcheck.metrics.resampling import mean_intervals

# Metrics by which the variants were published to be more accurate; the fill, where it is not the first.
_METRICS = (("deletion", None), ("deletion", "pushpull"), (LOCALIZATION, None), ("saliency-metric", None))

# What the published maps of one photograph each show: method, statistic, and whether inpainting lowers it.
_PUBLISHED_EFFECTS = (("sliding-patch", "map mean", True), ("lime", "map maximum", False))


def statistic_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Smallest, largest and mean value of the counted images' maps, method against variant.

    Args:
        results: Of a run.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``method, variant, statistic``, ``base`` and ``generative`` (means over images), the paired
        ``difference, low, high`` of variant minus method with a 95 % interval, and ``n``. Without a pair in
        the run, no rows.
    """
    columns = ["method", "variant", "statistic", "base", "generative", "difference", "low", "high", "n"]
    table, rows = results.scores[results.scores["data"] == results.settings.counted], []
    for base, variant in run_pairs(results).items():
        for statistic in STATISTICS:
            mine = table[table["metric"] == statistic].pivot(index="image", columns="method", values="value")
            pair = mine[[base, variant]].astype(float).dropna()
            values = np.column_stack([pair[base], pair[variant], pair[variant] - pair[base]])
            mean, low, high = mean_intervals(values, seed=seed) if len(pair) else [[np.nan] * 3] * 3
            rows.append((base, variant, statistic, *mean, low[2], high[2], len(pair)))
    return pd.DataFrame(rows, columns=columns)


def statistic_text(table: pd.DataFrame) -> pd.DataFrame:
    """``statistic_table`` as readers see it, a row per pair and statistic; without pairs, one row says so."""
    if table.empty:
        return pd.DataFrame({"method": ["No method was run together with its variant."]})
    intervals = [f"{row[5]:+.3f} [{row[6]:+.3f}, {row[7]:+.3f}]" for row in table.to_numpy()]
    return pd.DataFrame(
        {
            "method": table["method"],
            "statistic": table["statistic"],
            "method alone": table["base"],
            "with inpainting": table["generative"],
            "difference [95 % interval]": intervals,
        }
    )


def method_statistics(table: pd.DataFrame) -> pd.DataFrame:
    """Means of ``statistic_table`` with a row per method and statistic: ``method, metric, mean``."""
    parts = []
    for name, column in (("method", "base"), ("variant", "generative")):
        named = {"method": table[name], "metric": table["statistic"], "mean": table[column]}
        parts.append(pd.DataFrame(named))
    return pd.concat(parts, ignore_index=True)


def statistic_findings(results: Results) -> list[Finding]:
    """Do inpainted windows cost less on average, and do coefficients of LIME grow, as published maps show?"""
    table = results.scores[results.scores["data"] == results.settings.counted]
    found = []
    for base, statistic, less in _PUBLISHED_EFFECTS:
        if base not in run_pairs(results):
            continue
        mine = table[table["metric"] == statistic].pivot(index="image", columns="method", values="value")
        word = "lowers" if less else "raises"
        found.append(
            compare(
                f"{word}_{base}".replace("-", "_"),
                f"Inpainting {word} the {statistic.removeprefix('map ')} of {base}'s heatmaps.",
                mine.astype(float),
                PAIRS[base],
                base,
                less=less,
                source="agarwal2020explaining",
                quantity=statistic,
            )
        )
    return found


def variant_findings(scores: list[Score], data: str) -> list[Finding]:
    """Are the generative variants more accurate? One answer per pair and metric that were run.

    Deletion is asked twice where it was run with an inpainter as well: a fill may favor its own method.
    """
    found = []
    for metric, fill in _METRICS:
        known = [score for score in scores if (score.data, score.metric) == (data, metric)]
        score = next((one for one in known if fill in (None, one.fill)), None)
        # Without a fill of its own it is the headline's, which is asked for already.
        if score is None or (fill is not None and score is known[0]):
            continue
        for base, variant in PAIRS.items():
            if {base, variant} <= set(score.values.columns):
                found.append(_variant(score, base, variant, inpainted=fill is not None))
    return found


def _variant(score: Score, base: str, variant: str, *, inpainted: bool) -> Finding:
    metric = score.metric
    key = f"variant_{base}_{metric}" + (f"_{score.fill}" if inpainted else "")
    end = f" when deleted pixels are inpainted as well ({score.fill})." if inpainted else "."
    return compare(
        key.replace("-", "_").replace(" ", "_"),
        f"{variant} is more accurate than {base} by {metric}{end}",
        score.values,
        variant,
        base,
        less=BETTER[metric] == "lower",
        source="agarwal2020explaining",
        quantity=metric if score.fill is None else f"{metric} ({score.fill})",
    )
