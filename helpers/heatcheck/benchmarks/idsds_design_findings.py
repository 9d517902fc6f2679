"""What the single-deletion chapter says about the design of models, computed from its scores."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from heatcheck.benchmarks.findings import Answer, Finding, compare, decide
from heatcheck.benchmarks.idsds import Results, SumsKey
from heatcheck.benchmarks.idsds_design import (
    best_column,
    final_scores,
    general_methods,
    own_methods,
    short_name,
)
from heatcheck.benchmarks.idsds_findings import PAPER
from heatcheck.benchmarks.idsds_methods import column_name
from heatcheck.benchmarks.idsds_scores import Score
from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.resampling import quantiles, resampled_means
from heatcheck.metrics.scoring import evaluating

Array = NDArray[np.float64]
Direction = Literal["lower", "higher"]
_RAW = ("raw",)
# What is said about the last model of a factor against its first one.
DIRECTIONS: Mapping[str, tuple[Direction, str]] = {
    "depth": ("lower", "A deeper network scores lower"),
    "width": ("lower", "A wider network scores lower"),
    "normalization": ("higher", "A network without batch norm scores higher"),
    "bias": ("higher", "A network without biases too scores higher still"),
    "backbone": ("lower", "A transformer scores lower than a VGG"),
    "receptive field": ("lower", "A bag of larger windows scores lower"),
}
# Two maps are the same if they differ by rounding alone; relative.
_SAME = 1e-4
_MIN_MODELS = 4
_IXG, _PATH, _UNIFORM = "input-x-gradient", "integrated-gradients", "ig-uniform"
_EVERYWHERE = (
    ("all_uniform_beats_zero", "IG-U beats IG", (_UNIFORM, "raw"), (_PATH, "raw")),
    ("all_ig_beats_ixg", "IG beats IxG", (_PATH, "raw"), (_IXG, "raw")),
    ("all_ig_raw", "IG is better raw than absolute", (_PATH, "raw"), (_PATH, "abs")),
    ("all_uniform_raw", "IG-U is better raw than absolute", (_UNIFORM, "raw"), (_UNIFORM, "abs")),
    ("all_smoothing", "SmoothGrad lowers the score of IxG", (_IXG, "raw"), ("ixg-smoothgrad", "raw")),
)


def design_findings(results: Results, factors: Mapping[str, Sequence[str]]) -> list[Finding]:
    """Findings about the models of a run; those that need models which were not run are left out.

    Args:
        results: Of a run.
        factors: For each factor its models, in order; see ``DIRECTIONS`` for those that something is said of.
    """
    scores = final_scores(results)
    return [
        *_alignment(results),
        *_identities(results, factors),
        *(finding for name, models in factors.items() for finding in _factor(name, models, scores)),
        *_own_maps(scores, factors),
        *_everywhere(scores),
        *_trade_off(results, scores),
    ]


def _alignment(results: Results) -> Iterator[Finding]:
    """Fine-tuning shrinks the loss of accuracy under deletion, and costs no accuracy; mean over models."""
    gaps, changes = [], []
    for model in results.settings.models:
        before, after = results.find(model, "original"), results.find(model, "tuned")
        if before is not None and after is not None:
            right = [one.tables[results.headline].correct.double().numpy() for one in (before, after)]
            gaps.append([table[:, 0] - table[:, 1:].mean(1) for table in right])
            changes.append([table[:, 0] for table in right])
    if not gaps:
        return
    cases = (
        ("gap_shrinks", "Fine-tuning makes patch deletion cost less accuracy.", gaps, True, "accuracy lost"),
        ("accuracy_stays", "Fine-tuning raises accuracy on intact images.", changes, False, "accuracy"),
    )
    for key, statement, pairs, less, what in cases:
        means = np.asarray(pairs).mean(0)  # (2, N)
        table = pd.DataFrame({"before": means[0], "after": means[1]})
        quantity = f"{what}, mean of {len(pairs)} models"
        yield compare(key, statement, table, "after", "before", less=less, source=PAPER, quantity=quantity)


def _identities(results: Results, factors: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Pairs of methods that theory says are the same for some networks."""
    for model in results.settings.models:
        if _is_homogeneous(results, model):
            statement = f"IxG is IG on {short_name(model)}, whose output is proportional to its input."
            yield from _identity(results, model, statement, _IXG, _PATH)
    for model in factors.get("depth", []):
        if model in results.settings.models:
            statement = f"Grad-CAM is XGrad-CAM on {short_name(model)}, which averages its last maps."
            yield from _identity(results, model, statement, "grad-cam", "xgrad-cam")


def _identity(results: Results, model: str, statement: str, first: str, second: str) -> Iterator[Finding]:
    subject = results.final(model)
    keys = [SumsKey(name, "logit", results.settings.grid, "raw") for name in (first, second)]
    if any(one not in subject.sums for one in keys):
        return
    left, right = (subject.sums[one].numpy() for one in keys)
    scale = np.abs(right).max(1)
    apart = np.abs(left - right).max(1) / np.where(scale > 0, scale, 1)
    largest = float(apart.max())
    answer: Answer = "yes" if largest < _SAME else "no"
    key = f"{first}_is_{second}_{short_name(model)}".replace("-", "_")
    quantity = "largest difference of the patch sums, relative to the largest sum of the image"
    yield Finding(key, statement, PAPER, answer, quantity, largest, float(apart.min()), largest, len(apart))


