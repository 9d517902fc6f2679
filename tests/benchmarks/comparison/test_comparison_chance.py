"""Do facts about maps explain what metrics agree on, and where do controls stand?"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from heatcheck.benchmarks.comparison_chance import (
    FACTS,
    control_ranks,
    fact_columns,
    partial_table,
    partial_tau,
    smoothness_table,
)
from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.metrics.chance import kendall_band

METHODS = ("gradient", "smoothgrad", "grad-cam", "lrp", "rise", "lime", "random", "centre")
REAL = 6
IMAGES = tuple(f"image-{number}" for number in range(24))


def column(key: str, goodness: Sequence[float], *, noise: float = 0.0, seed: int = 0) -> Column:
    """A column in which more ``goodness`` is better in the metric's own direction."""
    metric = METRICS[key]
    spread = noise * np.random.default_rng(seed).standard_normal((1, len(IMAGES), len(goodness)))
    return Column(metric, "net", METHODS, IMAGES, metric.sign * (np.array(goodness) + spread), {})


def maps_of(smoothness: Sequence[float], *, noise: float = 0.0) -> pd.DataFrame:
    random = np.random.default_rng(5)
    rows = [
        (method, image, -value + noise * random.standard_normal(), abs(value), 0.25 + 0.01 * place)
        for image in IMAGES
        for place, (method, value) in enumerate(zip(METHODS, smoothness, strict=True))
    ]
    return pd.DataFrame(rows, columns=["method", "image", "roughness", "concentration", "centrality"])


RISING = [1.0, 2, 3, 4, 5, 6, 7, 8]
FALLING = RISING[::-1]
MIXED = [2.0, 1, 4, 3, 6, 5, 8, 7]


