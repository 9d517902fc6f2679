"""Tables of the comparison as a page shows them: numbers and their intervals as text."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd

from heatcheck.benchmarks.clevr_xai_summary import interval_texts
from heatcheck.benchmarks.comparison_columns import METRICS, TITLES, Benchmark, Column, main_columns
from heatcheck.benchmarks.comparison_tables import HEADLINE, MEAN_RANK, rank_table, score_table

ARROWS = {"lower": "\N{DOWNWARDS ARROW}", "higher": "\N{UPWARDS ARROW}"}
_DASH = "\N{EN DASH}"


def metric_text(columns: Sequence[Column]) -> pd.DataFrame:
    """What each metric asks of a heatmap, of how many images, and in which direction it is better."""
    main = main_columns(columns)
    return pd.DataFrame(
        {
            "benchmark": [TITLES[column.metric.benchmark] for column in main],
            "metric": [f"{column.metric.label} {ARROWS[column.metric.better]}" for column in main],
            "asks": [column.metric.asks for column in main],
            "explains": [column.classifier for column in main],
            "images": [len(column.images) for column in main],
            "trainings": [column.n_runs if column.metric.benchmark == "roar" else 0 for column in main],
        }
    )


def glance_text(columns: Sequence[Column], *, seed: int = 0) -> pd.DataFrame:
    """One metric per benchmark for every method, the best mean rank first, controls last.

    Columns ``method``, ``mean rank`` and a metric each, as ``value [interval]``, with an arrow to where is
    better; a dash where a benchmark cannot take a method. Controls are ranked among the methods.
    """
    main = [column for column in main_columns(columns) if column.key in HEADLINE]
    scores = score_table(main, seed=seed)
    ranks = rank_table(columns, with_controls=True)[MEAN_RANK]
    control = scores.drop_duplicates("method").set_index("method")["is_control"].astype(bool)
    order = [name for name in ranks.index if not control[name]]
    order += [name for name in ranks.index if control[name]]
    table = pd.DataFrame({"method": order, MEAN_RANK: [_number(ranks[name], ".1f") for name in order]})
    for column in main:
        rows = scores[scores["metric"] == column.key].set_index("method")
        heading = f"{column.metric.label} {ARROWS[column.metric.better]}"
        table[heading] = [text or _DASH for text in interval_texts(rows.loc[order])]
    return table


def refusal_text(refused: Mapping[Benchmark, Mapping[str, str]]) -> pd.DataFrame:
    """Which benchmark cannot take which method, and why, in the method's own words."""
    rows = [
        (TITLES[benchmark], method, reason)
        for benchmark, reasons in refused.items()
        for method, reason in reasons.items()
    ]
    return pd.DataFrame(rows, columns=["benchmark", "method", "why"])


def agreement_text(agreement: pd.DataFrame) -> pd.DataFrame:
    """Pairs of metrics of one headline metric per benchmark: tau and rho with intervals, band of chance."""
    headline = agreement["first"].isin(HEADLINE) & agreement["second"].isin(HEADLINE)
    rows = agreement[headline].drop_duplicates(["first", "second"])
    return pd.DataFrame(
        {
            "metrics": rows["first_label"] + " and " + rows["second_label"],
            "Kendall's tau": _signed(rows, "kendall"),
            "Spearman's rho": _signed(rows, "spearman"),
            "tau of random rankings": [
                _DASH if np.isnan(low) else f"{low:+.2f} to {high:+.2f}"
                for low, high in zip(rows["chance_low"], rows["chance_high"], strict=True)
            ],
            "methods": rows["n"],
        }
    )


def concordance_text(concordance: pd.DataFrame) -> pd.DataFrame:
    """Kendall's W of each group with its interval, beside that of random rankings."""
    named = {"group": "rankings of", "raters": "how many", "n_methods": "methods"}
    table = concordance[list(named)].rename(columns=named)
    table["Kendall's W"] = interval_texts(concordance.rename(columns={"w": "mean"}))
    table["random up to"] = [_number(value, ".2f") for value in concordance["chance"]]
    return table.assign(p=[_number(value, ".3f") for value in concordance["p_value"]])


def contradiction_text(table: pd.DataFrame) -> pd.DataFrame:
    """Pairs of benchmarks: how many pairs of methods both decide, how many oppositely, and the strongest."""
    return pd.DataFrame(
        {
            "benchmarks": table["first_label"] + " / " + table["second_label"],
            "decided by both": table["decided"],
            "oppositely": table["contradicted"],
            "share": [_DASH if np.isnan(share) else f"{share:.0%}" for share in table["share"]],
            "strongest contradiction": table["worst"],
        }
    )