def _is_homogeneous(results: Results, model: str) -> bool:
    """Whether twice the input gives twice the output."""
    explained = results.final(model).studied.explained.take(0, 4)
    module, images = explained.classifier.module, explained.images
    with torch.no_grad(), evaluating(module):
        single, double = (module(factor * images) for factor in (1, 2))
    return bool(torch.allclose(double, 2 * single, rtol=_SAME, atol=_SAME * float(single.abs().max())))


def _factor(name: str, models: Sequence[str], scores: Mapping[str, Score]) -> Iterator[Finding]:
    """The last model of a factor against its first, over the general raw maps that both have."""
    there = [model for model in models if model in scores]
    if name not in DIRECTIONS or len(there) < 2:
        return
    direction, statement = DIRECTIONS[name]
    first, last = scores[there[0]], scores[there[-1]]
    own = [column for column in _own_columns(first) if column in last.values]
    general = general_methods(first, transforms=_RAW)
    columns = own or [column for column in general if column in last.values]
    if not columns:
        return
    table = pd.DataFrame({short_name(there[0]): _row_means(first, columns)}, index=first.values.index)
    table[short_name(there[-1])] = _row_means(last, columns)
    names = short_name(there[-1]), short_name(there[0])
    what = "own maps" if own else f"mean of {len(columns)} raw maps"
    yield compare(
        f"factor_{name}".replace(" ", "_"),
        f"{statement} ({names[0]} against {names[1]}, {what}).",
        table,
        *names,
        less=direction == "lower",
        source=PAPER,
        quantity="score",
    )


def _own_maps(scores: Mapping[str, Score], factors: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Maps that a model computes itself against the best general map, on it and on its plain twin."""
    twin = next((model for model in factors.get("intrinsic", []) if model in scores), None)
    for model, score in scores.items():
        for own in _own_columns(score):
            for other in dict.fromkeys((model, twin)):
                best = other and best_column(scores[other], general_methods(scores[other]))
                if other is None or best is None:
                    continue
                names = column_name(*own), f"{column_name(*best)} on {short_name(other)}"
                table = pd.DataFrame({names[0]: score.values[own], names[1]: scores[other].values[best]})
                statement = (
                    f"{names[0]} on {short_name(model)} beats the best general map on {short_name(other)}."
                )
                key = f"own_{short_name(model)}_{short_name(other)}".replace("-", "_")
                yield compare(key, statement, table, *names, less=False, source=PAPER, quantity="score")


def _everywhere(scores: Mapping[str, Score]) -> Iterator[Finding]:
    """Orders of two methods, on average over all models that have both."""
    for key, statement, first, second in _EVERYWHERE:
        both = [score for score in scores.values() if {first, second} <= set(score.columns)]
        if len(both) < 2:
            continue
        names = column_name(*first), column_name(*second)
        columns = {
            name: np.mean([score.values[column].to_numpy(dtype=float) for score in both], axis=0)
            for name, column in zip(names, (first, second), strict=True)
        }
        quantity = f"score, mean of {len(both)} models"
        text = f"{statement} (mean of {len(both)} models)."
        yield compare(key, text, pd.DataFrame(columns), *names, less=False, source=PAPER, quantity=quantity)


def _trade_off(results: Results, scores: Mapping[str, Score]) -> Iterator[Finding]:
    """More accurate models have worse maps: rank correlation over models, intervals over images."""
    right, best = [], []
    for model, score in scores.items():
        column = best_column(score, [*general_methods(score), *_own_columns(score)])
        if column is not None:
            right.append(results.final(model).tables[results.headline].correct[:, 0].double().numpy())
            best.append(score.values[column].to_numpy(dtype=float))
    if len(right) < _MIN_MODELS:
        return
    tables = np.stack(right, 1), np.stack(best, 1)  # (N, M) each
    draws = [resampled_means(table, n_resamples=1000) for table in tables]
    found = np.array([rank_correlations(*rows)[0] for rows in zip(*draws, strict=True)])
    low, high = (float(end[0]) for end in quantiles(found[:, None], 0.95))
    rho = rank_correlations(*(np.nanmean(table, 0) for table in tables))[0]
    yield Finding(
        "trade_off",
        "More accurate models have worse best maps.",
        PAPER,
        decide(low, high, supports="negative"),
        f"rank correlation of accuracy and best score over {len(right)} models",
        rho,
        low,
        high,
        len(tables[0]),
    )


def _own_columns(score: Score) -> list[tuple[str, str]]:
    return [(name, "raw") for name in own_methods(score) if (name, "raw") in score.columns]


def _row_means(score: Score, columns: Sequence[tuple[str, str]]) -> Array:
    """Mean over ``columns`` for each image; NaN where one of them is undefined."""
    means: Array = score.values[list(columns)].to_numpy(dtype=float).mean(1)
    return means
