"""Remove and retrain where the truth is known: least squares on sixteen features of which four inform.

What the chapter shows before any image: without retraining, accuracy falls although nothing of use was
removed; with retraining it falls when the information goes.
"""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import NamedTuple

import numpy as np
import pandas as pd
import pydantic
from numpy.typing import NDArray

from heatcheck.benchmarks.findings import Finding, decide
from heatcheck.benchmarks.toy_problem import (
    NOISES,
    Array,
    Fits,
    Noise,
    Normal,
    ToyProblem,
    accuracies,
    closed_form_accuracy,
    compress,
    draw_problem,
    fit,
    population_weights,
    sample,
)
from heatcheck.benchmarks.toy_rankings import (
    RANKINGS,
    SEPARATE,
    Order,
    by_weight,
    check_rankings,
    ground_truth,
    kept_sets,
    permutations,
    separate_places,
)
from heatcheck.metrics.paired_runs import t_interval

CLOSED, MEASURED = "closed form", "measured"
_CURVE = ["noise", "ranking", "retrained", "source"]
# A loss below this is none: what the acceptance of a flat curve allows.
MARGIN = 0.01


class ToySettings(pydantic.BaseModel):
    """What the toy experiment depends on.

    Attributes:
        noises: Readings of the noise term.
        rankings: Orders in which features are removed.
        n_train: Examples the model is trained on.
        n_test: Examples its accuracy is measured on.
        n_seeds: Data sets drawn from the one problem.
        n_permutations: Random orders averaged in the random curves.
        seed: Seed of the problem, the data sets and the orders.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    noises: tuple[Noise, ...] = NOISES
    rankings: tuple[str, ...] = RANKINGS
    n_train: pydantic.PositiveInt = 50_000
    n_test: pydantic.PositiveInt = 50_000
    n_seeds: pydantic.PositiveInt = 5
    n_permutations: pydantic.PositiveInt = 100
    seed: pydantic.NonNegativeInt = 0

    @pydantic.field_validator("rankings")
    @classmethod
    def _known(cls, rankings: tuple[str, ...]) -> tuple[str, ...]:
        check_rankings(rankings)
        return rankings


class DataSet(NamedTuple):
    """One drawn data set and the model trained on all its features."""

    features: Array
    labels: NDArray[np.bool_]
    test_features: Array
    test_labels: NDArray[np.bool_]
    normal: Normal
    whole: Fits


def run(settings: ToySettings, problems: dict[Noise, ToyProblem] | None = None) -> pd.DataFrame:
    """Accuracy after removing 0 to all features, in closed form and measured.

    Args:
        settings: What to compute.
        problems: A problem for each noise; by default drawn from the seed, the same weights for all.

    Returns:
        Columns ``noise, ranking, retrained, source, seed, removed, fraction, accuracy``: one row per number
        of removed features, source (``closed form`` or ``measured``) and data set; ``seed`` is missing for
        the closed form. Orders of each example's own have no closed form.
    """
    chosen = problems or {noise: draw_problem(noise, seed=settings.seed) for noise in settings.noises}
    frames: list[pd.DataFrame] = []
    for noise in settings.noises:
        problem = chosen[noise]
        frames += _closed(problem, settings)
        for seed in range(settings.n_seeds):
            frames += _measured(problem, settings, seed)
    return pd.concat(frames, ignore_index=True).astype({"seed": "Int64"})


def toy_summary(table: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """Mean, standard deviation and Student's interval over data sets of every point of every curve.

    Returns:
        Columns ``noise, ranking, retrained, source, removed, fraction, mean, std, low, high, n``; the closed
        form is one value, so it has no spread.
    """
    rows = []
    for key, group in table.groupby([*_CURVE, "removed", "fraction"], sort=False):
        values = group["accuracy"].to_numpy(dtype=np.float64)
        mean, std, low, high = (float(part) for part in t_interval(values, level=level))
        rows.append((*key, mean, std, low, high, len(values)))
    return pd.DataFrame(rows, columns=[*_CURVE, "removed", "fraction", "mean", "std", "low", "high", "n"])


def toy_losses(summary: pd.DataFrame, *, margin: float = MARGIN) -> pd.DataFrame:
    """Where each curve turns: the share removed at its first loss and at its steepest fall.

    Args:
        summary: From ``toy_summary``.
        margin: Loss of accuracy that counts.

    Returns:
        Columns ``noise, ranking, retrained, source, first_loss, steepest, steepest_loss``: fraction removed
        at which accuracy is first more than ``margin`` below that of all features (missing: never), fraction
        after the largest loss in one step, and that loss.
    """
    rows = []
    for key, group in summary.groupby(_CURVE, sort=False):
        points = group.sort_values("removed")
        means, fractions = points["mean"].to_numpy(), points["fraction"].to_numpy()
        lost = np.flatnonzero(means < means[0] - margin)
        steps = means[:-1] - means[1:]
        first = float(fractions[lost[0]]) if len(lost) else float("nan")
        rows.append((*key, first, float(fractions[1 + steps.argmax()]), float(steps.max())))
    return pd.DataFrame(rows, columns=[*_CURVE, "first_loss", "steepest", "steepest_loss"])


def toy_findings(table: pd.DataFrame) -> list[Finding]:
    """What the experiment says, with intervals over data sets; nothing about curves that were not run."""
    measured = table[table["source"] == MEASURED]
    names = ["noise", "ranking", "retrained"]
    wide = measured.pivot(index=[*names, "seed"], columns="removed", values="accuracy")
    curves = {tuple(map(str, key)): rows.to_numpy() for key, rows in wide.groupby(level=names)}
    return [finding for finding in _findings(curves) if finding is not None]


def _findings(curves: Mapping[tuple[str, ...], Array]) -> Iterator[Finding | None]:
    truth, random, inverted, stale = (
        curves.get(("per-feature", *rest))
        for rest in (
            ("ground-truth", "True"),
            ("random", "True"),
            ("inverted", "True"),
            ("inverted", "False"),
        )
    )
    if stale is not None and inverted is not None:
        yield _finding(
            "toy_needs_retraining",
            "Without retraining, accuracy falls although only features without information were removed.",
            "accuracy with minus without retraining, 12 of 16 features removed from the uninformative end",
            inverted[:, 12] - stale[:, 12],
        )
    if inverted is not None:
        yield _finding(
            "toy_flat_with_retraining",
            f"With retraining, removing the 12 uninformative features costs less than {MARGIN} of accuracy.",
            f"{MARGIN} minus the loss at 75 % removed",
            MARGIN - (inverted[:, 0] - inverted[:, 12]),
        )
    if truth is not None and random is not None and inverted is not None:
        margins = np.minimum(random - truth, inverted - random)[:, 1:-1].min(1)
        yield _finding(
            "toy_order",
            "With retraining, the true ranking loses most, the inverted one least, at every step.",
            "smallest gap between neighboring curves over all steps",
            margins,
        )
    redundant = curves.get(("shared", "inverted", "True"))
    if redundant is not None:
        yield _finding(
            "toy_redundancy",
            "Where features repeat each other, retraining hides the loss until 13 of 16 are gone.",
            f"{MARGIN} minus the loss at 13 removed, noise shared",
            MARGIN - (redundant[:, 0] - redundant[:, 13]),
        )


def _finding(key: str, statement: str, quantity: str, values: Array) -> Finding:
    mean, _, low, high = (float(part) for part in t_interval(values))
    answer = decide(low, high, supports="positive")
    return Finding(key, statement, "hooker2019benchmark", answer, quantity, mean, low, high, len(values))


def _closed(problem: ToyProblem, settings: ToySettings) -> Iterator[pd.DataFrame]:
    everything = np.ones(len(problem.signal), dtype=bool)
    weights = population_weights(problem, everything)
    for ranking, retrained in product(settings.rankings, (True, False)):
        if ranking not in SEPARATE:
            kept = kept_sets(_orders(ranking, problem, weights, settings))
            curve = closed_form_accuracy(problem, kept, retrained=retrained).mean(0)
            yield _rows((problem.noise, ranking, retrained, CLOSED, None), curve)


def _measured(problem: ToyProblem, settings: ToySettings, seed: int) -> Iterator[pd.DataFrame]:
    data = draw_data(problem, settings, seed)
    for ranking in settings.rankings:
        if ranking in SEPARATE:
            curves = _separate_curves(ranking, data, (settings.seed, 3, seed))
        else:
            kept = kept_sets(_orders(ranking, problem, data.whole.weights, settings))
            stale = Fits(data.whole.weights * kept, np.broadcast_to(data.whole.intercept, kept.shape[:-1]))
            pair = (fit(data.normal, kept), stale)
            curves = [accuracies(data.test_features, data.test_labels, fits).mean(0) for fits in pair]
        for retrained, curve in zip((True, False), curves, strict=True):
            yield _rows((problem.noise, ranking, retrained, MEASURED, seed), curve)


def draw_data(problem: ToyProblem, settings: ToySettings, seed: int) -> DataSet:
    """Training and test examples number ``seed`` of the problem, and the model trained on all features."""
    train, test = (
        sample(problem, n, seed=(settings.seed, 1, seed, part))
        for part, n in enumerate((settings.n_train, settings.n_test))
    )
    normal = compress(*train)
    everything = np.ones(len(problem.signal), dtype=bool)
    return DataSet(*train, *test, normal, fit(normal, everything))


def _orders(ranking: str, problem: ToyProblem, weights: Array, settings: ToySettings) -> Order:
    """Orders ``(R, F)`` of a ranking that is common to all examples."""
    if ranking == "random":
        return permutations(len(weights), settings.n_permutations, (settings.seed, 2))
    truth = ground_truth(problem)
    return {"ground-truth": truth, "inverted": truth[::-1], "weight": by_weight(weights)}[ranking][None]


def _separate_curves(ranking: str, data: DataSet, seed: tuple[int, ...]) -> list[Array]:
    """Curves ``(F + 1,)`` with and without retraining where every example has an order of its own."""
    train, test = (
        separate_places(ranking, features, data.whole.weights, (*seed, part))
        for part, features in enumerate((data.features, data.test_features))
    )
    everything = np.ones(train.shape[1], dtype=bool)
    curves = []
    for removed in range(train.shape[1] + 1):
        seen = data.test_features * (test >= removed)
        fitted = fit(compress(data.features * (train >= removed), data.labels), everything)
        curves.append([accuracies(seen, data.test_labels, model) for model in (fitted, data.whole)])
    return list(np.array(curves, dtype=np.float64).T)


def _rows(key: tuple[str, str, bool, str, int | None], curve: Array) -> pd.DataFrame:
    removed = np.arange(len(curve))
    fixed = dict(zip([*_CURVE, "seed"], key, strict=True))
    points = {"removed": removed, "fraction": removed / removed[-1], "accuracy": curve}
    return pd.DataFrame(fixed | points).astype({"seed": "Int64"})
