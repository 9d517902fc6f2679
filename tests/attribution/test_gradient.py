from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient, IntegratedGradients, Saliency
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.gradient import completeness_gap, quadrature_rule
from heatcheck.attribution.registry import attribute

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]
ALL_RULES = ("left", "right", "midpoint", "trapezoid", "inclusive", "gauss-legendre")


class Quadratic(nn.Module):
    """``0.5 x'Ax + b'x + c`` as the only class."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor(inputs["A"], dtype=torch.float64))
        self.slope = nn.Parameter(torch.tensor(inputs["b"], dtype=torch.float64))
        self.offset = inputs["c"]

    def forward(self, images: Tensor) -> Tensor:
        x = images.flatten(1)
        scores: Tensor = 0.5 * ((x @ self.matrix) * x).sum(dim=1) + x @ self.slope + self.offset
        return scores[:, None]


def picture(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64).view(1, 3, 2, 2)


def patch_sums(maps: Tensor) -> Tensor:
    """Sums over channels and a 4 x 4 grid of patches, ``(N, 16)``."""
    n_images, _, height, width = maps.shape
    summed = maps.sum(dim=1).view(n_images, 4, height // 4, 4, width // 4)
    return summed.sum(dim=(2, 4)).flatten(1)


@pytest.mark.parametrize("name", ["gradient", "gradient-squared"])
def test_gradient_of_the_recorded_quadratic(name: str, golden: Golden) -> None:
    case = golden("roar", "C1_ensembles_of_gradient_quadratic")
    found = attribute(name, Quadratic(case["inputs"]), picture(case["inputs"]["x"]), torch.tensor([0]))
    expected = case["expected"]["GRAD" if name == "gradient" else "SQ_GRAD"]
    torch.testing.assert_close(found.flatten().tolist(), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize(
    ("quadrature", "key"),
    [
        ("right", "IG_right_riemann_k25"),
        ("inclusive", "IG_inclusive_linspace_k25"),
        ("midpoint", "IG_midpoint_k25"),
        ("trapezoid", "IG_exact"),
        ("gauss-legendre", "IG_exact"),
    ],
)
def test_integrated_gradients_of_the_recorded_quadratic(quadrature: str, key: str, golden: Golden) -> None:
    inputs = golden("roar", "C1_ensembles_of_gradient_quadratic")["inputs"]
    case = golden("roar", "C2_integrated_gradients_quadratic")
    found = attribute(
        "integrated-gradients",
        Quadratic(inputs),
        picture(inputs["x"]),
        torch.tensor([0]),
        n_steps=25,
        quadrature=quadrature,
        baseline="reference",
        reference=picture(case["inputs"]["x0"])[0],
    )
    torch.testing.assert_close(found.flatten().tolist(), case["expected"][key], atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    ("name", "key", "options"),
    [
        ("input-x-gradient", "IxG", {}),
        ("integrated-gradients", "IG", {"quadrature": "gauss-legendre"}),
        ("ig-uniform", "IG-U", {"baseline": "reference"}),
    ],
)
def test_patch_sums_of_the_recorded_network(
    name: str,
    key: str,
    options: dict[str, Any],
    golden: Golden,
    recorded_network: tuple[nn.Module, Tensor, Tensor],
) -> None:
    model, images, targets = recorded_network
    case = golden("idsds", "mlp_single_deletion")
    if options.get("baseline") == "reference":
        options = {**options, "reference": torch.tensor(case["uniform_baseline"], dtype=torch.float64)[0]}
    found = attribute(name, model, images, targets, **options)
    expected = torch.tensor(case["expected"][key]["patch_attribution_sums"], dtype=torch.float64)
    torch.testing.assert_close(patch_sums(found), expected, atol=1e-6, rtol=0)


def test_gauss_legendre_nodes_are_those_recorded(golden: Golden) -> None:
    case = golden("idsds", "gauss_legendre_50")
    nodes, weights = quadrature_rule("gauss-legendre", 50)
    np.testing.assert_allclose(nodes[:5], case["nodes_first5"], atol=1e-11)
    np.testing.assert_allclose(weights[:5], case["weights_first5"], atol=1e-11)


@pytest.mark.parametrize("quadrature", ALL_RULES)
@pytest.mark.parametrize("n_steps", [2, 3, 50])
def test_weights_sum_to_one_and_nodes_ascend_inside_the_line(quadrature: Any, n_steps: int) -> None:
    nodes, weights = quadrature_rule(quadrature, n_steps)
    assert len(nodes) == len(weights) == n_steps
    assert sum(weights) == pytest.approx(1, abs=1e-12)
    assert nodes == sorted(nodes)
    assert min(nodes) >= 0
    assert max(nodes) <= 1


@pytest.mark.parametrize("quadrature", ["trapezoid", "inclusive"])
def test_rules_with_both_ends_refuse_a_single_step(quadrature: Any) -> None:
    with pytest.raises(ValueError, match="n_steps must be at least 2"):
        quadrature_rule(quadrature, 1)


@pytest.mark.parametrize("name", ["gradient", "input-x-gradient", "integrated-gradients", "ig-uniform"])
def test_a_linear_model_has_its_closed_form(name: str, linear_model: Build, make_images: MakeImages) -> None:
    weights = make_images(1, channels=5, side=12, seed=8).reshape(5, -1)[:, :48].double()
    images, targets = make_images(2, side=4).double(), torch.tensor([1, 3])
    rows = weights[targets].view(2, 3, 4, 4)
    found = attribute(name, linear_model(weights.tolist()), images, targets)
    if name == "gradient":
        torch.testing.assert_close(found, rows)
    elif name == "ig-uniform":
        # Completeness still holds: the sum is the difference to the score of the noise, which is shared.
        start = images - found / rows
        torch.testing.assert_close(start[0], start[1])
        assert float(start.abs().max()) <= 1
    else:
        torch.testing.assert_close(found, images * rows)


def test_squared_input_x_gradient_squares_only_the_derivative(
    linear_model: Build, make_images: MakeImages
) -> None:
    weights = make_images(1, channels=2, side=12, seed=8).reshape(2, -1)[:, :48].double()
    images = make_images(1, side=4).double()
    found = attribute("input-x-gradient-squared", linear_model(weights.tolist()), images, torch.tensor([1]))
    torch.testing.assert_close(found, images * weights[1].view(1, 3, 4, 4).square())


def test_a_positively_homogeneous_network_has_equal_input_x_gradient_and_integrated_gradients(
    make_net: Callable[[Callable[[], nn.Module]], nn.Module], make_images: MakeImages
) -> None:
    model = make_net(
        lambda: nn.Sequential(
            nn.Conv2d(3, 6, 3, bias=False),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(6, 4, bias=False),
        )
    )
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    product = attribute("input-x-gradient", model, images, targets)
    integral = attribute("integrated-gradients", model, images, targets, n_steps=7)
    torch.testing.assert_close(product, integral, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("quadrature", ALL_RULES)
def test_maps_add_up_to_the_difference_of_the_scores(
    quadrature: str, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(3).double(), torch.tensor([0, 1, 2])
    model = net.double()
    gaps = []
    for n_steps in (4, 400):
        maps = attribute(
            "integrated-gradients",
            model,
            images,
            targets,
            n_steps=n_steps,
            quadrature=quadrature,
            baseline="constant",
            value=-1.0,
        )
        gaps.append(float(completeness_gap(model, images, targets, maps, baseline=-1.0).max()))
    assert gaps[1] < 2e-3
    assert gaps[1] < gaps[0]


@pytest.mark.parametrize("seed", [1, 2])
def test_gradients_equal_captum(seed: int, net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(3, seed=seed), torch.tensor([0, 1, 2])
    with torch.enable_grad():
        saliency = Saliency(net).attribute(images.clone().requires_grad_(), target=targets, abs=False)
        product = InputXGradient(net).attribute(images.clone().requires_grad_(), target=targets)
    torch.testing.assert_close(attribute("gradient", net, images, targets), saliency, atol=1e-7, rtol=1e-5)
    torch.testing.assert_close(
        attribute("input-x-gradient", net, images, targets), product.detach(), atol=1e-7, rtol=1e-5
    )


# captum's trapezoid weights add up to (n - 1) / n, so it is not a case where captum is right.
@pytest.mark.parametrize(
    ("quadrature", "method"),
    [
        ("left", "riemann_left"),
        ("right", "riemann_right"),
        ("midpoint", "riemann_middle"),
        ("gauss-legendre", "gausslegendre"),
    ],
)
def test_integrated_gradients_equal_captum(
    quadrature: str, method: Literal["riemann_left"], net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(3).double(), torch.tensor([0, 1, 2])
    model = net.double()
    expected = IntegratedGradients(model).attribute(
        images, baselines=0.5, target=targets, n_steps=20, method=method
    )
    found = attribute(
        "integrated-gradients",
        model,
        images,
        targets,
        n_steps=20,
        quadrature=quadrature,
        baseline="constant",
        value=0.5,
    )
    # captum keeps its nodes in single precision.
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-4)
