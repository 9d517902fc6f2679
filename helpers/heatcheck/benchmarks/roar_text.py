"""Tables of the remove-and-retrain chapter as a page shows them, and the numbers its prose quotes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import INTACT, label
from heatcheck.benchmarks.roar_controls import matched_table, probe_table
from heatcheck.benchmarks.roar_published import published_summary
from heatcheck.benchmarks.roar_tables import RANDOM, stability

MODES = {"roar": "ROAR", "kar": "KAR"}
_SPEARMAN = ("spearman", "spearman_low", "spearman_high")


def accuracy_text(table: pd.DataFrame, results: Results) -> pd.DataFrame:
    """Accuracies in percent, mean and standard deviation over runs, laid out as the published table.

    Args:
        table: A ``condition_table``.
        results: Of the run.
    """
    fill = results.settings.fill
    rows = table[(table["way"] == "scratch") & (table["fill"] == fill) & (table["checkpoint"] == 0)]
    rows = rows[(rows["ranking"] != INTACT) & ~rows["ranking"].str.contains("/")]
    cells = [
        f"{100 * mean:.1f}" if np.isnan(std) else f"{100 * mean:.1f} ± {100 * std:.1f}"
        for mean, std in zip(rows["mean"], rows["std"], strict=True)
    ]
    heads = rows["mode"].map(MODES) + " " + rows["percent"].astype(str)
    wide = rows.assign(cell=cells, head=heads).pivot(index="label", columns="head", values="cell")
    wide = wide.loc[list(dict.fromkeys(rows["label"])), list(dict.fromkeys(heads))]
    return wide.rename_axis(index="estimator", columns=None).reset_index()


def summary_text(summary: pd.DataFrame) -> pd.DataFrame:
    """RACU, KAR area and DiffROAR in the middle in one row per estimator, the highest RACU first.

    Areas and DiffROAR are in percentage points.
    """
    if summary.empty:
        return pd.DataFrame({"estimator": ["nothing was compared: run ROAR and another estimator"]})
    known = list(dict.fromkeys(summary["quantity"]))
    differences = [name for name in known if name.startswith("DiffROAR")]
    shown = ["RACU", *("ABC KAR",) * ("ABC KAR" in known), *differences[len(differences) // 2 :][:1]]
    by_quantity = {name: summary[summary["quantity"] == name].set_index("estimator") for name in shown}
    racu = by_quantity["RACU"]
    columns = {
        "estimator": racu["label"],
        "RACU ↑": _spans(racu, 1, 3),
        "rank": racu.apply(_rank, axis=1),
        "p (Holm)": pd.Series(["" if np.isnan(p) else f"{p:.3f}" for p in racu["p_holm"]], index=racu.index),
    }
    for name in shown[1:]:
        columns[{"ABC KAR": "KAR area ↑"}.get(name, name)] = _spans(by_quantity[name], 100, 1)
    order = racu["estimate"].sort_values(ascending=False).index
    return pd.DataFrame(columns).reindex(order).reset_index(drop=True)


def published_text(summary: pd.DataFrame) -> pd.DataFrame:
    """RACU of this run beside that computed from the published accuracies, which is not comparable."""
    published = published_summary().pivot(index="method", columns="data", values="racu")
    racu = summary[summary["quantity"] == "RACU"].sort_values("estimate", ascending=False)
    own = racu.set_index("estimator")
    both = [*own.index, *(name for name in published.index if name not in own.index and name != RANDOM)]
    columns = {
        "estimator": pd.Series([label(name) for name in both], index=both),
        "this run": _spans(own, 1, 2).reindex(both, fill_value=""),
    }
    for data in published.columns:
        values = published[data].reindex(both)
        texts = ["" if np.isnan(value) else f"{value:+.2f}" for value in values]
        columns[f"{data}, published"] = pd.Series(texts, index=both)
    return pd.DataFrame(columns).reset_index(drop=True)


def agreement_text(agreement: pd.DataFrame) -> pd.DataFrame:
    """Agreement of ROAR and KAR, a row per data set, a column per threshold; intervals where known."""
    rows = []
    for data, part in agreement.groupby("data", sort=False):
        row = {"data": str(data).replace("without doubtful", "sound")}
        for one in part.to_dict("records"):
            head = "whole curves" if pd.isna(one["percent"]) else f"{one['percent']} %"
            row[head] = _span([one[name] for name in _SPEARMAN], 2)
        rows.append(row | {"estimators": str(part["n"].iloc[0])})
    percents = sorted(int(percent) for percent in agreement["percent"].dropna().unique())
    order = ["data", "estimators", "whole curves", *(f"{percent} %" for percent in percents)]
    return pd.DataFrame(rows, columns=order).fillna("")


def ways_text(table: pd.DataFrame) -> pd.DataFrame:
    """Ways to judge in one row each: agreement with full retraining by mode, trainings and CPU seconds."""
    rows = []
    for (way, fill), part in table.groupby(["way", "fill"], sort=False):
        row: dict[str, Any] = {"way": part["text"].iloc[0], "trainings": int(part["trainings"].iloc[0])}
        row["CPU seconds"] = f"{part['seconds'].iloc[0]:.0f}"
        row["percent"] = part["percents"].iloc[0]
        row["estimators"] = int(part["n"].iloc[0])
        reference = (way, fill) == (table["way"].iloc[0], table["fill"].iloc[0])
        for one in part.to_dict("records"):
            row[f"{MODES[str(one['mode'])]}, rank correlation"] = (
                "the reference"
                if reference
                else _span([one[name] for name in _SPEARMAN], 2) or "too few estimators"
            )
        rows.append(row)
    return pd.DataFrame(rows)


def leak_text(leaks: pd.DataFrame) -> pd.DataFrame:
    """What masks give away, in one row per ranking and condition."""
    if leaks.empty:
        return pd.DataFrame({"estimator": ["no masks were learned from"]})
    heads = {
        "accuracy": "masks alone, %",
        "retrained": "masked images, %",
        "leak_score": "leak score",
        "variational": "information ≥, nats",
        "fano": "by Fano ≥, nats",
    }
    rows = []
    for (_, name, mode, percent), part in leaks.groupby(["ranking", "label", "mode", "percent"], sort=False):
        row = {"estimator": str(name), "removal": f"{MODES[str(mode)]} {percent} %"}
        found = part.set_index("quantity")
        for quantity, head in heads.items():
            scale, digits = (100, 1) if head.endswith("%") else (1, 2)
            row[head] = _span(
                [found.loc[quantity, end] for end in ("estimate", "low", "high")], digits, scale
            )
        rows.append(row)
    return pd.DataFrame(rows)


def control_text(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Differences to controls made from an estimator's maps in percentage points, a row per question."""
    differences, probes = (made(results, seed=seed) for made in (matched_table, probe_table))
    turned = np.where(probes["mode"] == "roar", -1.0, 1.0)
    # Gain instead of difference; the ends of an interval change places when its sign is turned.
    ends = np.sort(probes[["low", "high"]].to_numpy(dtype=float) * turned[:, None], axis=1)
    probes = probes.assign(difference=probes["gain"], low=ends[:, 0], high=ends[:, 1])
    both = [part for part in (differences, probes) if len(part)]
    if not both:
        return pd.DataFrame({"estimator": ["no controls were made from maps"]})
    table = pd.concat(both, ignore_index=True)
    heads = table["mode"].map(MODES) + " " + table["percent"].astype(str) + " %"
    parts = table[["difference", "low", "high"]].itertuples(index=False)
    wide = table.assign(text=[_span(part, 1, 100) for part in parts], head=heads).pivot(
        index=["label", "question"], columns="head", values="text"
    )
    order = pd.MultiIndex.from_frame(table[["label", "question"]].drop_duplicates())
    wide = wide.reindex(order)[list(dict.fromkeys(heads))].rename_axis(columns=None).reset_index()
    return wide.rename(columns={"label": "estimator", "question": "what is compared"})


