"""Tables of the CLEVR-XAI chapter as a page shows them, and the numbers that its prose quotes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.clevr_xai import Results
from heatcheck.benchmarks.clevr_xai_controls import EXPERIMENTS
from heatcheck.benchmarks.clevr_xai_scores import MASS, RANK
from heatcheck.benchmarks.clevr_xai_settings import paper_method
from heatcheck.benchmarks.clevr_xai_subsets import answer_table
from heatcheck.benchmarks.clevr_xai_tables import Cut, is_control
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.metrics.flags import EMPTY

_SHORT = {MASS: "mass", RANK: "rank"}
_MASK_NAMES = {"unique-first-nonempty": "first non-empty"}
_PIXELS = {"least": "min", "mean": "mean", "std": "std", "most": "max"}
NOT_RUN = "not run"
_QUOTED = ("lrp", "guided-backprop", "gradient", "deconvnet")  # methods that the prose compares


def paper_style(table: pd.DataFrame, kind: Kind, metric: str | None = None) -> pd.DataFrame:
    """One row per method, one column per ground truth and metric: ``mean (std) median``, as published.

    Args:
        table: Of ``paper_table`` or ``accuracy_table``.
        kind: Which questions.
        metric: Only this one; both by default.
    """
    mine = table[(table["kind"] == kind) & (table["metric"].isin([metric] if metric else list(_SHORT)))]
    if mine.empty:
        return pd.DataFrame({"method": [NOT_RUN]})
    # Rows are the paper's methods, unless a table holds several variants of one.
    names = "method" if mine.duplicated([*Cut._fields, "paper_method"]).any() else "paper_method"
    text = mine.assign(
        text=[
            "" if np.isnan(mean) else f"{mean:.2f} ({_fraction(std)}) {middle:.2f}"
            for mean, std, middle in zip(mine["mean"], mine["std"], mine["median"], strict=True)
        ],
        column=[
            (truth if metric else f"{_SHORT[measure]}, {truth}") + " ↑"
            for measure, truth in zip(mine["metric"], mine["ground_truth"].map(_mask_name), strict=True)
        ],
    )
    first = text["column"].iloc[0]
    order = text[text["column"] == first].sort_values(["is_control", "mean"], ascending=[True, False])[names]
    columns = list(dict.fromkeys(text["column"]))
    wide = text.pivot(index=names, columns="column", values="text").loc[list(order), columns]
    return wide.rename_axis(index="method", columns=None).reset_index()


def mask_text(table: pd.DataFrame) -> pd.DataFrame:
    """A ``mask_table`` in few columns: pixels without decimals, objects and program length as means."""
    pixels = table[[f"pixels {what}" for what in ("min", "mean", "std", "max")]].round().astype("Int64")
    return pd.DataFrame(
        {
            "questions": table["kind"],
            "mask": table["ground_truth"].map(_mask_name),
            "n": table["n"],
            "none": table["undefined"],
            **{what: pixels[f"pixels {name}"] for what, name in _PIXELS.items()},
            "objects": table["objects mean"].round(1),
            "steps": table["length mean"].round(1),
        }
    )


def split_text(split: pd.DataFrame, cut: Cut, methods: Sequence[str]) -> pd.DataFrame:
    """Rows of a ``split_half_table`` for one ground truth and some methods, in few columns."""
    mine = split[(split["kind"] == cut.kind) & (split["ground_truth"] == cut.ground_truth)]
    mine = mine[mine["method"].isin(methods)]
    return pd.DataFrame(
        {
            "method": mine["method"],
            "metric": mine["metric"].map(_SHORT),
            "best pooling": mine["pooling"],
            "mean": mine["mean"],
            "held out": mine["held_out"],
            "optimism": mine["optimism"],
            "agree": mine["agreement"],
        }
    )


def choice_table(paper: pd.DataFrame, kind: Kind, ground_truth: str) -> pd.DataFrame:
    """What the best variant and poolings of each method are, its ranks, and how many maps were discarded.

    Of two variants the first is the best by mass, the second by rank.

    Returns:
        Columns ``method, variant, pooling for mass, pooling for rank, place by mass, place by rank,
        discarded``; ranks with their 95 % intervals.
    """
    mine = paper[(paper["kind"] == kind) & (paper["ground_truth"] == ground_truth) & ~paper["is_control"]]
    by_mass, by_rank = (mine[mine["metric"] == metric].set_index("paper_method") for metric in (MASS, RANK))
    by_mass = by_mass.sort_values("rank", kind="stable")
    by_rank = by_rank.loc[by_mass.index]
    variants = [
        " / ".join(dict.fromkeys(map(_variant_name, pair)))
        for pair in zip(by_mass["method"], by_rank["method"], strict=True)
    ]
    return pd.DataFrame(
        {
            "method": by_mass.index,
            "variant": variants,
            "pooling for mass": by_mass["pooling"].to_numpy(),
            "pooling for rank": by_rank["pooling"].to_numpy(),
            "place by mass": _ranks(by_mass),
            "place by rank": _ranks(by_rank),
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
            "difference": interval_texts(near.rename(columns={"difference": "mean"})),
            "n": near["n"],
        }
    )


def control_text(table: pd.DataFrame, measure: str, methods: Sequence[str]) -> pd.DataFrame:
    """One row for each of ``methods``, one variant of each, one column per control experiment."""
    mine = table[(table["measure"] == measure) & table["method"].isin(methods)]
    if mine.empty:
        return pd.DataFrame({"method": [NOT_RUN]})
    text = mine.assign(text=interval_texts(mine))
    columns = [name for name in EXPERIMENTS if (text["experiment"] == name).any()]
    order = [name for name in methods if (text["method"] == name).any()]
    wide = text.pivot(index="method", columns="experiment", values="text").loc[order, columns]
    return wide.rename(index=paper_method).rename_axis(columns=None).reset_index()


def interval_texts(table: pd.DataFrame) -> list[str]:
    """Text ``mean [low, high]`` of each row with two decimals; empty where undefined."""
    return [
        "" if np.isnan(mean) else f"{mean:z.2f} [{low:z.2f}, {high:z.2f}]"
        for mean, low, high in table[["mean", "low", "high"]].astype(float).itertuples(index=False)
    ]


def likeness_text(table: pd.DataFrame, experiment: str) -> dict[str, str]:
    """For a few methods, how alike their maps stay in a control experiment, as text for the prose.

    Keys are names with underscores; a method that was not run says so.
    """
    mine = table[(table["experiment"] == experiment) & (table["measure"] == "spearman")]
    means = dict(zip(mine["method"], mine["mean"].astype(float), strict=True))
    return {name.replace("-", "_"): f"{means[name]:.2f}" if name in means else NOT_RUN for name in _QUOTED}


def variant_text(table: pd.DataFrame, cut: Cut) -> pd.DataFrame:
    """Settings of all groups: mass and rank, each with its difference to the main setting."""
    mine = table[(table["kind"] == cut.kind) & (table["ground_truth"] == cut.ground_truth)]
    if mine.empty:
        return pd.DataFrame({"method": [NOT_RUN]})
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for row in mine.to_dict("records"):
        key = (str(row["method"]), str(row["label"]))
        label = "" if key[0] == key[1] else key[1]
        found = rows.setdefault(key, {"method": key[0], "setting": label})
        name = _SHORT[row["metric"]]
        found[name] = f"{row['mean']:.2f}"
        low, high = row["difference_low"], row["difference_high"]
        change = "" if np.isnan(row["difference"]) else f"{row['difference']:+.2f} [{low:+.2f}, {high:+.2f}]"
        found[f"{name}, to main"] = "main" if row["is_main"] else change
    return pd.DataFrame(list(rows.values()))


def level_text(levels: pd.DataFrame) -> pd.DataFrame:
    """One row per kind of questions, mask and metric of a ``reference_table``, one column per level."""
    named = levels.assign(
        questions=levels["kind"].astype(str),
        mask=levels["ground_truth"].map(_mask_name).astype(str),
        metric=levels["metric"].map(_SHORT).astype(str),
    )
    keys = ["questions", "mask", "metric"]
    rows = list(dict.fromkeys(named[keys].itertuples(index=False, name=None)))
    wide = named.pivot(index=keys, columns="level", values="mean").loc[
        rows, list(dict.fromkeys(named["level"]))
    ]
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
        "discarded": _n_discarded(results),
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


def _n_discarded(results: Results) -> int:
    """Maps of correctly answered questions that are zero everywhere, without those of controls."""
    scores = results.scores
    zero = scores[scores["correct"] & (scores["flag"].astype(str) == EMPTY)]
    maps = zero[["kind", "method", "question"]].astype(str).drop_duplicates()
    return sum(not is_control(method) for method in maps["method"])


def _below_control(rows: pd.DataFrame) -> int:
    """How many methods have a smaller mean mass than the best control; 0 without controls."""
    mass = rows[rows["metric"] == MASS]
    controls = mass[mass["is_control"]]["mean"]
    return int((mass[~mass["is_control"]]["mean"] < controls.max()).sum()) if len(controls) else 0


def _largest(column: pd.Series) -> float | None:
    known = column.dropna()
    return float(known.max()) if len(known) else None


def _mask_name(truth: object) -> str:
    return _MASK_NAMES.get(str(truth), str(truth))


def _variant_name(method: str) -> str:
    """Short name of a variant beside the paper's name of its method."""
    return "squared" if method.endswith("-squared") else "plain"


def _fraction(value: float) -> str:
    """Two decimals without the leading zero."""
    return f"{value:.2f}".removeprefix("0")


def _ranks(rows: pd.DataFrame) -> list[str]:
    return [
        "" if np.isnan(rank) else f"{rank:g} [{low:g}, {high:g}]"
        for rank, low, high in zip(rows["rank"], rows["rank_low"], rows["rank_high"], strict=True)
    ]
