"""Joint bootstrap over runs and images, spread over runs, variance components."""

import numpy as np
import pytest
from scipy import stats

from heatcheck.metrics import paired_runs
from heatcheck.metrics.paired_runs import (
    bootstrap_p_values,
    resampled_run_means,
    summarize_runs,
    t_interval,
    two_level_variance,
)


def answers(*shape: int, share: float = 0.7, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random(shape) < share


def test_resamples_are_means_over_whole_runs_and_whole_images() -> None:
    """A table that is a sum of a run's and an image's part separates into their two resampled means."""
    runs, images = np.arange(3.0), np.arange(7.0) ** 2
    both = resampled_run_means(runs[:, None] + images, n_resamples=50)
    by_run = resampled_run_means(np.broadcast_to(runs[:, None], (3, 7)).copy(), n_resamples=50)
    by_image = resampled_run_means(np.broadcast_to(images, (3, 7)).copy(), n_resamples=50)
    assert np.allclose(both, by_run + by_image)
    assert set(np.round(by_run * 3).astype(int)) <= set(range(7))
    assert np.allclose(by_run * 3, np.round(by_run * 3))


def test_resamples_of_answers_are_exact_whatever_their_type() -> None:
    bits = answers(4, 3, 101)
    found = resampled_run_means(bits, n_resamples=64)
    assert np.array_equal(found, resampled_run_means(bits.astype(np.int8), n_resamples=64))
    assert np.allclose(
        found, resampled_run_means(bits.astype(np.float64), n_resamples=64), rtol=0, atol=1e-15
    )


def test_conditions_share_their_draws_within_a_call_and_between_calls() -> None:
    bits = answers(5, 2, 60)
    together = resampled_run_means(bits, n_resamples=30)
    for place in range(5):
        assert np.array_equal(together[:, place], resampled_run_means(bits[place], n_resamples=30))
    difference = resampled_run_means(bits[0].astype(np.int8) - bits[1], n_resamples=30)
    assert np.allclose(together[:, 0] - together[:, 1], difference)
    assert not np.array_equal(together, resampled_run_means(bits, n_resamples=30, seed=1))


def test_how_many_rows_are_multiplied_at_once_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    bits = answers(6, 3, 50)
    whole = paired_runs._products(np.ones((4, 50), dtype=np.float32), bits.reshape(-1, 50), np.float32)
    monkeypatch.setattr(paired_runs, "_BLOCK", 100)
    parts = paired_runs._products(np.ones((4, 50), dtype=np.float32), bits.reshape(-1, 50), np.float32)
    assert np.array_equal(whole, parts)


def test_many_images_are_drawn_in_blocks_that_cover_every_resample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_runs, "_BLOCK", 128)
    found = resampled_run_means(answers(2, 3, 50), n_resamples=11)
    assert found.shape == (11, 2)
    assert (np.ptp(found, axis=0) > 0).all()


def test_one_run_leaves_the_spread_of_images_alone() -> None:
    bits = answers(1, 2000)
    draws = resampled_run_means(bits, n_resamples=4000)
    share = bits.mean()
    assert draws.std() == pytest.approx(np.sqrt(share * (1 - share) / 2000), rel=0.05)


def test_the_spread_of_runs_and_of_images_add_up() -> None:
    """Resampled variance of independent parts: that of the run means and that of the image means."""
    random = np.random.default_rng(0)
    runs, images = random.normal(0, 2, (30, 1)), random.normal(0, 3, 40)
    draws = resampled_run_means(runs + images, n_resamples=8000)
    expected = runs.var() / 30 + images.var() / 40
    assert draws.var() == pytest.approx(expected, rel=0.06)


def test_summary_gives_the_mean_with_both_intervals_per_condition() -> None:
    bits = answers(2, 5, 4, 80)
    found = summarize_runs(bits, n_resamples=400)
    assert all(part.shape == (2, 5) for part in found)
    assert np.allclose(found.mean, bits.mean((-1, -2)))
    assert (found.low <= found.mean).all()
    assert (found.mean <= found.high).all()
    means = bits[1, 2].mean(-1)
    assert found.std[1, 2] == pytest.approx(means.std(ddof=1))
    low, high = stats.t.interval(0.95, 3, means.mean(), stats.sem(means))
    assert (found.t_low[1, 2], found.t_high[1, 2]) == pytest.approx((low, high))


def test_paired_differences_have_narrower_intervals_than_unrelated_ones() -> None:
    first = answers(3, 400)
    second = first & answers(3, 400, share=0.95, seed=1)
    other = answers(3, 400, share=second.mean(), seed=2)
    widths = []
    for partner in (second, other):
        found = summarize_runs(first.astype(np.int8) - partner, n_resamples=500)
        widths.append(float(found.high - found.low))
    assert widths[0] < 0.6 * widths[1]


def test_a_single_run_has_no_spread() -> None:
    found = summarize_runs(answers(1, 30), n_resamples=20)
    assert np.isnan([found.std, found.t_low, found.t_high]).all()
    assert found.low <= found.mean <= found.high


def test_two_levels_are_those_of_the_analysis_of_variance() -> None:
    values = np.array([[1.0, 3.0], [5.0, 7.0], [6.0, 8.0]])
    found = two_level_variance(values)
    # Model means 2, 6, 7: MSB = 2 * 7 = 14; MSW = 2.
    assert (float(found.runs), float(found.models)) == pytest.approx((2, 6))
    assert float(found.std_error) == pytest.approx(np.sqrt(14 / 6))
    # The interval is Student's over the models' means.
    low, high = stats.t.interval(0.95, 2, 5, stats.sem([2, 6, 7]))
    assert (float(found.t_low), float(found.t_high)) == pytest.approx((low, high))


def test_two_levels_find_the_variances_that_made_the_data() -> None:
    random = np.random.default_rng(0)
    values = random.normal(0, 2, (4000, 6, 1)) + random.normal(0, 1, (4000, 6, 5))
    found = two_level_variance(values)
    assert found.runs.mean() == pytest.approx(1, rel=0.03)
    assert found.models.mean() == pytest.approx(4, rel=0.05)
    assert (found.std_error**2).mean() == pytest.approx(4 / 6 + 1 / 30, rel=0.05)


def test_no_difference_between_models_is_no_negative_variance() -> None:
    assert float(two_level_variance(np.array([[0.0, 2.0], [2.0, 0.0]])).models) == 0


def test_p_values_count_the_smaller_side_twice() -> None:
    draws = np.column_stack([np.arange(-1.0, 98.0), np.arange(1.0, 100.0), np.zeros(99), np.full(99, np.nan)])
    # One below and one at zero of 99; none; all at zero; undefined.
    assert bootstrap_p_values(draws)[:3].tolist() == pytest.approx([0.06, 0.02, 1])
    assert np.isnan(bootstrap_p_values(draws)[3])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (4,)])
def test_tables_without_runs_or_images_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="runs, images"):
        resampled_run_means(np.zeros(shape, dtype=bool))


def test_unfinished_runs_and_impossible_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="unfinished runs"):
        resampled_run_means(np.array([[0.0, np.nan]]))
    with pytest.raises(ValueError, match="level"):
        t_interval(np.zeros((3, 2)), level=1.0)
    with pytest.raises(ValueError, match="at least 2 of each"):
        two_level_variance(np.zeros((1, 3)))
