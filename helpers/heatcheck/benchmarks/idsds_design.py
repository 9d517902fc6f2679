"""What the design of a model does to the quality of its attributions: tables over models."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.idsds import Results, Subject
from heatcheck.benchmarks.idsds_methods import STUDY, column_name, is_aligned
from heatcheck.benchmarks.idsds_scores import N_RESAMPLES, Score, single_score
from heatcheck.benchmarks.idsds_tables import CHAPTER, is_control
from heatcheck.benchmarks.published import published_scores
from heatcheck.metrics.resampling import mean_intervals

# Kinds of models whose maps are a part of what they compute.
OWN_KINDS = ("b-cos", "bagnet")


def final_scores(results: Results) -> dict[str, Score]:
    """Headline score of every model that is explained, after fine-tuning where there is one."""
    found = {}
    for model in results.settings.models:
        score = single_score(results.final(model), results.headline)
        if score.values.shape[1]:
            found[model] = score
    return found


def short_name(model: str) -> str:
    """Name of a model without the family it is registered in, as figures show it."""
    return model.rsplit("/", 1)[-1]


def own_methods(score: Score) -> list[str]:
    """Methods of a score that read off what the model computes, such as ``bagnet``."""
    methods = dict.fromkeys(name for name, _ in score.columns)
    return [name for name in methods if name in STUDY and STUDY[name].kind in OWN_KINDS]


def general_methods(score: Score, *, transforms: Sequence[str] = ("raw", "abs")) -> list[tuple[str, str]]:
    """Columns of methods that neither belong to a model nor ask for deletions, controls left out."""
    own = own_methods(score)
    return [
        (name, transform)
        for name, transform in score.columns
        if transform in transforms and not (is_control(name) or is_aligned(name) or name in own)
    ]


def best_column(score: Score, columns: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    """The one of ``columns`` with the largest mean; None where none is defined."""
    means = score.values[list(columns)].mean().dropna() if columns else pd.Series(dtype=float)
    if means.empty:
        return None
    best = list(means.index)[int(means.argmax())]
    return str(best[0]), str(best[1])


def design_table(results: Results, factors: Mapping[str, Sequence[str]], *, seed: int = 0) -> pd.DataFrame:
    """Scores along each design factor.

    Args:
        results: Of a run.
        factors: For each factor its models, in order; those that were not run are left out.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``factor, place, model, method, transform, row, mean, low, high, n, is_own``, a row per
        factor, model and column of its score.
    """
    scores = final_scores(results)
    rows = []
    for factor, models in factors.items():
        for place, model in enumerate(name for name in models if name in scores):
            for row in _means(scores[model], seed):
                rows.append({"factor": factor, "place": place, "model": short_name(model), **row})
    names = ["factor", "place", "model", "method", "transform", "row", "mean", "low", "high", "n", "is_own"]
    return pd.DataFrame(rows, columns=names)


def quality_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Accuracy of every model beside the scores of its best general method and of its own map.

    Returns:
        One row per model and kind of method: columns ``model, accuracy`` (top-1 on the scored images, after
        fine-tuning), ``source`` (``general`` or ``own map``), ``method, transform, mean, low, high, n``, and
        ``linear``, the mean linear correlation of the same maps. Methods that ask for deletions themselves
        do not count.
    """
    rows = []
    for model, score in final_scores(results).items():
        accuracy = _accuracy(results, results.final(model))
        linear = single_score(results.final(model), results.headline, rule="linear").values
        chosen = {
            "general": best_column(score, general_methods(score)),
            "own map": best_column(score, [(name, "raw") for name in own_methods(score)]),
        }
        for source, column in chosen.items():
            if column is not None:
                values = score.values[[column]].to_numpy(dtype=float)
                fixed = {"model": short_name(model), "accuracy": accuracy, "source": source}
                fixed |= dict(zip(("method", "transform"), column, strict=True))
                rows.append({**fixed, **_ends(values, seed)[0], "linear": float(linear[column].mean())})
    names = ["model", "accuracy", "source", "method", "transform", "mean", "low", "high", "n", "linear"]
    return pd.DataFrame(rows, columns=names)


def published_quality() -> pd.DataFrame:
    """Published accuracy and best score of the study's models; columns ``model, accuracy, mean``."""
    table = published_scores(CHAPTER)
    chosen = table[table["metric"].isin(["top-1 accuracy", "best IDSDS"])]
    wide = chosen.pivot(index="model", columns="metric", values="value").dropna()
    wide = wide.rename(columns={"top-1 accuracy": "accuracy", "best IDSDS": "mean"})
    return wide.rename_axis(columns=None).reset_index()[["model", "accuracy", "mean"]]


def _means(score: Score, seed: int) -> list[dict[str, Any]]:
    own, found = own_methods(score), []
    ends = _ends(score.values.to_numpy(dtype=float), seed)
    for (method, transform), end in zip(score.columns, ends, strict=True):
        fixed = {"method": method, "transform": transform, "row": column_name(method, transform)}
        found.append({**fixed, **end, "is_own": method in own})
    return found


def _ends(values: np.ndarray, seed: int) -> list[dict[str, float | int]]:
    parts = mean_intervals(values, n_resamples=N_RESAMPLES, seed=seed)
    counts = (~np.isnan(values)).sum(0)
    return [
        {"mean": float(mean), "low": float(low), "high": float(high), "n": int(n)}
        for mean, low, high, n in zip(*parts, counts, strict=True)
    ]


def _accuracy(results: Results, subject: Subject) -> float:
    return float(subject.tables[results.headline].correct[:, 0].double().mean())
