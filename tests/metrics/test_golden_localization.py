"""Every recorded answer about boxes, overlaps, the saliency metric and the pointing game."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.metrics.boxes import Boxes, boxes_from_heatmaps, largest_components
from heatcheck.metrics.localization import best_iou, choose_alpha, iou, localization_error, union_iou
from heatcheck.metrics.pointing import class_accuracy, is_hit
from heatcheck.metrics.pooling import resize_heatmaps
from heatcheck.metrics.saliency_metric import crop_and_resize, saliency_metric, saliency_values

Case = dict[str, Any]
Check = Callable[[Case], None]

FILE = Path(__file__).parents[1] / "golden" / "deletion.json"
CASES: dict[str, Case] = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}
OWN = {"boxes", "iou", "saliency_metric", "pointing_game"}
# Groups that other tests cover: curves beside this file, the rest beside the code of data and attribution.
ELSEWHERE = {
    "deletion_insertion",
    "deletion_ties",
    "insertion_blur",
    "auc",
    "scoring_recipe_bugs",
    "box_mapping",
    "annotations",
    "sliding_patch",
    "lime",
    "meaningful_perturbation",
    "inpainting",
    "rise",
    "similarity",
}
CHECKS: dict[str, Check] = {}


def covers(*ids: str) -> Callable[[Check], Check]:
    def decorate(check: Check) -> Check:
        CHECKS.update(dict.fromkeys(ids, check))
        return check

    return decorate


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def inputs_of(case: Case) -> dict[str, Any]:
    """Inputs of a case; one that refers to another case overrides some of that one's."""
    same = case["inputs"].get("same_inputs_as")
    return {**(inputs_of(CASES[same]) if same else {}), **case["inputs"]}


def linear_softmax(inputs: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    weights, bias = tensor(inputs["weights"]), tensor(inputs["bias"])
    return lambda images: (images.flatten(1) @ weights.T + bias).softmax(1)


def close(found: Tensor | float, expected: object, case: Case) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        tensor(expected),
        rtol=0,
        atol=max(case["tolerance"], 1e-10),
    )


@covers(
    "box_max_blob",
    "box_max_two_blobs",
    "box_max_random_signed",
    "box_max_all_negative",
    "box_max_all_zero",
    "box_max_constant_positive",
    "box_max_single_pixel_corner",
    "box_max_gaussian",
    "box_max_diagonal_touch",
)
def check_max_boxes(case: Case) -> None:
    heatmap, rows = tensor(case["inputs"]["heatmap"])[None], case["expected"]["rows"]
    alphas = [row["alpha"] for row in rows]
    assert listed(boxes_from_heatmaps(heatmap, alphas)) == [row["recommended_box"] for row in rows]
    largest = boxes_from_heatmaps(heatmap, alphas, region="component")
    assert listed(largest) == [row["largest_component_box"] for row in rows]


@covers("box_fong_blob", "box_fong_two_blobs", "box_fong_gaussian")
def check_other_thresholds(case: Case) -> None:
    heatmap = tensor(case["inputs"]["heatmap"])[None]
    for row in case["expected"]["rows"]:
        threshold = {"min_max_diff": "value"}.get(row["method"], row["method"])
        # The recorded function returns the whole image where nothing is kept; ours does so when asked.
        found = boxes_from_heatmaps(heatmap, row["alpha"], threshold=threshold, when_empty="image")
        assert found.boxes[0].tolist() == row["half_open_0based"], row


@covers("box_fong_all_zero")
def check_zero_map(case: Case) -> None:
    heatmap = tensor(case["inputs"]["heatmap"])[None]
    assert case["expected"]["recommended_box"] is None
    assert not boxes_from_heatmaps(heatmap, 0.5, threshold="mean").found.any()
    assert boxes_from_heatmaps(heatmap, 0.5, when_empty="image").boxes.tolist() == [[0, 0, 6, 4]]


@covers("box_resize_order")
def check_resize_order(case: Case) -> None:
    large = resize_heatmaps(tensor(case["inputs"]["heatmap"])[None], tuple(case["inputs"]["size"]))
    close(large[0], case["expected"]["upsampled"], {"tolerance": 1e-9})
    rows = case["expected"]["rows"]
    found = boxes_from_heatmaps(large, [row["alpha"] for row in rows])
    assert listed(found) == [row["recommended_resize_then_threshold"] for row in rows]


@covers("largest_component")
def check_components(case: Case) -> None:
    heat, expected = tensor(case["inputs"]["heat"])[None], case["expected"]
    mask = tensor(case["inputs"]["mask"])[None] > 0
    assert listed(boxes_from_heatmaps(heat, [0.0], region="component")) == [expected["box_by_area"]]
    assert listed(boxes_from_heatmaps(heat, [0.0], region="component-mass")) == [expected["box_by_mass"]]
    assert largest_components(mask, heat)[0].double().tolist() == expected["published_mass_component"]


@covers("diagonal_connectivity")
def check_connectivity(case: Case) -> None:
    mask = tensor(case["inputs"]["mask"])[None]
    four = boxes_from_heatmaps(mask, [1.0], region="component", connectivity=4)
    eight = boxes_from_heatmaps(mask, [1.0], region="component", connectivity=8)
    assert listed(four) == [case["expected"]["box_4"]]
    assert listed(eight) == [case["expected"]["box_8"]]


@covers("iou_cases")
def check_overlaps(case: Case) -> None:
    for row in case["expected"]["rows"]:
        predicted, truth = tensor(row["box_a"]), tensor(row["box_b"])
        close(iou(predicted, truth), row["iou_half_open"], case)
        boxes = given([row["box_a"]])
        for strict, name in ((False, "correct_if_iou_ge_half"), (True, "correct_if_iou_gt_half")):
            found = localization_error(boxes, [truth[None]], strict=strict)
            assert bool(found.errors[0] == 0) is row[name], row["name"]