def recursive_text(table: pd.DataFrame) -> pd.DataFrame:
    """A ``recursive_table`` in percent."""
    if table.empty:
        return pd.DataFrame({"estimator": ["nothing was removed in steps"]})
    ends = table[["difference", "low", "high"]].itertuples(index=False)
    return pd.DataFrame(
        {
            "estimator": table["label"],
            "removed": [f"{percent} %" for percent in table["percent"]],
            "in steps": [f"{100 * value:.1f}" for value in table["recursive"]],
            "at once": [f"{100 * value:.1f}" for value in table["at_once"]],
            "difference": [_span(part, 1, 100) for part in ends],
        }
    )


def spread_text(results: Results, variances: pd.DataFrame) -> pd.DataFrame:
    """Agreement of single runs, and below it the parts of the spread where several networks were explained.

    Args:
        results: Of a run.
        variances: Its ``variance_table``.
    """
    found = stability(results)
    if found is None:
        rows = [("agreement of runs", "not known from one run or estimator")]
    else:
        measures = (
            (f"Spearman, mean over pairs of {found.n_runs} runs", found.spearman),
            ("Kendall's tau, mean over pairs", found.kendall),
            ("Kendall's W, all runs at once", found.concordance),
            (f"p-value of {found.n_methods} estimators in random order", found.p_value),
        )
        rows = [(name, "undefined" if np.isnan(value) else f"{value:.3f}") for name, value in measures]
    rows += [
        (
            f"{row['label']}: SD between networks / between retrainings",
            f"{row['between_networks']:.3f} / {row['between_runs']:.3f}",
        )
        for row in variances.to_dict("records")
    ]
    return pd.DataFrame(rows, columns=["RACU", "value"])