def sign_text(signs: pd.DataFrame) -> pd.DataFrame:
    """Tau of each metric with one headline metric per other benchmark, with signs and without."""
    rows = signs[signs["other"].isin(HEADLINE)]
    return pd.DataFrame(
        {
            "metrics": rows["label"] + " and " + rows["other_label"],
            "tau, signed maps": _taus(rows["signed"]),
            "tau, absolute maps": _taus(rows["absolute"]),
            "difference": [
                _DASH if np.isnan(value) else f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"
                for value, low, high in rows[["difference", "low", "high"]].itertuples(index=False)
            ],
        }
    )


def control_text(controls: pd.DataFrame) -> pd.DataFrame:
    """How many methods each control beats under every metric: controls by metrics."""
    cells = controls.assign(
        cell=[
            _DASH if np.isnan(rank) else f"{beats:.0f}"
            for rank, beats in zip(controls["rank"], controls["beats"], strict=True)
        ]
    )
    wide = cells.pivot(index="control", columns="label", values="cell")
    labels = [metric.label for metric in METRICS.values() if metric.label in wide]
    wide = wide.reindex(index=list(dict.fromkeys(controls["control"])), columns=labels)
    return wide.reset_index().rename_axis(columns=None)


def cluster_text(clusters: pd.DataFrame) -> pd.DataFrame:
    """The metric that each is most like, and how sure that is over resamples."""
    return pd.DataFrame(
        {
            "metric": clusters["label"],
            "benchmark": clusters["benchmark"].map(TITLES),
            "group": clusters["cluster"],
            "most like": clusters["nearest_label"],
            "tau": [f"{tau:+.2f}" for tau in clusters["tau"]],
            "in resamples": [f"{share:.0%}" for share in clusters["support"]],
        }
    )


def stability_text(stability: pd.DataFrame) -> pd.DataFrame:
    """Mean tau of each metric with itself and with others, by kind of comparison."""
    wide = stability.groupby(["label", "kind"], sort=False)["kendall"].mean().unstack("kind")
    labels = list(dict.fromkeys(stability["label"]))
    kinds = list(dict.fromkeys(stability["kind"]))
    text = wide.reindex(index=labels, columns=kinds).map(
        lambda tau: _DASH if np.isnan(tau) else f"{tau:+.2f}"
    )
    return text.reset_index().rename(columns={"label": "metric"}).rename_axis(columns=None)


def groups_of(labels: Iterable[object]) -> dict[str, list[str]]:
    """Those of ``labels`` that are metrics, by the title of their benchmark."""
    known = set(map(str, labels))
    groups = {
        title: [m.label for m in METRICS.values() if m.benchmark == benchmark and m.label in known]
        for benchmark, title in TITLES.items()
    }
    return {title: group for title, group in groups.items() if group}


def published_text(pairs: pd.DataFrame) -> pd.DataFrame:
    """Pairs of published tables of different benchmarks: shared methods, tau, and the band of chance."""
    rows = pairs[~pairs["same_benchmark"].astype(bool)]
    tau = [_DASH if np.isnan(value) else f"{value:+.2f}" for value in rows["kendall"].astype(float)]
    band = [
        _DASH if np.isnan(low) else f"{low:+.2f} to {high:+.2f}"
        for low, high in rows[["chance_low", "chance_high"]].astype(float).itertuples(index=False)
    ]
    return pd.DataFrame(
        {
            "tables": rows["first"] + " / " + rows["second"],
            "shared methods": rows["methods"],
            "tau": tau,
            "random rankings": band,
            "note": rows["note"],
        }
    )


def _taus(values: pd.Series) -> list[str]:
    return [_DASH if np.isnan(value) else f"{value:+.2f}" for value in values]


def _signed(rows: pd.DataFrame, name: str) -> list[str]:
    return [
        _DASH if np.isnan(value) else f"{value:+.2f} [{low:+.2f}, {high:+.2f}]"
        for value, low, high in zip(rows[name], rows[f"{name}_low"], rows[f"{name}_high"], strict=True)
    ]


def _number(value: float, form: str) -> str:
    return _DASH if np.isnan(value) else format(value, form)
