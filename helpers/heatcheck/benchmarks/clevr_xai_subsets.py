"""What accuracy depends on: confidence, kind and length of the question, size of its target."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pandas as pd

from heatcheck.benchmarks.clevr_xai import Results
from heatcheck.benchmarks.clevr_xai_tables import Choice, Cut, chosen_poolings, pooled_values, select
from heatcheck.metrics.resampling import mean_intervals

# Bins of the softmax probability of the predicted answer; the paper's are not known.
CONFIDENCE_EDGES = (0.0, 0.5, 0.9, 0.99, 1.0)
_SIZES = ("smallest", "middle", "largest")  # a third of the questions each


def subset_table(
    results: Results, cut: Cut, by: str, *, choice: Choice = "best", seed: int = 0
) -> pd.DataFrame:
    """Accuracy of every method on subsets of the questions.

    Args:
        results: Of a run.
        cut: Kind, ground truth and metric.
        by: One of ``SUBSETS``.
        choice: ``best`` pooling of each method, chosen on all questions, or the ``fixed`` one.
        seed: Seed of the bootstrap over questions.

    Returns:
        Columns ``by, subset, method, n, mean, low, high, std``, subsets in ascending order; empty subsets are
        left out.

    Raises:
        ValueError: ``by`` is unknown.
    """
    if by not in SUBSETS:
        raise ValueError(f"unknown subsets {by!r}; known: {', '.join(SUBSETS)}")
    values = pooled_values(select(results.scores, cut), chosen_poolings(results, cut, choice))
    facts = results.predictions.set_index("question").loc[values.index]
    labels = SUBSETS[by](facts, cut)
    parts = []
    for subset in labels.cat.categories:
        rows = values[(labels == subset).to_numpy()]
        if len(rows):
            mean, low, high = mean_intervals(rows.to_numpy(), seed=seed)
            columns = {"method": list(rows.columns), "n": rows.notna().sum().to_numpy(), "mean": mean}
            spread = {"low": low, "high": high, "std": rows.std(ddof=0).to_numpy()}
            parts.append(pd.DataFrame({"by": by, "subset": str(subset), **columns, **spread}))
    return pd.concat(parts, ignore_index=True)


def answer_table(predictions: pd.DataFrame) -> pd.DataFrame:
    """How well the model answers, by kind and type of question.

    Returns:
        Columns ``kind, type, n, accuracy, confidence``, with a row ``all`` for each kind.
    """
    tables = []
    for kind, rows in predictions.groupby("kind", sort=False):
        for name, part in [("all", rows), *rows.groupby("type", sort=True)]:
            found = {
                "n": len(part),
                "accuracy": part["correct"].mean(),
                "confidence": part["confidence"].mean(),
            }
            tables.append({"kind": kind, "type": name, **found})
    return pd.DataFrame(tables)


def wrong_table(results: Results, cut: Cut, *, seed: int = 0) -> pd.DataFrame:
    """Accuracy of the maps of wrong answers beside that of right ones, on the object that was asked for.

    Returns:
        Columns ``method, right, wrong, low, high, n``: means with each method's best pooling, the interval of
        ``wrong`` over ``n`` questions. Empty where no wrong answer was looked at.
    """
    kind, truth, metric = cut
    scores, poolings = results.scores, chosen_poolings(results, cut, "best")
    chosen = (scores["kind"] == kind) & (scores["ground_truth"] == truth) & (scores["metric"] == metric)
    wrong = scores[chosen & ~scores["correct"]]
    if wrong.empty:
        return pd.DataFrame(columns=["method", "right", "wrong", "low", "high", "n"])
    values = pooled_values(wrong, poolings)
    mean, low, high = mean_intervals(values.to_numpy(), seed=seed)
    right = pooled_values(select(scores, cut), poolings).mean()
    columns = {"method": list(values.columns), "right": right[values.columns].to_numpy(), "wrong": mean}
    return pd.DataFrame({**columns, "low": low, "high": high, "n": values.notna().sum().to_numpy()})


def mask_table(predictions: pd.DataFrame, n_pixels: int) -> pd.DataFrame:
    """How large the ground truths of the asked questions are (the columns of Arras et al. 2022, table B.10).

    Args:
        predictions: Of a run.
        n_pixels: Pixels of an image.

    Returns:
        Columns ``kind, ground_truth, n, undefined``, and least, largest, mean and standard deviation of their
        ``pixels`` and ``objects``, and of the ``length`` of the questions' programs.
    """
    rows = []
    for kind, table in predictions.groupby("kind", sort=False):
        for column in [name for name in table if str(name).startswith("area ")]:
            truth = str(column).removeprefix("area ")
            known = table[table[column].notna()]
            if table[f"objects {truth}"].isna().all():
                continue  # a ground truth of the other kind
            counted = {
                "pixels": known[column] * n_pixels,
                "objects": known[f"objects {truth}"],
                "length": known["length"],
            }
            measures = {
                f"{name} {what}": float(getattr(values, what)(**options))
                for name, values in counted.items()
                for what, options in _MEASURES.items()
            }
            fixed = {
                "kind": kind,
                "ground_truth": truth,
                "n": len(known),
                "undefined": len(table) - len(known),
            }
            rows.append({**fixed, **measures})
    return pd.DataFrame(rows)


_MEASURES: Mapping[str, dict[str, int]] = {"min": {}, "max": {}, "mean": {}, "std": {"ddof": 0}}


def _by_confidence(facts: pd.DataFrame, cut: Cut) -> pd.Series:
    edges = CONFIDENCE_EDGES
    labels = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    # The last bin holds both of its ends.
    return pd.cut(facts["confidence"], [*edges[:-1], np.nextafter(1, 2)], labels=labels, right=False)


def _by_type(facts: pd.DataFrame, cut: Cut) -> pd.Series:
    return facts["type"].str.removeprefix("query_").str.replace("_", " ").astype("category")


def _by_length(facts: pd.DataFrame, cut: Cut) -> pd.Series:
    lengths = facts["length"]
    ordered = [f"{length}" for length in sorted(lengths.unique())]
    return pd.Series(pd.Categorical(lengths.map(str), categories=ordered, ordered=True), index=facts.index)


def _by_size(facts: pd.DataFrame, cut: Cut) -> pd.Series:
    order = facts[f"area {cut.ground_truth}"].rank(method="first")
    bins = (order.to_numpy(dtype=int) - 1) * len(_SIZES) // max(1, len(facts))
    names = [_SIZES[int(place)] for place in bins]
    return pd.Series(pd.Categorical(names, categories=list(_SIZES), ordered=True), index=facts.index)


SUBSETS: Mapping[str, Callable[[pd.DataFrame, Cut], pd.Series]] = {
    "confidence": _by_confidence,
    "type of question": _by_type,
    "program length": _by_length,
    "target size": _by_size,
}
