"""From correct answers to areas, intervals, tests, ranks and stability of estimators."""

from dataclasses import replace

import numpy as np
import pytest

from heatcheck.metrics.retraining_curves import GRID, area_between, racu, whole_curves
from heatcheck.metrics.retraining_summary import (
    Retrained,
    estimator_summaries,
    racu_stability,
    roar_kar_agreement,
    run_scores,
)

RUNS, IMAGES = 3, 300
# Accuracies at the thresholds: removing and keeping.
CURVES = {
    "random": ([0.85, 0.8, 0.7, 0.6, 0.4], [0.4, 0.6, 0.7, 0.8, 0.85]),
    "good": ([0.7, 0.5, 0.3, 0.2, 0.15], [0.7, 0.8, 0.85, 0.88, 0.89]),
    "poor": ([0.89, 0.88, 0.85, 0.75, 0.6], [0.2, 0.4, 0.5, 0.7, 0.8]),
    "twin": ([0.85, 0.8, 0.7, 0.6, 0.4], [0.4, 0.6, 0.7, 0.8, 0.85]),
}


@pytest.fixture
def retrained() -> Retrained:
    """Images differ in difficulty, which all conditions share; ``twin`` is another draw of ``random``."""
    random = np.random.default_rng(0)
    hard = random.random(IMAGES)

    def answers(share: float) -> np.ndarray:
        return hard + random.normal(0, 0.03, (RUNS, IMAGES)) < share

    roar, kar = (
        {name: np.stack([answers(share) for share in pair[mode]]) for name, pair in CURVES.items()}
        for mode in (0, 1)
    )
    return Retrained(answers(0.9), np.arange(IMAGES) % 10 == 0, roar, kar)


def test_estimates_are_those_of_the_mean_curves(retrained: Retrained) -> None:
    rows = estimator_summaries(retrained, n_resamples=300)
    means = {name: table.mean((1, 2)) for name, table in retrained.roar.items()}
    x, random = whole_curves(means["random"], retrained.whole.mean(), 0.1)
    for row in rows:
        if row.quantity in ("RACU", "ABC ROAR"):
            _, curve = whole_curves(means[row.estimator], retrained.whole.mean(), 0.1)
            area = area_between(x, random, curve)
            expected = area if row.quantity == "ABC ROAR" else racu(x, random, curve, 0.1)
            assert row.estimate == pytest.approx(float(expected))
        if row.quantity == "DiffROAR 10":
            kept, left = retrained.kar[row.estimator][0], retrained.roar[row.estimator][-1]
            assert row.estimate == pytest.approx(kept.mean() - left.mean())
    quantities = {"RACU", "ABC ROAR", "ABC KAR", *(f"DiffROAR {percent}" for percent in GRID)}
    assert {row.quantity for row in rows} == quantities
    assert {row.estimator for row in rows} == {"good", "poor", "twin"}


@pytest.mark.parametrize("quantity", ["RACU", "ABC ROAR", "ABC KAR"])
def test_better_worse_and_equal_to_random_are_told_apart(retrained: Retrained, quantity: str) -> None:
    rows = {
        row.estimator: row
        for row in estimator_summaries(retrained, n_resamples=300)
        if row.quantity == quantity
    }
    assert rows["good"].low > 0 > rows["poor"].high
    assert rows["twin"].low <= 0.01
    assert abs(rows["twin"].estimate) < 0.02
    assert [rows[name].rank for name in ("good", "twin", "poor")] == [1, 2, 3]
    assert (rows["good"].rank_low, rows["good"].rank_high) == (1, 1)
    assert rows["good"].p_holm < 0.05 < rows["twin"].p_holm + 0.05
    assert all(row.p_holm >= row.p_value for row in rows.values())
    # Holm: the least p-value of three is multiplied by three.
    assert rows["good"].p_holm == pytest.approx(3 * rows["good"].p_value)


def test_an_estimator_is_no_better_than_itself_as_the_control(retrained: Retrained) -> None:
    same = replace(
        retrained,
        roar=dict(retrained.roar) | {"twin": retrained.roar["good"]},
        kar=dict(retrained.kar) | {"twin": retrained.kar["good"]},
    )
    rows = estimator_summaries(same, reference="good", n_resamples=50)
    equal = [row for row in rows if row.estimator == "twin" and not row.quantity.startswith("Diff")]
    assert equal
    # The draws are paired, so there is no spread at all.
    assert all((row.estimate, row.low, row.high, row.p_value) == (0, 0, 0, 1) for row in equal)


def test_removing_and_keeping_agree_where_they_were_made_to(retrained: Retrained) -> None:
    agreement = roar_kar_agreement(retrained, n_resamples=200)
    assert (agreement.spearman, agreement.n) == (1, 3)
    turned = replace(
        retrained,
        kar={
            name: retrained.kar[other]
            for name, other in zip(retrained.roar, ("random", "poor", "good", "twin"), strict=True)
        },
    )
    opposite = roar_kar_agreement(turned, ["good", "poor"], n_resamples=200)
    assert (opposite.spearman, opposite.spearman_high) == pytest.approx((-1, -1))


def test_runs_alone_give_the_scores_whose_ranking_is_compared(retrained: Retrained) -> None:
    scores = run_scores(retrained)
    assert scores["RACU"].shape == (RUNS, 3)
    single = Retrained(
        retrained.whole[1:2],
        retrained.majority,
        {name: table[:, 1:2] for name, table in retrained.roar.items()},
        {},
    )
    first = estimator_summaries(single, n_resamples=2)
    racus = [row.estimate for row in first if row.quantity == "RACU"]
    assert scores["RACU"][1] == pytest.approx(racus)
    stability = racu_stability(retrained)
    assert stability.concordance == pytest.approx(1)
    assert (stability.n_runs, stability.n_methods) == (RUNS, 3)


def test_without_keeping_there_are_areas_of_removing_only(retrained: Retrained) -> None:
    rows = estimator_summaries(replace(retrained, kar={}), n_resamples=20)
    assert {row.quantity for row in rows} == {"RACU", "ABC ROAR"}
    with pytest.raises(ValueError, match="ROAR only"):
        roar_kar_agreement(replace(retrained, kar={}))


def test_lopsided_thresholds_leave_diff_roar_out(retrained: Retrained) -> None:
    two = replace(
        retrained,
        roar={name: table[:2] for name, table in retrained.roar.items()},
        kar={name: table[:2] for name, table in retrained.kar.items()},
        percents=(10, 30),
    )
    rows = estimator_summaries(two, n_resamples=20)
    assert {row.quantity for row in rows} == {"RACU", "ABC ROAR", "ABC KAR"}


def test_tables_that_do_not_belong_together_are_refused(retrained: Retrained) -> None:
    with pytest.raises(ValueError, match="KAR of good has shape"):
        replace(retrained, kar=dict(retrained.kar) | {"good": retrained.kar["good"][:, :2]})
    with pytest.raises(ValueError, match="same estimators"):
        replace(retrained, kar={"random": retrained.kar["random"]})
    with pytest.raises(ValueError, match="majority"):
        replace(retrained, majority=retrained.majority[1:])
    with pytest.raises(ValueError, match="reference 'sobel'"):
        estimator_summaries(retrained, reference="sobel")
    alone = replace(retrained, roar={"random": retrained.roar["random"]}, kar={})
    with pytest.raises(ValueError, match="another estimator"):
        estimator_summaries(alone)
