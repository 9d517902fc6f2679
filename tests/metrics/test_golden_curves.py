"""Every recorded answer about deletion and insertion curves."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.metrics.curves import Curves, area_under_curve, changed_pixels, deletion, insertion
from heatcheck.metrics.flags import OK
from heatcheck.removal.fills import gaussian_kernel, get_fill
from heatcheck.runtime.memory import memory_budget

Case = dict[str, Any]
Check = Callable[[Case], None]

FILE = Path(__file__).parents[1] / "golden" / "deletion.json"
CASES: dict[str, Case] = {case["id"]: case for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]}
OWN = {"deletion_insertion", "deletion_ties", "insertion_blur", "auc", "scoring_recipe_bugs"}
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


def curve(inputs: dict[str, Any], **choices: Any) -> Curves:
    function = deletion if inputs["mode"] == "del" else insertion
    target = inputs.get("explained_class")
    choices.setdefault("fill", "blur" if "blur" in inputs["fill"] else "zero")
    choices.setdefault("targets", torch.tensor([target]) if isinstance(target, int) else None)
    return function(
        linear_softmax(inputs),
        tensor(inputs["image"])[None],
        tensor(inputs["heatmap"])[None],
        step=inputs["step"],
        **choices,
    )


def close(found: Tensor | float, expected: object, case: Case) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        tensor(expected),
        rtol=0,
        atol=max(case["tolerance"], 1e-10),
    )


@covers(
    "del_4x4_step1",
    "del_4x4_step3_remainder",
    "del_5x7_step4",
    "ins_4x4_step3",
    "del_4x4_step_ge_hw",
    "ins_6x6_step5",
    "del_signed_heatmap",
    "del_fixed_target",
    "ins_8x8_blur",
)
def check_curve(case: Case) -> None:
    inputs, expected = inputs_of(case), case["expected"]
    found = curve(inputs)
    close(found.scores[0], expected["scores"], case)
    close(found.auc[0], expected["auc_rise"], case)
    assert found.flags.tolist() == [OK]
    if "explained_class" in expected:
        assert found.targets.tolist() == [expected["explained_class"]]
    if "n_steps" in expected:
        assert found.scores.shape == (1, expected["n_steps"] + 1)
    if "auc_exact_fraction" in expected:
        close(curve(inputs, spacing="exact").auc[0], expected["auc_exact_fraction"], case)
        close(found.auc_over_max[0], expected["auc_divided_by_max"], case)
        close(found.auc_over_first[0], expected["auc_divided_by_first"], case)
        close(100 * found.auc[0], expected["auc_percent"], {"tolerance": 100 * case["tolerance"]})
    if "substrate" in expected:
        close(get_fill("blur").substrate(tensor(inputs["image"])[None])[0], expected["substrate"], case)


@covers("ties_constant_heatmap", "ties_superpixel_heatmap")
def check_ties(case: Case) -> None:
    inputs, expected = inputs_of(case), case["expected"]
    stable = curve(inputs)
    assert expected["recommended"] == "scores_row_major"
    close(stable.scores[0], expected["scores_row_major"], case)
    close(stable.auc[0], expected["auc_row_major"], case)
    heatmap = np.array(inputs["heatmap"])
    later_first = {**inputs, "heatmap": heatmap + 1e-6 * np.arange(heatmap.size).reshape(heatmap.shape)}
    close(curve(later_first).scores[0], expected["scores_reverse_row_major"], case)
    with memory_budget("64MB", chunk=4096):
        averaged = curve(inputs, ties="mean", n_orders=8000)
    assert (
        abs(float(averaged.auc) - expected["mean_auc_random_ties"])
        < expected["mean_auc_random_ties_tolerance"]
    )


@covers("gkern_11_5")
def check_kernel(case: Case) -> None:
    kernel, expected = gaussian_kernel(case["inputs"]["klen"], case["inputs"]["nsig"]), case["expected"]
    assert list(kernel.shape) == expected["shape"][2:]
    close(kernel.sum(), expected["sum_of_one_channel"], case)
    close(kernel[5, 5], expected["centre"], case)
    close(kernel[0, 0], expected["corner"], case)
    close(kernel[0, 5], expected["edge_mid"], case)
    close(kernel[0], expected["row0"], case)
    one_channel = torch.zeros(1, 3, 11, 11)
    one_channel[0, 1, 5, 5] = 1
    response = get_fill("blur").substrate(one_channel)
    close(response[0, 1], kernel.tolist(), case)
    assert response[0, [0, 2]].abs().sum() == expected["off_diagonal_sum"]


@covers("evaluate_batch_4")
def check_batch(case: Case) -> None:
    inputs, expected = inputs_of(case), case["expected"]
    found = deletion(
        linear_softmax(inputs), tensor(inputs["images"]), tensor(inputs["heatmaps"]), step=inputs["step"]
    )
    close(found.scores.T, expected["scores"], case)
    close(found.auc, expected["auc_per_image"], case)
    close(found.auc.mean(), expected["mean_of_aucs"], case)
    close(area_under_curve(found.scores.mean(0)), expected["auc_of_mean_curve"], case)


@covers("auc_linear", "auc_drop", "auc_two_points", "auc_rising")
def check_area(case: Case) -> None:
    scores, expected = tensor(case["inputs"]["scores"]), case["expected"]
    area = area_under_curve(scores)
    close(area, expected["auc_rise"], case)
    close(area / scores.max(), expected["auc_divided_by_max"], case)
    close(area * (len(scores) - 1), expected["unit_spacing_trapezoid"], case)


@covers("scoring_recipe_as_written")
def check_recipe(case: Case) -> None:
    found, expected = curve(inputs_of(case)), case["expected"]
    close(found.scores[0], expected["correct_scores"], case)
    close(found.auc[0], expected["correct_auc"], case)
    assert found.scores.shape[1] == expected["number_of_literal_points"] + 1
    for name in ("literal_scores", "flat_view_channel_first_scores", "flat_view_channel_last_scores"):
        assert not np.allclose(found.scores[0, : len(expected[name])], expected[name], atol=1e-3), name
    assert abs(float(found.auc) - expected["literal_result"]) > 1


@covers("step_counts")
def check_step_counts(case: Case) -> None:
    for row in case["expected"]["table"]:
        counts = changed_pixels(row["pixels"], row["step"])
        assert (len(counts) - 1, len(counts)) == (row["n_steps"], row["n_scores"])
        # One call per point: the class is read off the unmodified image's.
        assert len(counts) == row["forward_passes_rise_single_run"] - 1
        assert (int(counts[0]), int(counts[-1])) == (0, row["pixels"])


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["group"] in OWN])
def test_the_recorded_answer_is_reproduced(name: str) -> None:
    assert name in CHECKS, f"recorded case {name} has no check"
    CHECKS[name](CASES[name])


def test_no_recorded_case_is_forgotten() -> None:
    assert set(CHECKS) == {name for name, case in CASES.items() if case["group"] in OWN}
    assert len(CHECKS) == 19
