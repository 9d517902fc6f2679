import itertools
import math

import numpy as np
import pytest
from scipy import stats

from heatcheck.metrics.chance import (
    concordance_against_chance,
    concordances,
    inversions,
    kendall_band,
    mean_ranks,
)
from heatcheck.metrics.rank_stability import kendall_w


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def all_taus(n: int) -> np.ndarray:
    """Tau between 0, 1, ... and each of its ``n!`` orders."""
    pairs = list(itertools.combinations(range(n), 2))
    return np.array(
        [
            sum(1 if order[i] < order[j] else -1 for i, j in pairs) / len(pairs)
            for order in itertools.permutations(range(n))
        ]
    )


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_inversions_are_those_of_all_orders_counted_one_by_one(n: int) -> None:
    orders = itertools.permutations(range(n))
    wrong = [sum(a > b for a, b in itertools.combinations(order, 2)) for order in orders]
    assert inversions(n) == np.bincount(wrong).tolist()


@pytest.mark.parametrize("n", [7, 20, 60])
def test_inversions_are_whole_symmetric_and_count_every_order_once(n: int) -> None:
    counts = inversions(n)
    assert sum(counts) == math.factorial(n)
    assert counts == counts[::-1]
    assert len(counts) == n * (n - 1) // 2 + 1
    assert counts[1] == n - 1


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("level", [0.3, 0.5, 0.8, 0.95, 0.99])
def test_the_band_is_the_narrowest_that_holds_the_share_of_all_orders(n: int, level: float) -> None:
    taus = np.abs(all_taus(n))
    low, high = kendall_band(n, level)
    assert low == -high
    assert (taus <= high + 1e-9).mean() >= level
    assert (taus < high - 1e-9).mean() < level


@pytest.mark.parametrize("n", [5, 6, 9, 15, 30])
def test_a_tau_just_outside_the_band_is_significant_by_scipy_and_its_edge_is_not(n: int) -> None:
    high = kendall_band(n)[1]
    pairs = n * (n - 1) // 2
    wrong = round((1 - high) / 2 * pairs)
    p_values = [
        stats.kendalltau(range(n), order_with(n, count), method="exact").pvalue
        for count in (wrong, wrong - 1)
    ]
    assert p_values[0] > 0.05 >= p_values[1]


def order_with(n: int, wrong: int) -> list[int]:
    """An order of ``n`` things with ``wrong`` pairs in wrong order."""
    order: list[int] = []
    for thing in range(n):
        jumps = min(wrong, len(order))
        order.insert(len(order) - jumps, thing)
        wrong -= jumps
    return order


@pytest.mark.parametrize(
    ("n", "level", "high"),
    [
        (4, 0.25, 0),  # 6 of 24 orders have tau 0
        (4, 0.2501, 1 / 3),
        (5, 0.18, 0),  # 22 of 120
        (5, 0.19, 0.2),
        (2, 0.01, 1),
        (3, 0.6, 1 / 3),  # 4 of 6
        (3, 0.7, 1),
    ],
)
def test_bands_of_few_methods_are_known_and_a_share_that_just_reaches_the_level_is_enough(
    n: int, level: float, high: float
) -> None:
    assert kendall_band(n, level) == pytest.approx((-high, high))


def test_bands_grow_narrower_with_methods_and_wider_with_the_level() -> None:
    ends = [kendall_band(n)[1] for n in (6, 10, 20, 40)]
    assert ends == sorted(ends, reverse=True)
    assert kendall_band(10, 0.5)[1] < kendall_band(10, 0.9)[1] < kendall_band(10, 0.99)[1]


@pytest.mark.parametrize(("n", "level"), [(1, 0.95), (0, 0.95), (5, 0.0), (5, 1.0)])
def test_bands_of_nothing_are_refused(n: int, level: float) -> None:
    with pytest.raises(ValueError, match="2 or more methods"):
        kendall_band(n, level)


def test_inversions_of_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        inversions(0)


def test_many_concordances_are_each_what_one_is(random: np.random.Generator) -> None:
    scores = random.integers(0, 5, size=(20, 4, 6)).astype(float)
    np.testing.assert_allclose(concordances(scores), [kendall_w(table) for table in scores])


