"""Bootstrap of many columns at once."""

import numpy as np
import pytest

from heatcheck.metrics.agreement import protocol_agreement
from heatcheck.metrics.resampling import mean_intervals, resampled_means, stratified_intervals
from heatcheck.metrics.statistics import bootstrap_mean


def table(n: int = 60, columns: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, columns)) + np.arange(columns)


def test_intervals_agree_with_those_of_single_columns() -> None:
    values = table()
    found = mean_intervals(values, n_resamples=4000)
    for column in range(values.shape[1]):
        single = bootstrap_mean(values[:, column], n_resamples=4000)
        assert found.mean[column] == pytest.approx(single.mean)
        assert found.low[column] == pytest.approx(single.low, abs=0.03)
        assert found.high[column] == pytest.approx(single.high, abs=0.03)


def test_columns_share_their_resamples_so_differences_are_paired() -> None:
    values = table(columns=1)
    means = resampled_means(np.hstack([values, values + 1]))
    assert np.allclose(means[:, 1] - means[:, 0], 1)


def test_undefined_values_do_not_count_and_an_undefined_column_stays_undefined() -> None:
    values = table()
    values[::2, 0] = np.nan
    values[:, 1] = np.nan
    found = mean_intervals(values)
    assert found.mean[0] == pytest.approx(np.nanmean(values[:, 0]))
    assert np.isnan([found.mean[1], found.low[1], found.high[1]]).all()
    assert not np.isnan([found.low[0], found.low[2]]).any()


def test_equal_rankings_agree_wholly_and_reversed_ones_not_at_all() -> None:
    values = table() * 0.01 + np.arange(3)
    same = protocol_agreement(values, 2 * values)
    assert (same.kendall, same.kendall_low, same.kendall_high) == pytest.approx((1, 1, 1))
    assert protocol_agreement(values, -values).kendall == -1


def test_the_draws_depend_on_the_seed_alone() -> None:
    values = table()
    assert np.array_equal(resampled_means(values, seed=1), resampled_means(values, seed=1))
    assert not np.array_equal(resampled_means(values, seed=1), resampled_means(values, seed=2))


@pytest.mark.parametrize("shape", [(0, 3), (4,)])
def test_tables_without_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="need values"):
        resampled_means(np.zeros(shape))


def test_one_method_has_no_ranking() -> None:
    with pytest.raises(ValueError, match="M >= 2"):
        protocol_agreement(np.zeros((3, 1)), np.zeros((3, 1)))
    with pytest.raises(ValueError, match="level"):
        mean_intervals(table(), level=1)


def test_strata_count_the_same_whatever_their_size() -> None:
    values = np.concatenate([np.zeros((30, 1)), np.ones((10, 1))])
    found = stratified_intervals(values, np.repeat([0, 1], [30, 10]))
    assert [float(part[0]) for part in found] == [0.5, 0.5, 0.5]


def test_one_stratum_is_the_plain_mean() -> None:
    values = table()
    found = stratified_intervals(values, np.zeros(len(values), dtype=np.int64))
    for one, other in zip(found, mean_intervals(values), strict=True):
        assert np.allclose(one, other)


def test_a_stratum_without_a_value_does_not_count() -> None:
    values = np.array([[np.nan], [1.0], [0.0]])
    assert stratified_intervals(values, np.array([0, 1, 1])).mean == pytest.approx(0.5)
