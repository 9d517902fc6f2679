from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from heatcheck.metrics.statistics import (
    average_ranks,
    bootstrap_mean,
    holm,
    paired_bootstrap,
    paired_p_value,
    paired_tests,
    summarize,
)

NAN = float("nan")


def normal(count: int, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).standard_normal(count)


def test_the_interval_matches_normal_theory_for_many_values() -> None:
    values = normal(4000)
    found = bootstrap_mean(values, n_resamples=4000)
    half = 1.96 * values.std() / np.sqrt(4000)
    assert found.mean == pytest.approx(values.mean())
    assert found.low == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.high == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    covered = [
        interval.low <= 0 <= interval.high
        for interval in (
            bootstrap_mean(normal(40, seed), level=0.9, n_resamples=300, seed=seed) for seed in range(300)
        )
    ]
    assert 0.83 <= np.mean(covered) <= 0.95


def test_seeds_repeat_and_differ() -> None:
    values = normal(30)
    assert bootstrap_mean(values) == bootstrap_mean(values)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values)
    assert bootstrap_mean(values, level=0.5).high < bootstrap_mean(values, level=0.99).high


def test_undefined_values_are_left_out_and_counted() -> None:
    values = np.array([1.0, NAN, 3.0, NAN])
    found = bootstrap_mean(values)
    assert (found.mean, found.n, found.n_excluded) == (2.0, 2, 2)
    assert summarize(values)[-2:] == (2, 2)
    nothing = bootstrap_mean([NAN, NAN])
    assert (nothing.n, nothing.n_excluded) == (0, 2)
    assert np.isnan(nothing[:3]).all()
    assert np.isnan(summarize([NAN])[:7]).all()


def test_a_pair_is_left_out_when_either_value_is_undefined() -> None:
    found = paired_bootstrap([1.0, NAN, 5.0, 2.0], [0.0, 1.0, NAN, 1.0])
    assert (found.mean, found.low, found.high, found.n, found.n_excluded) == (1.0, 1.0, 1.0, 2, 2)


def test_pairing_removes_what_both_methods_share() -> None:
    shared = 10 * normal(100)
    first, second = shared + 0.5 + 0.1 * normal(100, 1), shared
    paired, alone = paired_bootstrap(first, second), bootstrap_mean(first)
    assert 0 < paired.low < 0.5 < paired.high
    assert (paired.high - paired.low) < 0.1 * (alone.high - alone.low)


def test_ranks_start_at_the_best_and_ties_share_the_mean() -> None:
    np.testing.assert_array_equal(average_ranks([0.1, 0.3, 0.1, NAN, 0.2], best="low"), [1.5, 4, 1.5, NAN, 3])
    np.testing.assert_array_equal(
        average_ranks([0.1, 0.3, 0.1, NAN, 0.2], best="high"), [3.5, 1, 3.5, NAN, 2]
    )
    with pytest.raises(ValueError, match="'low' or 'high'"):
        average_ranks([1.0], best="most")  # type: ignore[arg-type]


def test_holm_steps_down_and_keeps_the_order() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.6, NAN, 0.5]), [1.0, NAN, 1.0])
    assert len(holm([])) == 0


@pytest.mark.parametrize("count", [6, 9, 80])
def test_the_signed_rank_test_is_scipys(count: int) -> None:
    differences = normal(count) + 0.4
    assert paired_p_value(differences) == pytest.approx(float(stats.wilcoxon(differences).pvalue))


def test_few_sign_patterns_are_all_counted() -> None:
    assert paired_p_value([1.0, 2.0, 3.0], test="sign-flip") == pytest.approx(2 / 8)
    assert paired_p_value([1.0, 1.0, -1.0], test="sign-flip") == 1.0
    assert paired_p_value([0.1] * 10, test="sign-flip") == pytest.approx(2 / 1024)


def test_drawn_sign_patterns_agree_with_scipys_permutation_test() -> None:
    differences = normal(40, 3) + 0.3
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=20000, rng=np.random.default_rng(0)
    ).pvalue
    assert paired_p_value(differences, test="sign-flip") == pytest.approx(float(expected), abs=0.01)


@pytest.mark.parametrize("test", ["wilcoxon", "sign-flip"])
def test_equal_methods_differ_with_probability_one_and_no_pairs_with_none(test: Any) -> None:
    assert paired_p_value([0.0, 0.0, 0.0], test=test) == 1.0
    assert np.isnan(paired_p_value([NAN], test=test))
    assert paired_p_value([0.0, 0.0, 1.0], test=test) == 1.0


@pytest.mark.parametrize("test", ["wilcoxon", "sign-flip"])
def test_false_alarms_are_as_rare_as_the_level(test: Any) -> None:
    p_values = [paired_p_value(normal(12, seed), test=test) for seed in range(300)]
    assert 0.01 <= np.mean(np.array(p_values) <= 0.05) <= 0.09


def test_all_pairs_are_tested_and_corrected_together() -> None:
    base = normal(60)
    scores = {"a": base, "b": base + 1 + 0.1 * normal(60, 1), "c": base + 0.001 * normal(60, 2)}
    scores["c"][0] = NAN
    found = paired_tests(scores)
    assert [(test.first, test.second) for test in found] == [("a", "b"), ("a", "c"), ("b", "c")]
    np.testing.assert_allclose([test.p_holm for test in found], holm([test.p_value for test in found]))
    assert [test.n_excluded for test in found] == [0, 1, 1]
    assert found[0].difference == pytest.approx(-1, abs=0.1)
    assert found[0].p_holm < 1e-6
    assert found[1].p_holm > 0.01


def test_a_reference_is_compared_with_each_other_method() -> None:
    scores = {"a": normal(8), "b": normal(8, 1), "c": normal(8, 2)}
    assert [test[:2] for test in paired_tests(scores, reference="b", test="sign-flip")] == [
        ("b", "a"),
        ("b", "c"),
    ]


def test_misuse_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="got 2 and 3 values"):
        paired_bootstrap([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="infinities"):
        bootstrap_mean([np.inf])
    with pytest.raises(ValueError, match="one-dimensional"):
        bootstrap_mean(np.zeros((2, 2)))
    with pytest.raises(ValueError, match="level"):
        bootstrap_mean([1.0], level=1.0)
    with pytest.raises(ValueError, match="unknown reference 'z'; known: a"):
        paired_tests({"a": [1.0]}, reference="z")
    with pytest.raises(ValueError, match="allowed: wilcoxon, sign-flip"):
        paired_p_value([1.0], test="t")  # type: ignore[arg-type]