def row(table: pd.DataFrame, **wanted: object) -> pd.Series:
    for name, value in wanted.items():
        table = table[table[name] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_a_metric_that_ranks_by_smoothness_has_tau_one_with_it_and_one_that_ranks_against_it_minus_one() -> (
    None
):
    columns = [column("mass", RISING), column("deletion", FALLING)]
    table = smoothness_table(columns, maps_of(RISING))
    assert list(table["metric"]) == ["mass"] * 3 + ["deletion"] * 3
    assert list(table["fact"]) == [*FACTS, *FACTS]
    with_mass = row(table, metric="mass", fact="smoothness")
    with_deletion = row(table, metric="deletion", fact="smoothness")
    assert with_mass[["kendall", "low", "high"]].tolist() == pytest.approx([1, 1, 1])
    assert with_deletion[["kendall", "low", "high"]].tolist() == pytest.approx([-1, -1, -1])
    assert with_mass["n"] == REAL
    assert (with_mass["chance_low"], with_mass["chance_high"]) == kendall_band(REAL)
    assert with_mass["beyond_chance"]
    assert with_deletion["beyond_chance"]


def test_tau_with_a_fact_counts_pairs_in_the_wrong_order() -> None:
    # Three of the fifteen pairs of six methods are swapped.
    found = row(smoothness_table([column("roar", MIXED)], maps_of(RISING)), fact="smoothness")
    assert found["kendall"] == pytest.approx(1 - 2 * 3 / 15)
    assert found["beyond_chance"] == (found["kendall"] > kendall_band(REAL)[1])


def test_controls_count_only_where_asked_for() -> None:
    columns = [column("mass", [*RISING[:6], 0, -1])]
    assert row(smoothness_table(columns, maps_of(RISING)), fact="smoothness")["n"] == REAL
    both = row(smoothness_table(columns, maps_of(RISING), with_controls=True), fact="smoothness")
    assert both["n"] == 8
    assert both["kendall"] == pytest.approx(1 - 2 * 13 / 28)


def test_methods_without_a_score_or_a_fact_are_left_out() -> None:
    maps = maps_of(RISING)
    maps.loc[maps["method"] == "lime", "roughness"] = np.nan
    maps = maps[maps["method"] != "rise"]
    columns = [column("idsds", [np.nan, *RISING[1:]])]
    table = smoothness_table(columns, maps)
    assert row(table, fact="smoothness")["n"] == 3
    assert row(table, fact="concentration")["n"] == 4
    nothing = smoothness_table([column("idsds", [np.nan] * 8)], maps)
    assert nothing["kendall"].isna().all()
    assert nothing["chance_low"].isna().all()
    assert not nothing["beyond_chance"].any()


def test_facts_are_resampled_with_metrics_of_the_same_images() -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((1, len(IMAGES), len(METHODS)))
    maps = maps_of([0.0] * 8)
    for place, method in enumerate(METHODS):
        maps.loc[maps["method"] == method, "roughness"] = -noise[0, :, place]
    metric = Column(METRICS["deletion"], "net", METHODS, IMAGES, -noise, {})
    # The metric is the smoothness of each image, so that every resample ranks alike only if it is paired.
    found = row(smoothness_table([metric], maps), fact="smoothness")
    assert found[["low", "high"]].tolist() == pytest.approx([1, 1])


def test_fact_columns_turn_roughness_into_smoothness_and_keep_images_in_order() -> None:
    facts = fact_columns(maps_of(RISING))
    assert [fact.key for fact in facts] == list(FACTS)
    assert facts[0].methods == METHODS
    assert facts[0].images == IMAGES
    np.testing.assert_allclose(facts[0].goodness(), RISING)
    np.testing.assert_allclose(facts[2].goodness(), 0.25 + 0.01 * np.arange(8))


def test_maps_must_have_all_facts_once() -> None:
    maps = maps_of(RISING)
    with pytest.raises(ValueError, match="no column roughness, centrality"):
        fact_columns(maps.drop(columns=["roughness", "centrality"]))
    with pytest.raises(ValueError, match="twice"):
        fact_columns(pd.concat([maps, maps.iloc[:1]]))


@pytest.mark.parametrize(
    ("both", "first", "second", "left"),
    [
        (0.5, 0, 0, 0.5),
        (0.25, 0.5, 0.5, 0),
        (1, 0.5, 0.5, 1),
        (0, 0.6, 0.6, -0.36 / 0.64),
        (0.3, 1, 0.3, np.nan),
        (-0.3, 0.3, -1, np.nan),
    ],
)
def test_partial_tau_is_kendalls_formula(both: float, first: float, second: float, left: float) -> None:
    found = partial_tau(*(np.array(float(value)) for value in (both, first, second)))
    assert float(found) == pytest.approx(left, abs=1e-12, nan_ok=True)


def test_partial_tau_of_rankings_equals_the_phi_of_concordant_pairs() -> None:
    # Kendall's own derivation: the 2 x 2 table of pairs that each ranking orders as the third does.
    rng = np.random.default_rng(3)
    first, second, third = (rng.permutation(9) for _ in range(3))
    pairs = np.triu_indices(9, 1)
    signs = [np.sign(values[pairs[0]] - values[pairs[1]]) for values in (first, second, third)]
    agrees = [signs[place] == signs[2] for place in (0, 1)]
    phi = np.corrcoef(agrees[0], agrees[1])[0, 1]
    taus = [(signs[i] * signs[j]).mean() for i, j in ((0, 1), (0, 2), (1, 2))]
    assert float(partial_tau(*(np.array(tau) for tau in taus))) == pytest.approx(phi, abs=1e-12)


def test_agreement_that_smoothness_explains_is_gone_when_it_is_held() -> None:
    columns = [column("mass", MIXED, noise=0.05), column("roar", [3.0, 2, 1, 6, 5, 4, 0, 0], noise=0.05)]
    table = partial_table(columns, maps_of(RISING))
    assert len(table) == 1
    found = table.iloc[0]
    taus = (found["kendall"], 1 - 2 * 3 / 15, 1 - 2 * 6 / 15)
    assert found["partial"] == pytest.approx(float(partial_tau(*(np.array(tau) for tau in taus))))
    assert found["partial"] < found["kendall"]
    assert found["low"] <= found["kendall"] <= found["high"]
    assert found["partial_low"] <= found["partial"] <= found["partial_high"]
    assert not found["same_benchmark"]


def test_partial_agreement_is_undefined_where_a_metric_is_the_fact() -> None:
    table = partial_table([column("mass", RISING), column("roar", MIXED)], maps_of(RISING))
    assert np.isnan(table["partial"].iloc[0])
    assert table["kendall"].iloc[0] == pytest.approx(1 - 2 * 3 / 15)


def test_every_pair_of_metrics_has_a_partial_tau_of_the_asked_fact() -> None:
    columns = [column(key, np.random.default_rng(place).random(8).tolist(), noise=0.1, seed=place)
               for place, key in enumerate(METRICS)]  # fmt: skip
    table = partial_table(columns, maps_of(RISING, noise=2.0), fact="concentration")
    assert len(table) == len(METRICS) * (len(METRICS) - 1) / 2
    assert set(table["fact"]) == {"concentration"}
    with pytest.raises(ValueError, match="unknown fact 'size'"):
        partial_table(columns, maps_of(RISING), fact="size")


def test_a_control_is_ranked_among_all_and_beats_the_methods_below_it() -> None:
    columns = [column("deletion", [1, 2, 3, 4, 5, 6, 3.5, 0], noise=0.01)]
    table = control_ranks(columns)
    assert list(table["control"]) == ["random", "centre"]
    random, centre = row(table, control="random"), row(table, control="centre")
    assert random[["rank", "n", "n_methods", "beats", "beats_surely"]].tolist() == [4, 8, 6, 3, 3]
    assert random["share"] == pytest.approx(0.5)
    assert random["beaten"] == "gradient, smoothgrad, grad-cam"
    assert centre[["rank", "beats", "beats_surely", "beaten"]].tolist() == [8, 0, 0, ""]


def test_a_control_beats_surely_only_what_resamples_do_not_turn_around() -> None:
    metric = METRICS["mass"]
    values = np.zeros((1, len(IMAGES), 8))
    values[0, :, 0] = np.where(np.arange(len(IMAGES)) % 2, 1.0, -1.0)
    values[0, :, 6] = 0.01
    found = row(control_ranks([Column(metric, "net", METHODS, IMAGES, values, {})]), control="random")
    assert found["beats"] == REAL
    assert found["beats_surely"] == REAL - 1
    assert "gradient" not in found["beaten"].split(", ")


def test_a_control_without_a_score_beats_nobody() -> None:
    found = row(control_ranks([column("ids", [*RISING[:6], np.nan, 0])]), control="random")
    assert np.isnan(found["rank"])
    assert np.isnan(found["share"])
    assert (found["n"], found["n_methods"], found["beats"], found["beats_surely"]) == (7, 6, 0, 0)


def test_nothing_to_compare_gives_empty_tables_with_their_columns() -> None:
    assert "kendall" in smoothness_table([], maps_of(RISING)).columns
    assert "partial" in partial_table([column("mass", RISING)], maps_of(RISING)).columns
    nothing, two = pd.DataFrame(), [column("mass", RISING), column("roar", MIXED)]
    for table in (smoothness_table(two, nothing), partial_table(two, nothing)):
        assert table.empty
        assert "kendall" in table.columns
    assert control_ranks([]).empty
    assert "beats" in control_ranks([]).columns
