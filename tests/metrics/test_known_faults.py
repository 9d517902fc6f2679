"""Faults seen in other tools, each tried on every metric it can touch."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from heatcheck.metrics.boxes import THRESHOLDS, Region, Threshold, boxes_from_heatmaps
from heatcheck.metrics.curves import deletion, insertion
from heatcheck.metrics.flags import CONSTANT, EMPTY, NO_BOX, NO_MASK, NONFINITE, OK, Flags
from heatcheck.metrics.localization import localization_error
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pointing import pointing_game
from heatcheck.metrics.saliency_metric import saliency_metric
from heatcheck.metrics.scoring import softmax_of

Draw = Callable[..., Tensor]
SIDE = 8


class Inputs(NamedTuple):
    """Images, non-negative heatmaps and masks of some images; every image also has its mask's box."""

    images: Tensor
    heatmaps: Tensor
    masks: Tensor

    def take(self, rows: slice | list[int]) -> "Inputs":
        return Inputs(self.images[rows], self.heatmaps[rows], self.masks[rows])


class Scores(NamedTuple):
    values: Tensor
    flags: Flags


Metric = Callable[[nn.Module, Inputs], Scores]


def boxes_of(masks: Tensor) -> list[Tensor]:
    found = boxes_from_heatmaps(masks.double(), 0.5)
    return [
        box[None].double() if has else torch.zeros(0, 4)
        for box, has in zip(found.boxes, found.found, strict=True)
    ]


def overlap(threshold: Threshold, region: Region) -> Metric:
    def metric(_: nn.Module, inputs: Inputs) -> Scores:
        boxes = boxes_from_heatmaps(inputs.heatmaps, 0.6, threshold=threshold, region=region)
        found = localization_error(boxes, boxes_of(inputs.masks))
        return Scores(found.ious, found.flags)

    return metric


def curves(direction: Callable[..., object], **choices: object) -> Metric:
    def metric(model: nn.Module, inputs: Inputs) -> Scores:
        found = direction(softmax_of(model), inputs.images, inputs.heatmaps, step=9, **choices)
        return Scores(found.auc, found.flags)  # type: ignore[attr-defined]

    return metric


def saliency(model: nn.Module, inputs: Inputs) -> Scores:
    found = saliency_metric(softmax_of(model), inputs.images, inputs.heatmaps, alpha=0.6)
    return Scores(found.values, found.flags)


def pointing(_: nn.Module, inputs: Inputs) -> Scores:
    found = pointing_game(inputs.heatmaps, inputs.masks, tolerance=2)
    return Scores(found.hits, found.flags)


def mass(_: nn.Module, inputs: Inputs) -> Scores:
    return Scores(*relevance_mass(inputs.heatmaps, inputs.masks))


def rank(_: nn.Module, inputs: Inputs) -> Scores:
    found = relevance_rank(inputs.heatmaps, inputs.masks)
    return Scores(found.values, found.flags)


METRICS: dict[str, Metric] = {
    "mass": mass,
    "rank": rank,
    "deletion": curves(deletion),
    "deletion-pushpull": curves(deletion, fill="pushpull"),
    "deletion-random": curves(deletion, ties="random"),
    "deletion-mean": curves(deletion, ties="mean", n_orders=3),
    "insertion": curves(insertion),
    "saliency": saliency,
    "pointing": pointing,
    "iou-component": overlap("max", "component"),
    "iou-component-mass": overlap("max", "component-mass"),
    **{f"iou-{threshold}": overlap(threshold, "tight") for threshold in THRESHOLDS},
}
WITH_GROUND_TRUTH = [
    name for name in METRICS if name in {"mass", "rank", "pointing"} or name.startswith("iou")
]

every_metric = pytest.mark.parametrize("name", METRICS)
every_dtype = pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)


@pytest.fixture
def inputs(draw: Draw) -> Inputs:
    masks = torch.zeros(5, SIDE, SIDE, dtype=torch.bool)
    for row in range(5):
        masks[row, row : row + 3, 2 : 4 + row % 3] = True
    return Inputs(draw(5, 3, SIDE, SIDE), draw(5, SIDE, SIDE, seed=1).abs(), masks)


def same(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=tolerance, equal_nan=True)


