"""Tables of the CLEVR-XAI chapter as a page shows them, and the numbers that its prose quotes."""

from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.clevr_xai import Results
from heatcheck.benchmarks.clevr_xai_controls import EXPERIMENTS
from heatcheck.benchmarks.clevr_xai_scores import MASS, RANK
from heatcheck.benchmarks.clevr_xai_subsets import answer_table
from heatcheck.benchmarks.clevr_xai_tables import Cut, is_control
from heatcheck.data.clevr.ground_truth import Kind

_SHORT = {MASS: "mass", RANK: "rank"}
NOT_RUN = "not run"
_QUOTED = ("lrp", "guided-backprop", "gradient", "deconvnet")  # methods that the prose compares


def paper_style(table: pd.DataFrame, kind: Kind, *, median: bool = True) -> pd.DataFrame:
    """One row per method, one column per ground truth and metric: ``mean (std), median``, as published.

    Args:
        table: Of ``paper_table`` or ``accuracy_table``.
        kind: Which questions.
        median: Write the median too.
    """
    mine = table[table["kind"] == kind]
    if mine.empty:
        return pd.DataFrame({"method": [NOT_RUN]})
    # Rows are the paper's methods, unless a table holds several variants of one.
    names = "method" if mine.duplicated([*Cut._fields, "paper_method"]).any() else "paper_method"
    text = mine.assign(
        text=[
            _accuracy(mean, std, middle if median else None)
            for mean, std, middle in zip(mine["mean"], mine["std"], mine["median"], strict=True)
        ],
        column=mine["metric"].map(_SHORT).astype(str) + ", " + mine["ground_truth"].astype(str) + " ↑",
    )
    first = text["column"].iloc[0]
    order = text[text["column"] == first].sort_values(["is_control", "mean"], ascending=[True, False])[names]
    columns = list(dict.fromkeys(text["column"]))
    wide = text.pivot(index=names, columns="column", values="text").loc[list(order), columns]
    return wide.rename_axis(index="method", columns=None).reset_index()


def choice_table(paper: pd.DataFrame, kind: Kind, ground_truth: str) -> pd.DataFrame:
    """What the best variant and poolings of each method are, its ranks, and how many maps were discarded.

    Returns:
        Columns ``method, variant, pooling for mass, pooling for rank, rank by mass, rank by rank,
        discarded``; ranks with their 95 % intervals.
    """
    mine = paper[(paper["kind"] == kind) & (paper["ground_truth"] == ground_truth) & ~paper["is_control"]]
    by_mass, by_rank = (mine[mine["metric"] == metric].set_index("paper_method") for metric in (MASS, RANK))
    by_mass = by_mass.sort_values("rank", kind="stable")
    by_rank = by_rank.loc[by_mass.index]
    variants = [
        " / ".join(dict.fromkeys(pair)) for pair in zip(by_mass["method"], by_rank["method"], strict=True)
    ]
    return pd.DataFrame(
        {
            "method": by_mass.index,
            "variant": variants,
            "pooling for mass": by_mass["pooling"].to_numpy(),
            "pooling for rank": by_rank["pooling"].to_numpy(),
            "rank by mass": _ranks(by_mass),
            "rank by rank": _ranks(by_rank),
            "discarded": by_mass["discarded"].to_numpy(),
        }
    )


def neighbor_text(pairs: pd.DataFrame) -> pd.DataFrame:
    """Each method beside the next one of the ranking, with the interval of their difference."""
    near = pairs[pairs["neighbors"]]
    return pd.DataFrame(
        {
            "method": near["first"],
            "next": near["second"],
            "difference": [_interval(row) for _, row in near.iterrows()],
            "n": near["n"],
        }
    )


