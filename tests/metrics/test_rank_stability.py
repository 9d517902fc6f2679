"""Agreement of rankings between runs, and intervals of ranks."""

import numpy as np
import pytest
from scipy import stats

from heatcheck.metrics.agreement import agreement_of_draws
from heatcheck.metrics.rank_stability import kendall_w, rank_intervals, rank_stability


def test_equal_rankings_are_in_full_concord_and_opposite_ones_in_none() -> None:
    row = np.array([3.0, 1.0, 4.0, 2.0])
    assert kendall_w(np.stack([row, 2 * row + 1, row**3])) == pytest.approx(1)
    assert kendall_w(np.stack([row, -row])) == pytest.approx(0)


def test_concordance_is_what_the_mean_spearman_says() -> None:
    """Without ties ``mean rho = (S W - 1) / (S - 1)`` over the pairs of ``S`` runs."""
    scores = np.random.default_rng(0).normal(size=(5, 9))
    found = rank_stability(scores)
    assert found.spearman == pytest.approx((5 * found.concordance - 1) / 4)


def test_the_p_value_is_that_of_the_friedman_test_with_ties_too() -> None:
    scores = np.random.default_rng(1).integers(0, 4, size=(6, 5)).astype(float)
    expected = stats.friedmanchisquare(*scores.T)
    found = rank_stability(scores)
    assert found.p_value == pytest.approx(expected.pvalue)
    assert found.concordance == pytest.approx(expected.statistic / (6 * 4))


def test_methods_without_a_score_in_some_run_are_left_out() -> None:
    scores = np.array([[1.0, 2.0, np.nan, 3.0], [1.0, 2.0, 9.0, 3.0]])
    found = rank_stability(scores)
    assert (found.n_runs, found.n_methods, found.kendall) == (2, 3, 1)
    nothing = rank_stability(scores[:, 1:3])
    assert nothing.n_methods == 1
    assert np.isnan(nothing.concordance)


def test_runs_that_tell_no_method_apart_have_no_concordance() -> None:
    assert np.isnan(kendall_w(np.ones((3, 4))))


@pytest.mark.parametrize("scores", [np.ones((1, 4)), np.ones(4)])
def test_one_run_cannot_be_stable(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="at least 2 runs"):
        rank_stability(scores)
    with pytest.raises(ValueError, match="two or more"):
        kendall_w(scores)


def test_ranks_are_certain_where_methods_are_far_apart() -> None:
    scores = np.array([0.0, 10.0, 10.1, np.nan])
    draws = scores + np.random.default_rng(0).normal(size=(500, 4))
    found = rank_intervals(scores, draws, best="high")
    assert found.rank[:3].tolist() == [3, 2, 1]
    assert (found.low[0], found.high[0]) == (3, 3)
    assert (found.low[1], found.high[1]) == (1, 2)
    assert np.isnan([found.rank[3], found.low[3]]).all()
    assert rank_intervals(scores, draws, best="low").rank[0] == 1
    with pytest.raises(ValueError, match="resamples"):
        rank_intervals(scores, draws[:, 1:], best="high")


def test_agreement_of_draws_is_certain_for_equal_scores_and_turns_with_the_sign() -> None:
    draws = np.random.default_rng(0).normal(size=(40, 6))
    same = agreement_of_draws(draws[0], 3 * draws[0], draws, 2 * draws)
    assert (same.spearman, same.spearman_low, same.kendall_high, same.n) == pytest.approx((1, 1, 1, 6))
    turned = agreement_of_draws(draws[0], -draws[0], draws, -draws)
    assert (turned.kendall, turned.kendall_low, turned.kendall_high) == pytest.approx((-1, -1, -1))
    with pytest.raises(ValueError, match="resamples"):
        agreement_of_draws(draws[0], draws[0, :5], draws, draws)