@every_metric
@every_dtype
@pytest.mark.parametrize("fault", [torch.nan, torch.inf, -torch.inf])
def test_case_2_one_broken_pixel_spoils_one_map_only(
    classifier: nn.Sequential, inputs: Inputs, name: str, dtype: torch.dtype, fault: float
) -> None:
    inputs = inputs._replace(heatmaps=inputs.heatmaps.to(dtype))
    expected = METRICS[name](classifier, inputs)
    broken = inputs.heatmaps.clone()
    broken[2, 4, 4] = fault
    found = METRICS[name](classifier, inputs._replace(heatmaps=broken))
    good = [0, 1, 3, 4]
    same(found.values[good], expected.values[good])
    assert found.values[2].isnan()
    assert found.flags.tolist() == [OK, OK, NONFINITE, OK, OK]
    assert expected.flags.tolist() == [OK] * 5
    assert expected.values.dtype == torch.float64


@pytest.mark.parametrize("name", METRICS)
def test_case_2_a_batch_of_broken_maps_only_is_undefined(
    classifier: nn.Sequential, inputs: Inputs, name: str
) -> None:
    found = METRICS[name](classifier, inputs._replace(heatmaps=inputs.heatmaps * torch.nan))
    assert found.values.isnan().all()
    assert set(found.flags.tolist()) == {NONFINITE}


@every_metric
@every_dtype
def test_case_3_a_constant_map_is_flagged_and_leaves_the_others_alone(
    classifier: nn.Sequential, inputs: Inputs, name: str, dtype: torch.dtype
) -> None:
    inputs = inputs._replace(heatmaps=inputs.heatmaps.to(dtype))
    expected = METRICS[name](classifier, inputs)
    heatmaps = inputs.heatmaps.clone()
    heatmaps[3] = 0.3
    found = METRICS[name](classifier, inputs._replace(heatmaps=heatmaps))
    same(found.values[[0, 1, 2, 4]], expected.values[[0, 1, 2, 4]])
    assert found.values[3].isfinite()
    assert found.flags.tolist() == [OK, OK, OK, CONSTANT, OK]


