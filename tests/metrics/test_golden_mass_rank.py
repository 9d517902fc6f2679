"""Every recorded answer of the ten poolings, mass and rank accuracy, and the summary statistics."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from heatcheck.metrics.flags import CONSTANT, EMPTY, NO_MASK
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pooling import POOLINGS, pool
from heatcheck.metrics.statistics import summarize

FILE = Path(__file__).parents[1] / "golden" / "clevr_xai.json"
GOLDEN = json.loads(FILE.read_text(encoding="utf-8"))
CASES: dict[str, dict[str, Any]] = {case["name"]: case for case in GOLDEN["pooling_and_metrics"]}


def inputs(case: dict[str, Any]) -> tuple[Tensor, Tensor]:
    heatmaps = torch.tensor(case["heatmap"], dtype=getattr(torch, case["dtype"]))[None]
    mask = torch.tensor([[pixel == "1" for pixel in row] for row in case["ground_truth"]])[None]
    return heatmaps, mask


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", CASES)
def test_pooled_maps_are_the_recorded_ones(name: str, pooling: str) -> None:
    heatmaps, _ = inputs(CASES[name])
    expected = torch.tensor(CASES[name]["results"][pooling]["pooled"], dtype=torch.float64)
    torch.testing.assert_close(pool(heatmaps, pooling)[0], expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("name", CASES)
def test_mass_and_rank_are_the_recorded_ones(name: str, pooling: str) -> None:
    heatmaps, masks = inputs(CASES[name])
    recorded = CASES[name]["results"][pooling]
    pooled = pool(heatmaps, pooling)
    mass, rank = relevance_mass(pooled, masks), relevance_rank(pooled, masks)
    assert mass.flags.tolist() == rank.flags.tolist()
    if not masks.any() or not pooled.any():
        assert mass.flags.tolist() == [EMPTY if masks.any() else NO_MASK]
        assert torch.stack([mass.values, *rank[:4]]).isnan().all()
        # For an empty mask the bare formula gives a mass of 0; undefined is what keeps it out of every mean.
        assert "error" in recorded or (recorded["mass"] == 0 and "rank" not in recorded)
        return
    assert float(mass.values) == pytest.approx(recorded["mass"], rel=1e-12)
    ties = recorded["rank_ties"]
    for found, expected in (
        (rank.lowest, "lowest"),
        (rank.highest, "highest"),
        (rank.expected, "expected_random"),
    ):
        assert float(found) == pytest.approx(ties[expected], rel=1e-12)
    # A constant map scores chance whatever the order of its pixels; the recorded order would give 0.
    rule = "expected_random" if rank.flags.tolist() == [CONSTANT] else "stable_reversed"
    assert float(rank.values) == pytest.approx(ties[rule], rel=1e-12)


@pytest.mark.parametrize("case", GOLDEN["legacy_overlap"], ids=lambda case: str(case["case"]))
def test_the_older_overlap_is_the_mass_of_the_absolute_sum(case: dict[str, Any]) -> None:
    heatmaps, masks = inputs(CASES[case["case"]])
    found = float(relevance_mass(pool(pool(heatmaps, "sum")[:, None], "sum,abs"), masks).values)
    expected = float("nan") if case["overlap"] is None else case["overlap"]
    assert found == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_summary_statistics_are_the_recorded_ones() -> None:
    recorded = GOLDEN["statistics"]
    found = summarize(recorded["values"])._asdict()
    names = {
        "mean": "mean",
        "std": "std",
        "min": "minimum",
        "max": "maximum",
        "median": "median",
        "perc_20": "percentile_20",
        "perc_80": "percentile_80",
    }
    for name, ours in names.items():
        assert found[ours] == pytest.approx(recorded[name], rel=1e-12), name


def test_the_recorded_cases_are_these() -> None:
    assert set(CASES) == {
        "signed_3x8x8",
        "ties_1x8x8",
        "all_negative_3x8x8",
        "all_zero_3x8x8",
        "constant_1x8x8",
        "single_peak_1x8x8",
        "full_mask_3x8x8",
        "empty_mask_3x8x8",
        "non_square_3x5x7",
        "cancelling_3x8x8",
        "float32_3x8x8",
        "tiny_scale_3x8x8",
        "signed_4x16x16",
        "ties_signed_3x16x16",
        "half_zero_1x16x16",
    }
