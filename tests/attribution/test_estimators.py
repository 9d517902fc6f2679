"""The 18 estimators from one pass are the registered methods, and the definitions of the paper."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.estimators import BASES, ESTIMATORS, estimator_maps
from heatcheck.attribution.passes import Query
from heatcheck.attribution.registry import METHODS, attribute
from heatcheck.attribution.smoothing import Noise, noise_deviation
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
ALL = tuple(ESTIMATORS)
FAST: dict[str, Any] = {"n_samples": 3, "n_steps": 3}
RULES = ("midpoint", "right", "inclusive", "left", "trapezoid", "gauss-legendre")
METHOD_OF = {"grad": "gradient", "gb": "guided-backprop", "ig": "integrated-gradients"}
STATISTICS = {"sg": "smoothgrad", "sg-sq": "smoothgrad-squared", "var": "vargrad"}
BLACK = (-2.0, -1.0, -0.5)


@dataclass(frozen=True)
class Recorded:
    """Stands for the generator and plays back recorded noise ``(S, N, C, H, W)``."""

    noise: Tensor

    def take(self, rows: Sequence[int] | slice) -> "Recorded":
        return Recorded(self.noise[:, rows if isinstance(rows, slice) else list(rows)])

    def normal(self, sample: int, like: Tensor) -> Tensor:
        assert self.noise[sample].shape == like.shape
        return self.noise[sample]


class Quadratic(nn.Module):
    """``0.5 x'Ax + b'x`` as the only class."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor(inputs["A"], dtype=torch.float64), requires_grad=False)
        self.slope = nn.Parameter(torch.tensor(inputs["b"], dtype=torch.float64), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        x = images.flatten(1)
        return (0.5 * ((x @ self.matrix) * x).sum(dim=1) + x @ self.slope)[:, None]


def expected_map(name: str, query: Query, quadrature: str) -> Tensor:
    """The map of estimator ``name`` from the registered methods, one call each."""
    model, images, targets = query.model, query.images, query.targets
    *statistic, base = name.split("-")
    squared = statistic[:1] == ["sq"]
    options: dict[str, Any] = {}
    if base == "ig":
        start = torch.tensor(BLACK).view(3, 1, 1).expand(images.shape[1:])
        options = {
            "n_steps": FAST["n_steps"],
            "quadrature": quadrature,
            "baseline": "reference",
            "reference": start,
        }
    kind = STATISTICS.get("-".join(statistic[1:] if squared else statistic))
    method = METHOD_OF[base]
    if kind:
        options = {
            "base": method,
            "base_options": options,
            "n_samples": FAST["n_samples"],
            "noise_scale": 0.15,
        }
    maps = attribute(kind or method, model, images, targets, generator=query.generator, **options)
    return maps.square() if squared else maps


def close(found: Tensor, expected: Tensor, tolerance: float = 1e-6) -> bool:
    return float((found - expected).abs().max()) <= tolerance * float(expected.abs().max())


def test_the_estimators_are_three_bases_in_six_forms_named_as_in_the_paper() -> None:
    assert len(ESTIMATORS) == 18
    assert list(ESTIMATORS)[:6] == ["grad", "sq-grad", "sg-grad", "sq-sg-grad", "sg-sq-grad", "var-grad"]
    assert [item.label for item in ESTIMATORS.values()][10:13] == ["SG-SQ-GB", "VAR-GB", "IG"]
    signed = {name for name, item in ESTIMATORS.items() if item.signed}
    assert signed == {form + base for base in BASES for form in ("", "sg-")}
    assert not set(ESTIMATORS) & set(METHODS)


@pytest.mark.parametrize("name", ALL)
def test_a_squared_estimator_ranks_elements_as_the_magnitude_of_the_map_it_is_ranked_from(
    name: str, net: nn.Module, make_images: MakeImages
) -> None:
    item = ESTIMATORS[name]
    maps = estimator_maps(net, make_images(1), torch.tensor([0]), [name, item.ranked_from], **FAST)
    ranked = maps[item.ranked_from]
    if item.aggregate == "abs_sum":
        ranked = ranked.abs().square()
    torch.testing.assert_close(ranked, maps[name])
    assert ESTIMATORS[item.ranked_from].squared is False


@pytest.mark.parametrize("quadrature", RULES)
def test_one_pass_gives_the_maps_of_the_registered_methods(
    quadrature: Any, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 4])
    generator = CounterGenerator(5, (11, 12, 13))
    found = estimator_maps(
        net, images, targets, ALL, generator=generator, quadrature=quadrature, baseline=BLACK, **FAST
    )
    assert tuple(found) == ALL
    for name in ALL if quadrature == "inclusive" else ("grad", "sg-gb", "ig", "sg-ig", "var-ig"):
        expected = expected_map(name, Query(net, images, targets, generator=generator), quadrature)
        assert found[name].dtype == torch.float32
        assert found[name].shape == images.shape
        assert close(found[name], expected), name


