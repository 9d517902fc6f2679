"""From keep masks to holes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heatcheck.removal.fills import get_fill
from heatcheck.removal.holes import find_holes, hole_fraction

FILE = Path(__file__).parents[1] / "golden" / "deletion.json"
CASES: dict[str, Any] = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}


@pytest.mark.parametrize("row", CASES["hole_rule"]["expected"]["rows"], ids=lambda row: str(row["name"]))
def test_recorded_hole_rule(row: dict[str, Any]) -> None:
    mask = torch.tensor([[row["keep_mask"]]], dtype=torch.float64)
    expected = torch.tensor(row["hole"], dtype=torch.bool)
    assert torch.equal(find_holes(mask)[0, 0], expected)
    assert float(hole_fraction(mask)) == pytest.approx(float(expected.double().mean()))


def test_a_masks_hole_does_not_depend_on_its_batch() -> None:
    soft, high = torch.full((1, 1, 1, 3), 0.6), torch.tensor([[[[0.9, 0.95, 1.0]]]])
    together = find_holes(torch.cat([soft, high]))
    # The rule over the whole batch would put the first mask into the hole: 0.6 < (0.6 + 1) / 2.
    assert torch.equal(together, torch.cat([find_holes(soft), find_holes(high)]))
    assert not together[0].any()


def test_bools_floats_and_channels_mean_the_same() -> None:
    keep = torch.rand(2, 3, 4, 5, generator=torch.Generator().manual_seed(0)) < 0.8
    expected = ~keep.all(1, keepdim=True)
    assert torch.equal(find_holes(keep), expected)
    assert torch.equal(find_holes(keep.double()), expected)
    assert hole_fraction(torch.zeros(0, 1, 3, 3)).shape == (0,)


@pytest.mark.parametrize("name", ["diffusion", "biharmonic", "telea", "ns"])
def test_a_soft_mask_is_made_hard_before_inpainting(name: str) -> None:
    images = torch.rand(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    soft = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(1))
    hard = ~find_holes(soft)
    assert torch.equal(get_fill(name).substrate(images, soft), get_fill(name).substrate(images, hard))