def control_text(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """One row per method, one column per control experiment, with intervals."""
    mine = table[table["measure"] == measure]
    if mine.empty:
        return pd.DataFrame({"method": [NOT_RUN]})
    text = mine.assign(text=[_interval(row, "mean") for _, row in mine.iterrows()])
    columns = [name for name in EXPERIMENTS if (text["experiment"] == name).any()]
    methods = list(dict.fromkeys(text["method"]))
    wide = text.pivot(index="method", columns="experiment", values="text").loc[methods, columns]
    return wide.rename_axis(columns=None).reset_index()


def likeness_text(table: pd.DataFrame, experiment: str) -> dict[str, str]:
    """For a few methods, how alike their maps stay in a control experiment, as text for the prose.

    Keys are names with underscores; a method that was not run says so.
    """
    mine = table[(table["experiment"] == experiment) & (table["measure"] == "spearman")]
    means = dict(zip(mine["method"], mine["mean"].astype(float), strict=True))
    return {name.replace("-", "_"): f"{means[name]:.2f}" if name in means else NOT_RUN for name in _QUOTED}


def variant_text(table: pd.DataFrame, ground_truth: str) -> pd.DataFrame:
    """Settings of all groups: mass and rank, each with its difference to the main setting."""
    mine = table[table["ground_truth"] == ground_truth] if len(table) else table
    if mine.empty:
        return pd.DataFrame({"method": [NOT_RUN]})
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in mine.to_dict("records"):
        key = (str(row["group"]), str(row["method"]), str(row["label"]))
        found = rows.setdefault(key, dict(zip(("group", "method", "setting"), key, strict=True)))
        name = _SHORT[row["metric"]]
        found[name] = f"{row['mean']:.2f} ({row['pooling']})"
        low, high = row["difference_low"], row["difference_high"]
        change = "" if np.isnan(row["difference"]) else f"{row['difference']:+.2f} [{low:+.2f}, {high:+.2f}]"
        found[f"{name}, to main"] = "main" if row["is_main"] else change
    return pd.DataFrame(list(rows.values()))


def level_text(levels: pd.DataFrame) -> pd.DataFrame:
    """One row per level of a ``reference_table``, one column per metric and ground truth."""
    named = levels.assign(
        column=[
            f"{_SHORT[metric]}, {truth} ({kind})"
            for metric, truth, kind in zip(
                levels["metric"], levels["ground_truth"], levels["kind"], strict=True
            )
        ]
    )
    order, columns = (list(dict.fromkeys(named[name])) for name in ("level", "column"))
    wide = named.pivot(index="level", columns="column", values="mean").loc[order, columns]
    return wide.rename_axis(columns=None).reset_index()


def quotable(results: Results, paper: pd.DataFrame, split: pd.DataFrame) -> dict[str, Any]:
    """Numbers and names that the chapter's prose quotes."""
    predictions, settings = results.predictions, results.settings
    answers = answer_table(predictions)
    overall = answers[answers["type"] == "all"].set_index("kind")
    kinds = {str(kind): overall.loc[kind].to_dict() for kind in overall.index}
    first = paper[["kind", "ground_truth"]].iloc[0]
    shown = paper[(paper[["kind", "ground_truth"]] == first).all(axis=1)]
    looking = shown[~shown["is_control"]]
    best = {
        _SHORT[str(metric)]: _best(rows)
        for metric, rows in looking.groupby("metric", sort=False, observed=True)
    }
    counted = results.scores[results.scores["correct"] & (results.scores["metric"] == MASS)]
    explained = predictions[predictions["question"].isin(counted["question"])]
    return {
        "answers": {
            name: {"n": int(row["n"]), "accuracy": float(row["accuracy"])} for name, row in kinds.items()
        },
        "n_asked": len(predictions),
        "n_right": int(predictions["correct"].sum()),
        "n_wrong": int((~predictions["correct"]).sum()),
        "n_counted": len(explained),
        "n_methods": sum(not is_control(name) for name in settings.methods),
        "negative_logits": int((explained["logit"] <= 0).sum()),
        "best": best,
        "chance": float(shown["chance"].iloc[0]),
        "fixed_pooling": settings.fixed_pooling,
        "discarded": int(paper["discarded"].sum()),
        "wide_ties": int(paper.loc[~paper["is_control"], "wide_ties"].sum()),
        "optimism": _largest(split["optimism"]),
        "n_controls": int(results.controls["question"].nunique()) if len(results.controls) else 0,
        "n_variants": int(results.variants["question"].nunique()) if len(results.variants) else 0,
        "n_below_control": _below_control(shown),
    }


def tidy_scores(results: Results) -> pd.DataFrame:
    """Scores of correctly answered questions, one row per question, method, pooling, ground truth and metric.

    Returns:
        Columns ``benchmark, preset, data, model, method, options, kind, question, ground_truth, metric,
        pooling, value, flag``; ``options`` names the setting.
    """
    mine = results.scores[results.scores["correct"]]
    fixed = ["data", "model", "method", "setting", "kind", "question", "ground_truth", "metric", "flag"]
    long = mine.drop(columns="correct").melt(fixed, var_name="pooling", value_name="value")
    named = long.rename(columns={"setting": "options"})
    order = [*fixed[:3], "options", *fixed[4:8], "pooling", "value", "flag"]
    return named[order].assign(benchmark="clevr-xai", preset=results.settings.preset)


def _best(rows: pd.DataFrame) -> dict[str, Any]:
    if rows["mean"].isna().all():
        return {"method": "no method", "mean": None}
    place = int(np.nanargmax(rows["mean"]))
    return {"method": str(rows["paper_method"].iloc[place]), "mean": float(rows["mean"].iloc[place])}


def _below_control(rows: pd.DataFrame) -> int:
    """How many methods have a smaller mean mass than the best control; 0 without controls."""
    mass = rows[rows["metric"] == MASS]
    controls = mass[mass["is_control"]]["mean"]
    return int((mass[~mass["is_control"]]["mean"] < controls.max()).sum()) if len(controls) else 0


def _largest(column: pd.Series) -> float | None:
    known = column.dropna()
    return float(known.max()) if len(known) else None


def _accuracy(mean: float, std: float, median: float | None) -> str:
    if np.isnan(mean):
        return ""
    return f"{mean:.2f} ({std:.2f})" + ("" if median is None else f", {median:.2f}")


def _ranks(rows: pd.DataFrame) -> list[str]:
    return [
        "" if np.isnan(rank) else f"{rank:g} [{low:g}, {high:g}]"
        for rank, low, high in zip(rows["rank"], rows["rank_low"], rows["rank_high"], strict=True)
    ]


def _interval(row: pd.Series, center: str = "difference") -> str:
    if np.isnan(row[center]):
        return ""
    return f"{row[center]:+.3f} [{row['low']:+.3f}, {row['high']:+.3f}]"