@pytest.mark.parametrize("quadrature", ["midpoint", "inclusive"])
@pytest.mark.parametrize(
    "names",
    [("sg-sq-gb",), ("var-ig", "sq-gb"), ("gb", "grad"), ("sg-grad", "ig"), ("sg-gb", "sg-grad", "var-grad")],
)
def test_an_estimator_does_not_depend_on_which_others_are_asked_for(
    names: tuple[str, ...], quadrature: Any, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {**FAST, "quadrature": quadrature, "baseline": BLACK}
    everything = estimator_maps(net, images, targets, ALL, **options)
    found = estimator_maps(net, images, targets, names, **options)
    assert tuple(found) == names
    assert all(close(found[name], everything[name]) for name in names)


@pytest.mark.parametrize("chunk", [1, 2, 5, 64])
def test_maps_do_not_depend_on_the_chunk_size_or_the_batch(
    chunk: int, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(5), torch.tensor([0, 1, 2, 3, 4])
    options: dict[str, Any] = {**FAST, "quadrature": "inclusive", "baseline": 0.3}
    expected = estimator_maps(net, images, targets, ALL, **options)
    with memory_budget("100MB", chunk=chunk):
        found = estimator_maps(net, images, targets, ALL, **options)
        alone = estimator_maps(net, images[3:4], targets[3:4], ALL, **options)
        turned = estimator_maps(net, images.flip(0), targets.flip(0), ALL, **options)
    for name in ALL:
        assert close(found[name], expected[name])
        assert close(alone[name][0], expected[name][3])
        assert close(turned[name].flip(0), expected[name])


def test_mean_square_is_variance_plus_squared_mean_for_every_base(
    net: nn.Module, make_images: MakeImages
) -> None:
    maps = estimator_maps(net, make_images(2), torch.tensor([0, 1]), ALL, **FAST)
    for base in BASES:
        assert float(maps[f"var-{base}"].min()) >= 0
        total = maps[f"var-{base}"] + maps[f"sg-{base}"].square()
        torch.testing.assert_close(maps[f"sg-sq-{base}"], total, atol=0, rtol=1e-6)
        assert torch.equal(maps[f"sq-sg-{base}"], maps[f"sg-{base}"].square())
        assert torch.equal(maps[f"sq-{base}"], maps[base].square())


def recorded_problem(golden: Golden) -> tuple[nn.Module, Tensor, Any]:
    inputs = golden("roar", "C1_ensembles_of_gradient_quadratic")["inputs"]
    noise = torch.tensor(inputs["Z"], dtype=torch.float64).view(15, 1, 3, 2, 2)
    image = torch.tensor(inputs["x"], dtype=torch.float64).view(1, 3, 2, 2)
    return Quadratic(inputs), image, cast(CounterGenerator, Recorded(noise))


@pytest.mark.parametrize("base", ["grad", "ig"])
def test_recorded_noise_gives_the_recorded_statistics(base: str, golden: Golden) -> None:
    model, image, generator = recorded_problem(golden)
    expected = golden("roar", "C1_ensembles_of_gradient_quadratic")["expected"]["finite_J"]
    options: dict[str, Any] = {}
    if base == "ig":
        case = golden("roar", "C2_integrated_gradients_quadratic")
        expected = case["expected"]["ensembles_of_inclusive_linspace_IG_finite_J"]
        start = torch.tensor(case["inputs"]["x0"], dtype=torch.float64).view(3, 2, 2)
        options = {"baseline": start, "quadrature": "inclusive"}
    names = {
        f"sg-{base}": "SG",
        f"sg-sq-{base}": "SG_SQ",
        f"var-{base}": "VAR_ddof0",
        f"sq-sg-{base}": "SQ_SG",
    }
    found = estimator_maps(model, image, torch.tensor([0]), list(names), generator=generator, **options)
    for name, key in names.items():
        assert found[name].flatten().tolist() == pytest.approx(expected[key], abs=1e-8), key


@pytest.mark.parametrize(
    ("quadrature", "key"),
    [
        ("right", "IG_right_riemann_k25"),
        ("inclusive", "IG_inclusive_linspace_k25"),
        ("midpoint", "IG_midpoint_k25"),
    ],
)
def test_the_three_published_rules_give_the_recorded_integrals(
    quadrature: Any, key: str, golden: Golden
) -> None:
    model, image, _ = recorded_problem(golden)
    case = golden("roar", "C2_integrated_gradients_quadratic")
    start = torch.tensor(case["inputs"]["x0"], dtype=torch.float64).view(1, 3, 2, 2)
    maps = estimator_maps(
        model, image, torch.tensor([0]), ["ig", "sq-ig"], baseline=start, quadrature=quadrature
    )
    assert maps["ig"].flatten().tolist() == pytest.approx(case["expected"][key], abs=1e-8)
    assert torch.equal(maps["sq-ig"], maps["ig"].square())


class Counts(nn.Module):
    """A rectified sum, which counts the images it is shown and remembers them."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images.detach().clone())
        return torch.relu(images).flatten(1).sum(dim=1, keepdim=True)


@pytest.mark.parametrize(
    ("names", "quadrature", "passes"),
    [
        (("grad", "gb"), "midpoint", 1),
        (("sg-grad", "var-gb"), "midpoint", 4),
        (("sg-ig",), "midpoint", 4 * 5),
        (ALL, "midpoint", (4 + 1) * (5 + 1)),
        # The end of the line is the image itself, and the start is the same for all copies.
        (ALL, "right", (4 + 1) * 5),
        (ALL, "inclusive", (4 + 1) * 4 + 1),
    ],
)
def test_no_pass_is_made_twice(
    names: tuple[str, ...], quadrature: Any, passes: int, make_images: MakeImages
) -> None:
    model, images = Counts(), make_images(3)
    targets = torch.zeros(3, dtype=torch.int64)
    estimator_maps(model, images, targets, ["grad"])
    model.seen.clear()
    estimator_maps(model, images, targets, names, n_samples=4, n_steps=5, quadrature=quadrature)
    assert sum(len(seen) for seen in model.seen) == 3 * passes


def test_copies_carry_noise_of_each_images_own_range_around_a_start_that_carries_none(
    make_images: MakeImages,
) -> None:
    model, images = Counts(), make_images(2, side=32)
    images[1] *= 5
    options: dict[str, Any] = {"n_samples": 2, "n_steps": 2, "quadrature": "inclusive", "baseline": -3.0}
    with memory_budget("100MB", chunk=2):
        estimator_maps(model, images, torch.zeros(2, dtype=torch.int64), ["sg-ig"], **options)
    start, *copies = model.seen[1:]
    assert bool((start == -3).all())
    noise = (torch.stack(copies) - images) / noise_deviation(images, Noise(scale=0.15))
    assert len(copies) == 2
    for part in noise.flatten(0, 1):
        assert float(part.std()) == pytest.approx(1, abs=0.05)
    assert float((noise[0] - noise[1]).abs().max()) > 1


def test_registered_methods_stand_beside_the_18_under_their_own_names(
    net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    generator = CounterGenerator(3, (7, 8))
    names = ["random", "sg-grad", "grad-cam", "sobel-release"]
    options = {"random": {"per_channel": True}}
    maps = estimator_maps(
        net, images, targets, names, generator=generator, method_options=options, n_samples=2
    )
    assert list(maps) == names
    assert torch.equal(maps["random"], generator.uniform(0, images))
    assert torch.equal(maps["grad-cam"], attribute("grad-cam", net, images, targets))
    assert maps["sobel-release"].shape == images.shape


@pytest.mark.parametrize("fault", [False, True])
def test_nothing_the_caller_owns_changes(fault: bool, net: nn.Module, make_images: MakeImages) -> None:
    net.train()
    images, targets = make_images(2), torch.tensor([0, 1])
    before, state = images.clone(), torch.get_rng_state()
    buffers = {name: value.clone() for name, value in net.state_dict().items()}
    if fault:
        handle = net.register_forward_hook(lambda *_: torch.zeros(0))
        with pytest.raises(ValueError, match="logits"):
            estimator_maps(net, images, targets, ALL, **FAST)
        handle.remove()
    else:
        estimator_maps(net, images, targets, ALL, **FAST)
    assert all(module.training for module in net.modules())
    assert all(weight.requires_grad and weight.grad is None for weight in net.parameters())
    assert all(torch.equal(value, buffers[name]) for name, value in net.state_dict().items())
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_second_input_goes_with_its_image_to_every_copy(
    two_input_net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    words = torch.tensor([[0, 1], [2, 3], [4, 5]])
    together = estimator_maps(two_input_net, images, targets, ALL, forward_args=(words,), **FAST)
    for row in range(3):
        alone = estimator_maps(
            two_input_net,
            images[row : row + 1],
            targets[row : row + 1],
            ALL,
            forward_args=(words[row : row + 1],),
            **FAST,
        )
        assert all(close(together[name][row], alone[name][0]) for name in ALL)


def test_no_images_give_empty_maps(net: nn.Module, make_images: MakeImages) -> None:
    maps = estimator_maps(net, make_images(1)[:0], torch.zeros(0, dtype=torch.int64), ALL, **FAST)
    assert all(item.shape == (0, 3, 12, 12) for item in maps.values())


@pytest.mark.parametrize(
    ("names", "options", "part"),
    [
        (["grad", "grd"], {}, "unknown estimators grd; known: grad, sq-grad"),
        (["sg-grad"], {"n_samples": 0}, "n_samples is 0"),
        (["sg-grad"], {"noise_scale": -0.1}, "noise_scale -0.1"),
        (["ig"], {"n_steps": 1, "quadrature": "inclusive"}, "n_steps must be at least 2"),
        (["ig"], {"baseline": torch.zeros(1, 12, 12)}, r"baseline of shape \(1, 12, 12\)"),
        (["ig"], {"baseline": (0.0, 1.0)}, "2 channel values"),
        (["ig"], {"method_options": {"ig": {}}}, "method_options names ig"),
        (["ig"], {"method_options": {"sobel": {}}}, "method_options names sobel"),
    ],
)
def test_what_cannot_be_used_is_refused(
    names: list[str], options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        estimator_maps(net, make_images(1), torch.tensor([0]), names, **options)
