"""A method's card says what the columns say."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from heatcheck.benchmarks.comparison_card import COLUMNS, card_table
from heatcheck.benchmarks.comparison_columns import METRICS, Column

NAN = float("nan")
REFUSED = "needs a network without questions"


def column(
    key: str,
    goodness: Mapping[str, float],
    *,
    noise: float = 0.01,
    runs: int = 1,
    classifier: str = "resnet",
    seed: int = 0,
    why: Mapping[str, str] | None = None,
) -> Column:
    """A metric's column in which every method has the wanted goodness, images shaking it."""
    shaken = noise * np.random.default_rng(list(key.encode())).normal(size=(runs, 40, len(goodness)))
    values = METRICS[key].sign * (np.array(list(goodness.values())) + shaken - shaken.mean((0, 1)))
    images = tuple(f"image-{place}" for place in range(40))
    return Column(METRICS[key], classifier, tuple(goodness), images, values, why or {}, seed)


FIELD = {"gradient": 0.5, "lrp": 0.9, "rise": 0.7, "mine": 0.8, "random": 0.1, "centre": 0.3}


def row(goodness: Mapping[str, float], key: str = "mass", **options: Any) -> dict[str, Any]:
    (found,) = card_table([column(key, goodness, **options)], "mine").to_dict("records")
    return {str(name): value for name, value in found.items()}


@pytest.mark.parametrize("key", ["mass", "deletion"])
@pytest.mark.parametrize("runs", [1, 3])
def test_the_rank_counts_methods_and_no_controls_in_either_direction(key: str, runs: int) -> None:
    found = row(FIELD, key, runs=runs)
    assert (found["rank"], found["rank_low"], found["rank_high"], found["n_methods"]) == (2, 2, 2, 4)
    assert found["best"] == "lrp"
    sign = METRICS[key].sign
    assert found["value"] == pytest.approx(sign * 0.8)
    assert found["best_value"] == pytest.approx(sign * 0.9)
    assert found["low"] < found["value"] < found["high"]


def test_the_interval_of_the_rank_holds_the_ranks_that_the_images_cannot_exclude() -> None:
    found = row({"gradient": 0.2, "lrp": 0.8, "rise": 0.8001, "mine": 0.8002}, noise=0.1)
    assert (found["rank"], found["rank_low"], found["rank_high"]) == (1, 1, 3)


def test_a_tie_shares_its_ranks() -> None:
    found = row({"gradient": 0.5, "lrp": 0.5, "mine": 0.5}, noise=0.0)
    assert found["rank"] == 2
    assert found["versus_median"] == "undecided"


CONTROLLED = [
    ({"random": 0.1, "centre": 0.3}, "yes", 2, "centre", 3.5),
    ({"random": 0.1, "centre": 0.95}, "no", 1, "centre", 0.5),
    ({"random": 0.1, "centre": 0.8}, "undecided", 1, "centre", 2.0),
    ({}, "", 0, "", NAN),
]


@pytest.mark.parametrize(("controls", "answer", "n_beaten", "hardest", "place"), CONTROLLED)
def test_every_control_must_be_beaten_on_the_same_images(
    controls: dict[str, float], answer: str, n_beaten: int, hardest: str, place: float
) -> None:
    goodness = {"gradient": 0.2, "lrp": 0.9, "rise": 0.7, "mine": 0.8} | controls
    # Without noise, equal means are equal on every image.
    found = row(goodness, noise=0.0)
    assert (found["beats_controls"], found["n_beaten"], found["control"]) == (answer, n_beaten, hardest)
    assert found["n_controls"] == len(controls)
    assert found["control_place"] == pytest.approx(place, nan_ok=True)


def test_a_lead_is_paired_so_that_what_images_share_does_not_blur_it() -> None:
    plain = column("mass", FIELD, noise=0.001)
    images = np.random.default_rng(0).normal(size=(1, 40, 1))
    shared = Column(
        plain.metric, plain.classifier, plain.methods, plain.images, plain.values + 10 * images, {}
    )
    (found,) = card_table([shared], "mine").to_dict("records")
    assert found["high"] - found["low"] > 1
    assert found["beats_controls"] == "yes"
    assert found["control_high"] - found["control_low"] < 0.01
    assert found["control_low"] < 0.5 < found["control_high"]


@pytest.mark.parametrize(("mine", "answer"), [(0.9, "better"), (0.1, "worse"), (0.5, "undecided")])
def test_the_median_is_that_of_the_other_methods(mine: float, answer: str) -> None:
    found = row({"gradient": 0.2, "lrp": 0.5, "rise": 0.8, "mine": mine, "random": 0.0}, "deletion")
    assert found["versus_median"] == answer
    assert found["median"] == pytest.approx(-0.5)


def test_only_rivals_are_ranked_against() -> None:
    table = card_table([column("mass", FIELD | {"mine-too": 2.0})], "mine", rivals=["gradient", "random"])
    (found,) = table.to_dict("records")
    assert (found["rank"], found["n_methods"], found["best"]) == (1, 2, "gradient")
    assert (found["n_controls"], found["beats_controls"]) == (2, "yes")


def test_a_metric_that_cannot_take_the_method_says_why_and_gives_no_number() -> None:
    table = card_table(
        [column("mass", FIELD | {"mine": NAN}, why={"mine": REFUSED}), column("roar", FIELD, runs=2)], "mine"
    )
    refused, taken = table.to_dict("records")
    assert refused["why"] == REFUSED
    assert np.isnan([refused[name] for name in ("value", "low", "rank", "rank_low", "control_low")]).all()
    assert (refused["best"], refused["control"], refused["beats_controls"]) == ("", "", "")
    assert refused["n_methods"] == 3
    assert (taken["why"], taken["rank"], taken["n_runs"]) == ("", 2, 2)


def test_methods_without_a_score_are_not_counted() -> None:
    found = row(FIELD | {"lrp": NAN, "centre": NAN})
    assert (found["rank"], found["n_methods"], found["control"], found["n_controls"]) == (1, 3, "random", 1)


def test_rows_follow_the_metrics_with_further_classifiers_behind_and_the_first_seed_counts() -> None:
    columns = [
        column("roar", FIELD),
        column("deletion", FIELD),
        column("deletion", FIELD | {"mine": 0.0}, classifier="vgg"),
        column("mass", FIELD),
        column("mass", FIELD | {"mine": 0.0}, seed=1),
    ]
    table = card_table(columns, "mine")
    assert list(table.columns) == list(COLUMNS)
    assert list(zip(table["metric"], table["classifier"], table["main"], table["rank"], strict=True)) == [
        ("mass", "resnet", True, 2),
        ("deletion", "resnet", True, 2),
        ("deletion", "vgg", False, 4),
        ("roar", "resnet", True, 2),
    ]


def test_the_same_columns_give_the_same_card_in_any_order() -> None:
    columns = [column(key, FIELD, noise=0.5) for key in ("mass", "deletion", "kar")]
    assert card_table(columns, "mine").equals(card_table(columns[::-1], "mine"))


def test_a_method_that_was_not_compared_is_named_with_those_that_were() -> None:
    with pytest.raises(ValueError, match="no scores of 'yours'; there are: gradient, lrp"):
        card_table([column("mass", FIELD)], "yours")
