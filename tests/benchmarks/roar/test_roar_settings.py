"""What a run refuses before it computes anything, and how many networks it trains."""

import pytest
from tests.benchmarks.roar.conftest import PLAIN, digits_settings

from heatcheck.attribution.catalog import load_catalog
from heatcheck.benchmarks import roar
from heatcheck.benchmarks.roar_conditions import INTACT, comes_from_maps, conditions, is_model_based, label
from heatcheck.benchmarks.roar_settings import protocol_of, recipe_of


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimators": ["gradd"]}, "unknown estimators gradd"),
        ({"estimators": ["grad", "grad"]}, "different"),
        ({"matched": ["ig"]}, "matched names ig"),
        ({"recursive": ["random"]}, "recursive names random"),
        ({"percents": [50, 10]}, "rising"),
        ({"extra_percents": [20]}, "extra_percents has"),
        ({"recipe": "resnet"}, "unknown recipe 'resnet'"),
        ({"protocol": "release"}, "imputation replaces whole pixels"),
        ({"options": {"input-x-gradient": {"steps": 3}}}, "steps"),
        ({"options": {"sobel": {}}}, "options name sobel, whose rankings the protocol fixes"),
        ({"memory": "much"}, "memory budget"),
    ],
)
def test_settings_that_cannot_run_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        roar.check(digits_settings(**changes))


def test_random_is_always_there_and_an_unknown_data_set_is_named() -> None:
    plain = {**PLAIN, "estimators": ["grad"]}
    assert roar.check(digits_settings(**plain)).estimators == ["random", "grad"]
    with pytest.raises(ValueError, match="unknown data set 'letters'"):
        roar.check(digits_settings(**plain, data="letters", recipe="digits"))


def test_the_published_grid_has_540_data_sets() -> None:
    estimators = [
        "random",
        "sobel",
        *(
            f"{form}{base}"
            for base in ("grad", "gb", "ig")
            for form in ("", "sq-", "sg-", "sq-sg-", "sg-sq-", "var-")
        ),
    ]
    settings = digits_settings(**PLAIN, estimators=estimators, percents=[10, 30, 50, 70, 90], n_runs=5)
    trained = [condition for condition in conditions(settings) if condition.way == "scratch"]
    model_based = [condition for condition in trained if is_model_based(condition.ranking)]
    assert len(model_based) == 18 * 5 * 2 * 5
    assert len(trained) == 20 * 5 * 2 * 5 + 5
    assert len({condition[:3] for condition in model_based}) == 540 // 3


def test_conditions_are_different_and_controls_ignore_the_network() -> None:
    settings = digits_settings(n_checkpoints=3)
    found = conditions(settings)
    assert len(set(found)) == len(found)
    scratch = [condition for condition in found if condition.way == "scratch"]
    assert {condition.checkpoint for condition in scratch if condition.ranking == "random"} == {0}
    assert {condition.checkpoint for condition in scratch if condition.ranking == "grad"} == {0, 1, 2}
    assert {condition.percent for condition in scratch if condition.ranking == INTACT} == {0}


@pytest.mark.parametrize(
    ("ranking", "model_based", "from_maps"),
    [
        ("grad", True, True),
        ("sq-ig", True, True),
        ("input-x-gradient", True, True),
        ("grad/gaussian", False, True),
        ("grad/shuffle", False, False),
        ("sobel", False, True),
        ("centre", False, True),
        ("random-blocks", False, True),
        ("random", False, False),
        ("random-redrawn", False, False),
        ("oracle", False, False),
        ("leaky", False, False),
        (INTACT, False, False),
    ],
)
def test_what_a_ranking_comes_from(ranking: str, model_based: bool, from_maps: bool) -> None:
    load_catalog()
    assert is_model_based(ranking) == model_based
    assert comes_from_maps(ranking) == from_maps


def test_labels_are_those_of_the_paper() -> None:
    assert [label(name) for name in ("sg-sq-grad", "random", "grad/shuffle", "input-x-gradient")] == [
        "SG-SQ-GRAD",
        "Random",
        "GRAD, shuffle",
        "input-x-gradient",
    ]


def test_a_setting_replaces_the_number_of_the_protocol() -> None:
    assert protocol_of(digits_settings(protocol="release")).n_samples == 2
    assert protocol_of(digits_settings(protocol="release", n_samples=None)).n_samples == 25
    assert protocol_of(digits_settings(protocol="release")).granularity == "element"
    assert protocol_of(digits_settings(granularity="element")).granularity == "element"


def test_recommended_removal_is_not_followed_by_resizing() -> None:
    published = digits_settings(data="food101", protocol="paper", epochs=None)
    assert recipe_of(published).augmentation == "published"
    assert recipe_of(published).steps == 20_000
    assert recipe_of(digits_settings(data="food101", epochs=None)).augmentation == "recommended"
    assert recipe_of(digits_settings(), seed=5).seed == 5