def test_concordances_without_a_ranking_are_nan() -> None:
    tables = np.array([[[1, 2, 3], [1, 2, 3]], [[1, 1, 1], [2, 2, 2]], [[1, np.nan, 3], [1, 2, 3]]])
    np.testing.assert_array_equal(concordances(tables), [1.0, np.nan, np.nan])


@pytest.mark.parametrize("shape", [(3, 4), (2, 1, 4), (2, 4, 1)])
def test_concordance_of_one_rater_or_method_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="two or more"):
        concordances(np.zeros(shape))


def test_equal_rankings_are_beyond_chance_and_opposite_ones_are_not() -> None:
    ranking = np.arange(8.0)
    found = concordance_against_chance(np.stack([ranking] * 4))
    assert found.w == pytest.approx(1)
    assert found.p_value == pytest.approx(1 / 5000)
    assert 0.25 < found.chance < 1
    against = concordance_against_chance(np.stack([ranking, -ranking]))
    assert (against.w, against.p_value) == (0.0, 1.0)


def test_the_p_value_is_that_of_all_pairs_of_orders() -> None:
    # With two raters W = (1 + rho) / 2, so the p-value is the share of orders with as large a rho.
    first, second = np.arange(5.0), np.array([1.0, 0, 2, 4, 3])
    rho = [np.corrcoef(first, order)[0, 1] for order in itertools.permutations(first)]
    found = concordance_against_chance(np.stack([first, second]), n_draws=20000)
    assert found.w == pytest.approx((1 + np.corrcoef(first, second)[0, 1]) / 2)
    exact = np.mean(np.array(rho) >= np.corrcoef(first, second)[0, 1] - 1e-9)
    assert found.p_value == pytest.approx(exact, abs=0.01)
    assert found.chance == pytest.approx((1 + np.quantile(rho, 0.95)) / 2, abs=0.051)


def test_random_rankings_follow_friedmans_distribution(random: np.random.Generator) -> None:
    # S (M - 1) W is about chi squared with M - 1 degrees of freedom for many raters.
    scores = random.normal(size=(40, 5))
    found = concordance_against_chance(scores, n_draws=20000)
    statistic = 40 * 4 * np.array([found.w, found.chance])
    assert statistic[1] == pytest.approx(stats.chi2.ppf(0.95, 4), rel=0.03)
    assert found.p_value == pytest.approx(stats.chi2.sf(statistic[0], 4), abs=0.02)


def test_the_draws_depend_on_the_seed_alone(random: np.random.Generator) -> None:
    scores = random.normal(size=(4, 6))
    before = scores.copy()
    first, again = (concordance_against_chance(scores, seed=3) for _ in range(2))
    assert first == again
    assert concordance_against_chance(scores, seed=4).p_value != first.p_value
    np.testing.assert_array_equal(scores, before)


def test_rankings_that_are_all_ties_have_no_concordance() -> None:
    assert np.isnan(concordance_against_chance(np.ones((3, 4)))).all()


@pytest.mark.parametrize(("scores", "n_draws"), [([[1, np.nan], [1, 2]], 9), ([[1, 2], [1, 2]], 0)])
def test_chance_of_unknown_scores_or_without_draws_is_refused(
    scores: list[list[float]], n_draws: int
) -> None:
    with pytest.raises(ValueError, match="without NaN and 1 or more draws"):
        concordance_against_chance(np.array(scores), n_draws=n_draws)


def test_mean_ranks_are_means_of_ranks_and_ties_share_theirs() -> None:
    goodness = np.array([[3.0, 2.0, 1.0], [5.0, 5.0, 9.0]])
    np.testing.assert_array_equal(mean_ranks(goodness), [1.75, 2.25, 2.0])
    unknown = np.array([[3.0, np.nan, 1.0], [5.0, 5.0, 9.0]])
    np.testing.assert_array_equal(
        mean_ranks(np.stack([goodness, unknown])), [[1.75, 2.25, 2.0], [np.nan] * 3]
    )
