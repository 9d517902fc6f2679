"""Statements about removing and retraining: functions of accuracies that are positive where one holds."""

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from heatcheck.attribution.estimators import BASES
from heatcheck.benchmarks.image_changes import Mode
from heatcheck.benchmarks.roar_conditions import INTACT, Way, derived, label
from heatcheck.benchmarks.roar_settings import PROBES, Settings
from heatcheck.benchmarks.roar_tables import RANDOM, Array

PAPER, BOOK, ROAD = "hooker2019benchmark", "this book", "rong2022consistent"
BLUR = "song2023pitfalls"
_FILTERS = {"max-filter": "maximum filter", "gaussian": "Gaussian filter"}
# The squared estimators must be better than random in this range of percentages.
_HIGH = range(50, 91)
# Accuracies that differ by no more are alike; keeping and removing at random must agree so far.
ALIKE = 0.05
# VarGrad and SmoothGrad-Squared may differ by this share of the accuracy.
CLOSE = 0.15


class Point(NamedTuple):
    """One condition whose accuracy a statement is about."""

    ranking: str
    mode: Mode
    percent: int
    way: Way = "scratch"


class Claim(NamedTuple):
    """A statement that holds where functions of accuracies are above zero, or within a margin of it.

    Attributes:
        key: Short name.
        text: The statement.
        source: Key in the bibliography, or ``this book``.
        quantity: What the function is.
        points: Conditions whose accuracies ``(..., Q)`` it takes; the statement is left out where one of them
            was not run.
        value: The functions ``(..., G)``; the statement holds where all of them bear it out.
        margin: Largest distance from zero of a statement that two things are alike; 0 for others.
    """

    key: str
    text: str
    source: str
    quantity: str
    points: Sequence[Point]
    value: Callable[[Array], Array]
    margin: float = 0.0


def all_claims(settings: Settings) -> list[Claim]:
    """Every statement that a run with ``settings`` might answer."""
    percents = settings.percents
    return [*_removals(percents), *_controls(settings), *_cheap(percents)]


def _removals(percents: Sequence[int]) -> Iterator[Claim]:
    high = [percent for percent in percents if percent in _HIGH]
    last = max(percents)
    for base in BASES:
        for form in ("sg-sq", "var"):
            name = f"{form}-{base}"
            where = ", ".join(map(str, high))
            yield Claim(
                f"{name}_below_random".replace("-", "_"),
                f"{label(name)} removes more than the random ranking, at every percentage from 50 to 90.",
                PAPER,
                f"ROAR accuracy, smallest gap: random minus {label(name)} at {where} %",
                [Point(one, "roar", percent) for percent in high for one in (RANDOM, name)],
                _gaps,
            )
        yield from _beyond_edges(base, high)
        yield _difference(
            (f"{base}_not_below_random", f"{label(base)} is no better than the random ranking at {last} %."),
            PAPER,
            (Point(base, "roar", last), Point(RANDOM, "roar", last)),
        )
        yield _difference(
            (
                f"squaring_{base}",
                f"Squaring helps: SQ-{label(base)} removes more than {label(base)} at {last} %.",
            ),
            PAPER,
            (Point(base, "roar", last), Point(f"sq-{base}", "roar", last)),
        )
        yield _classic(base, percents)
        yield _close(base, high)
    yield from _both_tails(percents)


def _beyond_edges(base: str, high: Sequence[int]) -> Iterator[Claim]:
    for form in ("sg-sq", "var"):
        name = f"{form}-{base}"
        yield Claim(
            f"{name}_beyond_edges".replace("-", "_"),
            f"{label(name)} removes more than Sobel, the edges of the image, from 50 to 90 %.",
            PAPER,
            f"ROAR accuracy, mean over percentages: Sobel minus {label(name)}",
            [Point(one, "roar", percent) for percent in high for one in ("sobel", name)],
            _mean_gap,
        )


def _classic(base: str, percents: Sequence[int]) -> Claim:
    names = (f"sg-{base}", base)
    return Claim(
        f"classic_{base}",
        f"Classic SmoothGrad is no better than its base: SG-{label(base)} removes less than {label(base)}.",
        PAPER,
        f"ROAR accuracy, mean over percentages: SG-{label(base)} minus {label(base)}",
        [Point(name, "roar", percent) for percent in percents for name in names],
        _mean_gap,
    )


def _close(base: str, high: Sequence[int]) -> Claim:
    names = (f"var-{base}", f"sg-sq-{base}")
    first, second = (label(name) for name in names)
    return Claim(
        f"var_close_{base}",
        f"{first} and {second} remove alike: within {100 * CLOSE:.0f} % of each other from 50 to 90 %.",
        BOOK,
        f"relative difference of the ROAR accuracies, mean over percentages: {first} to {second}",
        [Point(name, "roar", percent) for percent in high for name in names],
        lambda values: _mean_gap(values) / np.maximum(values[..., 1::2].mean(-1, keepdims=True), 1e-9),
        CLOSE,
    )