@every_dtype
@pytest.mark.parametrize("metric", [relevance_mass, relevance_rank])
def test_case_3_a_constant_map_scores_the_masks_share_wherever_the_mask_lies(
    metric: Callable[[Tensor, Tensor], Scores], dtype: torch.dtype
) -> None:
    masks = torch.zeros(36, SIDE, SIDE, dtype=torch.bool)
    for index in range(36):
        masks[index, index // 6 : index // 6 + 3, index % 6 : index % 6 + 2] = True
    for value in (0.1, 7.0):
        found = metric(torch.full((36, SIDE, SIDE), value, dtype=dtype), masks)
        same(found.values, torch.full((36,), 6 / 64, dtype=torch.float64), 1e-12)
        assert set(found.flags.tolist()) == {CONSTANT}


@every_dtype
@pytest.mark.parametrize("name", [name for name in METRICS if name not in {"mass", "rank"}])
def test_case_4_a_negative_map_among_good_ones_is_scored_by_its_signs(
    classifier: nn.Sequential, inputs: Inputs, name: str, dtype: torch.dtype
) -> None:
    heatmaps = inputs.heatmaps.to(dtype)
    heatmaps[1] *= -1
    found = METRICS[name](classifier, inputs._replace(heatmaps=heatmaps))
    expected = METRICS[name](classifier, inputs._replace(heatmaps=inputs.heatmaps.to(dtype)))
    same(found.values[[0, 2, 3, 4]], expected.values[[0, 2, 3, 4]])
    finds_a_box = name == "saliency" or name.startswith("iou")
    assert found.flags.tolist() == [OK, EMPTY if finds_a_box else OK, OK, OK, OK]
    if name.startswith("iou"):
        assert float(found.values[1]) == 0


@pytest.mark.parametrize("name", WITH_GROUND_TRUTH)
@every_dtype
def test_case_5_no_ground_truth_is_undefined_and_never_a_hit(
    classifier: nn.Sequential, inputs: Inputs, name: str, dtype: torch.dtype
) -> None:
    inputs = inputs._replace(heatmaps=inputs.heatmaps.to(dtype))
    expected = METRICS[name](classifier, inputs)
    masks = inputs.masks.clone()
    masks[[0, 4]] = False
    found = METRICS[name](classifier, inputs._replace(masks=masks))
    flag = NO_BOX if name.startswith("iou") else NO_MASK
    assert found.flags.tolist() == [flag, OK, OK, OK, flag]
    assert found.values.isnan().tolist() == [True, False, False, False, True]
    same(found.values[1:4], expected.values[1:4])


@pytest.mark.parametrize("name", WITH_GROUND_TRUTH)
def test_case_5_no_ground_truth_outweighs_an_empty_map_and_a_broken_map_outweighs_both(
    classifier: nn.Sequential, inputs: Inputs, name: str
) -> None:
    heatmaps = torch.zeros_like(inputs.heatmaps)
    heatmaps[1, 0, 0] = torch.nan
    found = METRICS[name](classifier, Inputs(inputs.images, heatmaps, torch.zeros_like(inputs.masks)))
    flag = NO_BOX if name.startswith("iou") else NO_MASK
    assert found.flags.tolist() == [flag, NONFINITE, flag, flag, flag]
    assert found.values.isnan().all()


@every_metric
@pytest.mark.parametrize("levels", [1, 2, 4])
def test_case_6_ties_score_the_same_in_every_dtype_and_batch(
    classifier: nn.Sequential, inputs: Inputs, name: str, levels: int
) -> None:
    tied = inputs._replace(heatmaps=(inputs.heatmaps * levels).round())
    expected = METRICS[name](classifier, tied)
    for dtype in (torch.float16, torch.float64):
        found = METRICS[name](classifier, tied._replace(heatmaps=tied.heatmaps.to(dtype)))
        same(found.values, expected.values)
        assert found.flags.tolist() == expected.flags.tolist()
    for row in range(5):
        alone = METRICS[name](classifier, tied.take([row]))
        same(alone.values, expected.values[row : row + 1])
    layout = tied.heatmaps.transpose(1, 2).contiguous().transpose(1, 2)
    same(METRICS[name](classifier, tied._replace(heatmaps=layout)).values, expected.values)


@every_metric
def test_case_6_zeros_of_either_sign_are_tied(classifier: nn.Sequential, inputs: Inputs, name: str) -> None:
    heatmaps = inputs.heatmaps * (inputs.heatmaps > 0.7)
    negative = torch.where((heatmaps == 0) & (torch.arange(SIDE) % 2 == 0), -0.0, heatmaps)
    found, expected = (
        METRICS[name](classifier, inputs._replace(heatmaps=maps)) for maps in (negative, heatmaps)
    )
    same(found.values, expected.values)


@every_metric
@pytest.mark.parametrize("size", [1, 2, 3, 64])
def test_case_7_batches_of_any_size_and_a_ragged_last_one_score_the_same(
    classifier: nn.Sequential, inputs: Inputs, name: str, size: int
) -> None:
    many = Inputs(*(torch.cat([part] * 14)[:67] for part in inputs))
    many.images.add_(torch.arange(67).view(-1, 1, 1, 1) / 67)
    many.heatmaps.mul_(3).round_()
    many.heatmaps[5, 0, 0] = torch.nan
    if size < 64:
        many = many.take(slice(7))
    expected = METRICS[name](classifier, many)
    starts = range(0, len(many.images), size)
    parts = [METRICS[name](classifier, many.take(slice(start, start + size))) for start in starts]
    same(torch.cat([part.values for part in parts]), expected.values)
    assert np.concatenate([part.flags for part in parts]).tolist() == expected.flags.tolist()


@every_metric
def test_no_metric_changes_what_it_is_given(classifier: nn.Sequential, inputs: Inputs, name: str) -> None:
    copies = Inputs(*(part.clone() for part in inputs))
    state = torch.get_rng_state()
    inputs.heatmaps.requires_grad_(True)
    inputs.images.requires_grad_(True)
    found = METRICS[name](classifier.train(), inputs)
    assert all(torch.equal(part, copy) for part, copy in zip(inputs, copies, strict=True))
    assert torch.equal(torch.get_rng_state(), state)
    assert all(part.training for part in classifier.modules())
    assert not found.values.requires_grad


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@every_metric
def test_a_gpu_scores_as_the_cpu_does(classifier: nn.Sequential, inputs: Inputs, name: str) -> None:
    tied = inputs._replace(heatmaps=(inputs.heatmaps * 3).round())
    expected = METRICS[name](classifier, tied)
    found = METRICS[name](classifier.cuda(), Inputs(*(part.cuda() for part in tied)))
    assert found.values.device.type == "cuda"
    assert found.flags.tolist() == expected.flags.tolist()
    same(found.values.cpu(), expected.values, 1e-4)