def cost_text(cost: pd.DataFrame) -> pd.DataFrame:
    """The published study's cost, in readable units."""
    return pd.DataFrame(
        {
            "data": cost["data"],
            "trainings": cost["trainings"],
            "images seen per training": [f"{seen / 1e6:.1f} million" for seen in cost["images_seen"]],
            "operations": [f"{flop:.1e}" for flop in cost["flop"]],
            "training, GPU hours": [f"{hours:,.0f}" for hours in cost["training_hours"]],
            "maps, GPU hours": [f"{hours:,.1f}" for hours in cost["map_hours"]],
            "levels stored": [bytes_text(size) for size in cost["map_bytes"]],
            "data sets not written": [bytes_text(size) for size in cost["set_bytes"]],
        }
    )


def storage_text(storage: pd.DataFrame) -> pd.DataFrame:
    """A ``storage_table`` in readable units."""
    texts = {name: storage[name].map(bytes_text) for name in ("per_estimator", "all")}
    return pd.DataFrame(
        {"stored": storage["what"], "per estimator": texts["per_estimator"], "all": texts["all"]}
    )


def bytes_text(size: float) -> str:
    """``size`` bytes in decimal units, three digits."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _rank(row: pd.Series) -> str:
    if np.isnan(row["rank"]):
        return ""
    return f"{row['rank']:.0f} [{row['rank_low']:.0f}, {row['rank_high']:.0f}]"


def _spans(rows: pd.DataFrame, scale: float, digits: int) -> pd.Series:
    texts = [_span(ends, digits, scale) for ends in rows[["estimate", "low", "high"]].itertuples(index=False)]
    return pd.Series(texts, index=rows.index, dtype=object)


def _span(ends: Sequence[Any], digits: int, scale: float = 1) -> str:
    """``mean [low, high]``, without an interval where there is none; empty where the mean is undefined."""
    mean, low, high = (float("nan") if pd.isna(end) else scale * float(end) for end in ends)
    if np.isnan(mean):
        return ""
    return (
        f"{mean:.{digits}f}" if np.isnan(low) else f"{mean:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"
    )