@covers("iou_convention_mixup")
def check_convention(case: Case) -> None:
    first, second = tensor(case["inputs"]["box_a"]), tensor(case["inputs"]["box_b"])
    close(iou(first, second), case["expected"]["half_open"], {"tolerance": 1e-11})
    grow = tensor([0, 0, 1, 1])
    close(iou(first + grow, second + grow), case["expected"]["inclusive"], {"tolerance": 1e-11})


@covers("multiple_ground_truth")
def check_several_boxes(case: Case) -> None:
    predicted, truth = tensor(case["inputs"]["predicted"]), tensor(case["inputs"]["ground_truth"])
    close(iou(predicted, truth), case["expected"]["ious"], case)
    close(best_iou(predicted[None], [truth])[0], case["expected"]["max_iou"], case)
    close(union_iou(predicted[None], [truth])[0], case["expected"]["union_mask_iou"], case)


@covers("localization_error_set")
def check_error(case: Case) -> None:
    truth = [tensor(boxes) for boxes in case["inputs"]["ground_truth"]]
    predicted, expected = given(case["inputs"]["predicted"]), case["expected"]
    close(localization_error(predicted, truth).ious, expected["best_iou"], case)
    close(100 * localization_error(predicted, truth).error, expected["error_percent_recommended"], case)
    close(
        100 * localization_error(predicted, truth, strict=True).error,
        expected["error_percent_strict_gt"],
        case,
    )


@covers("alpha_selection")
def check_alpha(case: Case) -> None:
    found = choose_alpha(case["inputs"]["alphas"], case["inputs"]["heldout_error"])
    assert found == (case["expected"]["best_alpha"], case["expected"]["best_error"])


@covers("saliency_metric_values")
def check_saliency_values(case: Case) -> None:
    rows = case["expected"]["rows"]
    areas, scores = (tensor([row[name] for row in rows]) for name in ("area_fraction", "probability"))
    close(saliency_values(areas, scores), [row["value"] for row in rows], case)


@covers("saliency_metric_end_to_end")
def check_saliency(case: Case) -> None:
    inputs, rows = inputs_of(case), case["expected"]["rows"]
    images, heatmaps = tensor(inputs["image"])[None], tensor(inputs["heatmap"])[None]
    model = linear_softmax(inputs)
    found = saliency_metric(model, images, heatmaps, alpha=[row["alpha"] for row in rows])
    assert found.targets.tolist() == [case["expected"]["explained_class"]]
    close(model(images)[0].max(), case["expected"]["probability_full_image"], case)
    assert found.boxes[:, 0].tolist() == [row["box"] for row in rows]
    close(found.areas[:, 0], [row["area_fraction"] for row in rows], case)
    close(found.probabilities[:, 0], [row["probability"] for row in rows], case)
    close(found.values[:, 0], [row["value"] for row in rows], case)
    for row in rows:
        if row["crop_resized"] is not None:
            close(crop_and_resize(images[0], tensor(row["box"])), row["crop_resized"], case)


@covers("saliency_metric_no_box")
def check_saliency_without_box(case: Case) -> None:
    inputs = inputs_of(case)
    images = tensor(inputs["image"])[None]
    found = saliency_metric(linear_softmax(inputs), images, torch.zeros(1, *images.shape[2:]))
    assert found.boxes[0].tolist() == case["expected"]["box"]
    close(found.values[0], case["expected"]["value"], case)
    assert (found.areas.tolist(), found.flags.tolist()) == ([1.0], ["empty"])


@covers("pointing_game")
def check_pointing(case: Case) -> None:
    inputs, expected = case["inputs"], case["expected"]
    mask = torch.zeros(1, inputs["rows"], inputs["columns"], dtype=torch.bool)
    mask[:, slice(*inputs["true_rows"]), slice(*inputs["true_columns"])] = True
    for row in expected["hits"]:
        hit = is_hit(torch.tensor([row["point_uv"]]), mask, row["tolerance"])
        assert (1 if bool(hit) else -1) == row["result"], row
    results = [{1: 1.0, -1: 0.0, 0: np.nan}[result] for result, _ in expected["aggregate_sequence"]]
    accuracy, each = class_accuracy(
        tensor(results), torch.tensor([label for _, label in expected["aggregate_sequence"]])
    )
    close(each, expected["class_accuracies"], case)
    close(accuracy, expected["accuracy"], case)


def listed(found: Boxes) -> list[list[int] | None]:
    """Boxes of one heatmap at several thresholds, None for no box."""
    return [
        box if has else None
        for box, has in zip(found.boxes[:, 0].tolist(), found.found[:, 0].tolist(), strict=True)
    ]


def given(boxes: list[list[int] | None]) -> Boxes:
    found = torch.tensor([box is not None for box in boxes])
    flags = np.where(found.numpy(), "ok", "empty")
    return Boxes(torch.tensor([box or [0, 0, 0, 0] for box in boxes]), found, flags)


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["group"] in OWN])
def test_the_recorded_answer_is_reproduced(name: str) -> None:
    assert name in CHECKS, f"recorded case {name} has no check"
    CHECKS[name](CASES[name])


def test_no_recorded_case_is_forgotten() -> None:
    assert {case["group"] for case in CASES.values()} == OWN | ELSEWHERE
    assert set(CHECKS) == {name for name, case in CASES.items() if case["group"] in OWN}
    assert len(CHECKS) == 25