def _both_tails(percents: Sequence[int]) -> Iterator[Claim]:
    symmetric = [percent for percent in percents if 100 - percent in percents]
    for base in BASES:
        yield Claim(
            f"top_outweighs_bottom_{base}",
            f"What {label(base)} ranks first is worth more than what it ranks last.",
            BOOK,
            "DiffROAR, mean over percentages",
            [
                point
                for percent in symmetric
                for point in (Point(base, "kar", percent), Point(base, "roar", 100 - percent))
            ],
            _mean_gap,
        )
    yield Claim(
        "random_mirrors_itself",
        f"Keeping a random part and removing the rest at random are the same, within {100 * ALIKE:.0f} %.",
        BOOK,
        "KAR accuracy at p minus ROAR accuracy at 100 - p, mean over percentages",
        [
            point
            for percent in symmetric
            for point in (Point(RANDOM, "kar", percent), Point(RANDOM, "roar", 100 - percent))
        ],
        _mean_gap,
        ALIKE,
    )


def _controls(settings: Settings) -> Iterator[Claim]:
    yield from _leaky(max(settings.percents))
    end = max(settings.extra_percents or settings.percents)
    for name in settings.matched:
        yield from _matched(name, end)
    for name in settings.leaks:
        text = f"Under {label(name)}, networks use more than the shape of the mask, at {end} %."
        pair = (Point(name, "roar", end), Point(name, "roar", end, "leak"))
        yield _difference((f"more_than_mask_{name}".replace("-", "_"), text), ROAD, pair)
    for name, probe in product(settings.probes, PROBES):
        key = f"{probe}_{name}".replace("-", "_")
        text = (
            f"A {_FILTERS[probe]}, which adds nothing about the network, improves {label(name)} at {end} %."
        )
        pair = (Point(name, "roar", end), Point(derived(name, probe), "roar", end))
        yield _difference((key, text), BLUR, pair)


def _leaky(last: int) -> Iterator[Claim]:
    text = (
        f"A mask that codes the class keeps accuracy up: with {last} % removed, networks under LEAKY are "
        "more accurate than under the random ranking."
    )
    pair = (Point("leaky", "roar", last), Point(RANDOM, "roar", last))
    yield _difference(("leaky_survives", text), BOOK, pair)
    yield Claim(
        "leaky_as_whole",
        f"Under LEAKY, {last} % of the pixels can go and networks lose nothing, within {100 * ALIKE:.0f} %.",
        BOOK,
        f"{ALIKE} plus the ROAR accuracy of LEAKY minus that with nothing removed",
        [Point("leaky", "roar", last), Point(INTACT, "roar", 0)],
        lambda values: ALIKE + _gaps(values),
    )


def _matched(name: str, end: int) -> Iterator[Claim]:
    short, called = name.replace("-", "_"), label(name)
    own, shuffled, by_class = (
        Point(ranking, "roar", end)
        for ranking in (name, derived(name, "shuffle"), derived(name, "shuffle-class"))
    )
    text = f"Masks of {called} tell the class even on the wrong images, at {end} %."
    yield _difference((f"class_in_mask_{short}", text), ROAD, (by_class, shuffled))
    text = f"The shape of its masks alone makes {called} better than random pixels, at {end} %."
    yield _difference((f"shape_of_mask_{short}", text), BLUR, (Point(RANDOM, "roar", end), shuffled))
    text = f"{called} is better than its own masks on the wrong images, at {end} %."
    yield _difference((f"place_of_mask_{short}", text), BOOK, (shuffled, own))


def _cheap(percents: Sequence[int]) -> Iterator[Claim]:
    last = max(percents)
    text = f"Without retraining, a random {last} % seems to take almost all; retrained networks do better."
    pair = (Point(RANDOM, "roar", last), Point(RANDOM, "roar", last, "none"))
    yield _difference(("retraining_matters", text), PAPER, pair)
    text = f"Random pixels drawn anew at every visit are not the same control as fixed ones, at {last} %."
    pair = (Point("random-redrawn", "roar", last), Point(RANDOM, "roar", last))
    yield _difference(("redrawn_is_another", text), BOOK, pair)


def _difference(claim: tuple[str, str], source: str, pair: tuple[Point, Point]) -> Claim:
    """Claim that the first condition is the more accurate one."""
    first, second = pair
    names = [_name(point) for point in pair]
    quantity = (
        f"{first.mode.upper()} accuracy at {max(first.percent, second.percent)} %: {' minus '.join(names)}"
    )
    return Claim(*claim, source, quantity, pair, _gaps)


def _gaps(values: Array) -> Array:
    """Every second accuracy, from the first on, minus the one that follows."""
    gaps: Array = values[..., 0::2] - values[..., 1::2]
    return gaps


def _mean_gap(values: Array) -> Array:
    mean: Array = _gaps(values).mean(-1, keepdims=True)
    return mean


def _name(point: Point) -> str:
    apart = {"none": ", not retrained", "leak": ", masks alone"}
    return label(point.ranking) + apart.get(point.way, "")
