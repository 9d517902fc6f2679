"""Every recorded answer about single and incremental deletion."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.gradient import input_x_gradient, integrated_gradients
from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.incremental import IncrementalScores, incremental_deletion
from heatcheck.metrics.patch_responses import Responses, patch_responses
from heatcheck.metrics.patches import (
    TRANSFORMS,
    aggregate,
    average_ranks,
    patch_sums,
    rescale_to_unit,
    single_deletion_scores,
    spearman,
)
from heatcheck.metrics.scoring import softmax_of
from heatcheck.removal.fills import get_fill
from heatcheck.removal.wide_blur import wide_profile

Case = dict[str, Any]
FILE = Path(__file__).parents[1] / "golden" / "idsds.json"
CASES: dict[str, Case] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
MODEL = CASES["mlp_model"]


def tensor(values: object) -> Tensor:
    """Float64 tensor of nested lists in which null is NaN and infinities are strings."""

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(item) for item in value]
        return math.nan if value is None else float(value)

    return torch.tensor(number(values), dtype=torch.float64)


def close(found: Tensor | float, expected: object, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(
        torch.as_tensor(found, dtype=torch.float64),
        tensor(expected),
        rtol=0,
        atol=tolerance,
        equal_nan=True,
    )


def linear(weight: object, bias: object) -> nn.Linear:
    weights, biases = tensor(weight), tensor(bias)
    layer = nn.Linear(weights.shape[1], weights.shape[0], dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(weights)
        layer.bias.copy_(biases)
    return layer


def network() -> nn.Sequential:
    layers = (linear(MODEL["W1"], MODEL["b1"]), nn.ReLU(), linear(MODEL["W2"], MODEL["b2"]))
    return nn.Sequential(nn.Flatten(), *layers).eval()


IMAGES, TARGETS = tensor(MODEL["images"]), torch.tensor(MODEL["targets"])


def gradient_product(model: nn.Module, images: Tensor, targets: Tensor, **options: Any) -> Tensor:
    return input_x_gradient(model, images, targets, **options)


def integrated(model: nn.Module, images: Tensor, targets: Tensor, **options: Any) -> Tensor:
    return integrated_gradients(model, images, targets, n_steps=50, quadrature="gauss-legendre", **options)


def from_noise(model: nn.Module, images: Tensor, targets: Tensor, **options: Any) -> Tensor:
    start = tensor(CASES["mlp_single_deletion"]["uniform_baseline"])[0]
    return integrated(model, images, targets, baseline="reference", reference=start, **options)


METHODS: dict[str, Callable[..., Tensor]] = {
    "IxG": gradient_product,
    "IG": integrated,
    "IG-U": from_noise,
}


def check_scores(case: Case, responses: Responses, maps: Tensor, transform: str, output: str) -> None:
    grid = math.isqrt(len(case["patch_attribution_sums"][0]))
    sums = patch_sums(maps, grid, transform)  # type: ignore[arg-type]
    drops = responses.drops(output)
    close(sums, case["patch_attribution_sums"])
    close(drops, case["logit_drops"])
    scores = single_deletion_scores(sums, drops)
    close(scores.values, case["per_image_spearman"])
    close(aggregate(scores.values).mean, case["score"])


def test_the_recorded_network_is_this_one() -> None:
    close(network()(IMAGES).detach(), MODEL["logits"])


@pytest.mark.parametrize("transform", list(TRANSFORMS))
@pytest.mark.parametrize("grid", ["2", "4", "8"])
def test_recorded_patch_sums(grid: str, transform: str) -> None:
    case = CASES["patch_sums"]
    found = patch_sums(tensor(case["attribution"]), int(grid), transform)  # type: ignore[arg-type]
    close(found, case["expected"][grid][transform])


@pytest.mark.parametrize("name", ["IxG", "IxG abs"])
def test_a_linear_model_is_ranked_perfectly_by_its_signed_products(name: str) -> None:
    case = CASES["linear_model_single_deletion"]
    model = nn.Sequential(nn.Flatten(), linear(case["W"], case["b"]))
    targets = torch.tensor(case["targets"])
    responses = patch_responses(model, IMAGES, targets, 4)
    maps = input_x_gradient(model, IMAGES, targets)
    check_scores(case["expected"][name], responses, maps, "abs" if "abs" in name else "raw", "logit")


@pytest.mark.parametrize("name", list(CASES["mlp_single_deletion"]["expected"]))
def test_recorded_single_deletion(name: str) -> None:
    case = CASES["mlp_single_deletion"]
    responses = patch_responses(network(), IMAGES, TARGETS, 4)
    close(responses.logits[:, 0], case["target_logits_full"])
    method, transform = (name.removesuffix(" abs"), "abs") if name.endswith(" abs") else (name, "raw")
    maps = METHODS[method](network(), IMAGES, TARGETS)
    check_scores(case["expected"][name], responses, maps, transform, "logit")


@pytest.mark.parametrize("name", list(CASES["mlp_single_deletion_softmax"]["expected"]))
def test_recorded_single_deletion_of_probabilities(name: str) -> None:
    responses = patch_responses(network(), IMAGES, TARGETS, 4)
    maps = METHODS[name](network(), IMAGES, TARGETS, output="probability")
    check_scores(
        CASES["mlp_single_deletion_softmax"]["expected"][name], responses, maps, "raw", "probability"
    )


@pytest.mark.parametrize("grid", list(CASES["mlp_single_deletion_other_grids"]["expected"]))
def test_recorded_single_deletion_on_other_grids(grid: str) -> None:
    responses = patch_responses(network(), IMAGES, TARGETS, int(grid))
    maps = integrated(network(), IMAGES, TARGETS)
    check_scores(CASES["mlp_single_deletion_other_grids"]["expected"][grid], responses, maps, "raw", "logit")


def test_images_whose_map_is_constant_are_left_out_and_counted() -> None:
    case = CASES["aggregation_with_constant_maps"]
    sums = patch_sums(tensor(case["maps"]), 4)
    drops = patch_responses(network(), IMAGES, TARGETS, 4).drops()
    expected = case["expected"]
    close(sums, expected["patch_attribution_sums"])
    close(drops, expected["logit_drops"])
    scores = single_deletion_scores(sums, drops)
    close(scores.values, expected["per_image_spearman"])
    assert scores.flags.tolist() == ["ok", "ok", "constant", "ok", "constant"]
    found = aggregate(scores.values)
    close(found.mean, expected["score"])
    assert (found.n, found.n_excluded) == (expected["images_used"], 2)


def test_the_first_images_alone_score_as_recorded() -> None:
    case = CASES["first_n_images"]["expected"]
    maps = tensor(CASES["aggregation_with_constant_maps"]["maps"])[:2]
    drops = patch_responses(network(), IMAGES[:2], TARGETS[:2], 4).drops()
    scores = single_deletion_scores(patch_sums(maps, 4), drops)
    close(scores.values, case["per_image_spearman"])
    close(aggregate(scores.values).mean, case["score"])


@pytest.mark.parametrize("item", CASES["spearman"]["items"], ids=lambda item: item["name"])
def test_recorded_rank_correlations(item: Case) -> None:
    first, second = tensor(item["a"])[None], tensor(item["b"])[None]
    close(spearman(first, second), [item["rho"]])
    for values, ranks in ((first, item["ranks_a"]), (second, item["ranks_b"])):
        if ranks is not None and not torch.isnan(values).any():
            close(average_ranks(values)[0], ranks)


def test_recorded_rank_correlations_of_a_whole_table_at_once() -> None:
    items = [item for item in CASES["spearman"]["items"] if len(item["a"]) == 16]
    tables = [tensor([item[side] for item in items]) for side in ("a", "b")]
    close(spearman(*tables), [item["rho"] for item in items])


def incremental(maps: Tensor, **choices: Any) -> IncrementalScores:
    return incremental_deletion(softmax_of(network()), IMAGES, maps, TARGETS, **choices)


def check_curves(found: IncrementalScores, case: Case) -> None:
    close(float(found.values.mean()), case["score"])
    if "curves" in case:
        close(found.curves, case["curves"])
    assert [found.deleted.tolist()] * len(IMAGES) == case["deleted_pixels"]


@pytest.mark.parametrize("direction", ["ascending", "descending"])
@pytest.mark.parametrize("name", ["incremental_deletion", "incremental_deletion_ixg"])
def test_recorded_incremental_deletion(name: str, direction: str) -> None:
    case = CASES[name]
    maps = tensor(case["maps"]) if "maps" in case else input_x_gradient(network(), IMAGES, TARGETS)
    found = incremental(maps.sum(1), n_steps=8, direction=direction)
    check_curves(found, case["expected"][direction])


def test_recorded_incremental_deletion_in_32_steps() -> None:
    case = CASES["incremental_deletion"]
    found = incremental(tensor(case["maps"]).sum(1))
    check_curves(found, case["expected"]["steps32_ascending"])


def test_the_recorded_mean_over_unequal_batches_is_another_than_that_over_images() -> None:
    case = CASES["incremental_deletion"]
    found = incremental(tensor(case["maps"]).sum(1), n_steps=8)
    close(found.curves, case["expected"]["unequal_batches_ascending"]["curves"])
    batches = [found.values[start : start + 2].mean() for start in range(0, len(IMAGES), 2)]
    close(torch.stack(batches).mean(), case["expected"]["unequal_batches_ascending"]["score"])


def test_recorded_incremental_deletion_with_updated_maps() -> None:
    def update(images: Tensor) -> Tensor:
        return input_x_gradient(network(), images, TARGETS).sum(1)

    found = incremental(update(IMAGES), n_steps=8, update=update)
    check_curves(found, CASES["incremental_deletion_updated"]["expected"])


def test_the_recorded_wide_blur() -> None:
    case = CASES["blur_baseline"]
    close(wide_profile()[25:], case["profile_1d_center_to_edge"], 1e-8)
    blurred = get_fill("wide-blur").substrate(IMAGES[:1])[0]
    close(blurred, case["blurred"], 1e-5)
    close(get_fill("wide-blur").substrate(IMAGES[:1].float())[0], case["blurred"], 1e-5)


def test_the_recorded_mean_on_the_scale_of_funny_birds() -> None:
    case = CASES["funnybirds_single_deletion"]
    close(aggregate(rescale_to_unit(tensor(case["rho"]))).mean, case["expected_mean"])


def test_the_recorded_agreement_of_two_rankings() -> None:
    case = CASES["protocol_rank_agreement"]
    found = rank_correlations(case["a"], case["b"])
    close(found[0], case["expected_spearman"])
    close(found[1], case["expected_kendall_tau_b"])
