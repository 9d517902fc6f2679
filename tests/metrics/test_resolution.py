"""How small a difference some images can tell, and whether two protocols agree."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from heatcheck.metrics.agreement import protocol_agreement, rank_correlations
from heatcheck.metrics.resampling import resampled_means
from heatcheck.metrics.resolution import (
    images_needed,
    minimum_detectable_difference,
    paired_deviations,
    random_deviation,
    resolution_table,
)

NAN = float("nan")


@pytest.mark.parametrize("n_patches", [2, 4, 6])
def test_a_random_order_deviates_as_the_formula_says(n_patches: int) -> None:
    fixed = np.arange(n_patches)
    every = [stats.spearmanr(fixed, order).statistic for order in permutations(range(n_patches))]
    assert random_deviation(n_patches) == pytest.approx(np.std(every))


def test_sixteen_patches_give_random_maps_a_deviation_of_a_quarter() -> None:
    assert random_deviation(16) == pytest.approx(0.258, abs=5e-4)
    with pytest.raises(ValueError, match="at least 2"):
        random_deviation(1)


def test_the_detectable_difference_is_found_with_the_power_it_promises() -> None:
    difference = minimum_detectable_difference(0.3, 40, level=0.9, power=0.7)
    error = 0.3 / 40**0.5
    limit = stats.norm.ppf(0.95) * error
    assert stats.norm.sf((limit - difference) / error) == pytest.approx(0.7)


def test_four_times_the_images_tell_half_the_difference() -> None:
    assert minimum_detectable_difference(0.3, 400) == pytest.approx(
        minimum_detectable_difference(0.3, 100) / 2
    )


@pytest.mark.parametrize("n_images", [1, 10, 77, 5000])
def test_the_images_needed_are_the_inverse(n_images: int) -> None:
    assert images_needed(0.33, minimum_detectable_difference(0.33, n_images)) == n_images
    assert images_needed(0.33, 0.999 * minimum_detectable_difference(0.33, n_images)) > n_images


def test_differences_are_taken_over_images_that_both_methods_score() -> None:
    values = np.array([[0.0, 1.0, NAN], [2.0, 1.0, 5.0], [1.0, 1.0, 5.0], [NAN, 1.0, 5.0]])
    found = paired_deviations(values)
    assert found == pytest.approx([1.0, np.std([-3, -4], ddof=1), 0.0])


def test_the_table_shrinks_with_the_root_of_the_images() -> None:
    values = np.random.default_rng(0).normal(size=(50, 3))
    first, second = resolution_table(values, [25, 100])
    assert (first.n_images, second.n_images) == (25, 100)
    for column in ("standard_error", "readable", "detectable"):
        assert getattr(first, column) == pytest.approx(2 * getattr(second, column))
    single = np.median(values.std(0, ddof=1))
    assert second.standard_error == pytest.approx(single / 10)
    assert second.readable == pytest.approx(2 * np.median(paired_deviations(values)) / 10)


@pytest.mark.parametrize(
    "call",
    [
        lambda: minimum_detectable_difference(0.3, 0),
        lambda: minimum_detectable_difference(0.3, 10, level=1.0),
        lambda: images_needed(0.3, 0.0),
        lambda: paired_deviations(np.zeros((5, 1))),
        lambda: protocol_agreement(np.zeros((5, 1)), np.zeros((5, 1))),
        lambda: protocol_agreement(np.zeros((5, 2)), np.zeros((5, 3))),
    ],
)
def test_impossible_questions_are_refused(call: object) -> None:
    with pytest.raises(ValueError, match=r"need|must"):
        call()  # type: ignore[operator]


def test_rankings_without_order_or_with_one_method_do_not_agree_or_disagree() -> None:
    for pair in (([1, 1, 1], [1, 2, 3]), ([1], [2]), ([1, NAN], [2, 3])):
        assert np.isnan(rank_correlations(*pair)).all()
    assert rank_correlations([1, 2, NAN, 4], [2, 3, 0, 9]) == (1, 1)


def test_protocols_that_differ_by_scale_agree_on_every_resample() -> None:
    first = np.random.default_rng(0).normal(size=(60, 4)) + np.arange(4)
    found = protocol_agreement(first, 3 * first - 1, n_resamples=50)
    assert found == pytest.approx((1, 1, 1, 1, 1, 1, 4))
    against = protocol_agreement(first, -first, n_resamples=50)
    assert against == pytest.approx((-1, -1, -1, -1, -1, -1, 4))


def test_a_method_without_any_score_is_left_out_of_the_agreement() -> None:
    first = np.random.default_rng(0).normal(size=(60, 4)) + np.arange(4)
    first[:, 2] = NAN
    found = protocol_agreement(first, first, n_resamples=20)
    assert found == pytest.approx((1, 1, 1, 1, 1, 1, 3))


def test_every_resample_is_correlated_as_scipy_does_it() -> None:
    generator = np.random.default_rng(1)
    # Few levels and missing scores: resamples hold ties, and some of them no score of a method.
    first, second = generator.integers(0, 3, size=(2, 6, 5)).astype(float)
    first[:5, 1] = NAN
    found = protocol_agreement(first, second, n_resamples=60, seed=3)
    draws = [resampled_means(table, n_resamples=60, seed=3) for table in (first, second)]
    slow = np.array([rank_correlations(*pair) for pair in zip(*draws, strict=True)])
    for column, ends in enumerate((found[1:3], found[4:6])):
        used = slow[~np.isnan(slow[:, column]), column]
        assert ends == pytest.approx(np.quantile(used, [0.025, 0.975]), abs=1e-12)
    assert np.isnan(draws[0]).any()
