from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import pytest
import torch
from captum.attr import NoiseTunnel, Saliency
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import attribute, get_method
from heatcheck.attribution.smoothing import Noise, noise_deviation, smoothing_family
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import CounterGenerator

FAMILY = {"smoothgrad": "mean", "smoothgrad-squared": "mean_square", "vargrad": "variance"}
BASES = sorted(
    name
    for name in load_catalog()
    if get_method(name).family not in ("smoothing", "attention", "intrinsic", "control")
)
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]


@dataclass(frozen=True)
class Recorded:
    """Stands for the generator and plays back recorded noise ``(S, N, C, H, W)``."""

    noise: Tensor

    def take(self, rows: Sequence[int] | slice) -> "Recorded":
        return Recorded(self.noise[:, rows if isinstance(rows, slice) else list(rows)])

    def normal(self, sample: int, like: Tensor) -> Tensor:
        assert self.noise[sample].shape == like.shape
        return self.noise[sample]


def recorded(noise: Tensor) -> CounterGenerator:
    return cast(CounterGenerator, Recorded(noise))


class Quadratic(nn.Module):
    """``0.5 x'Ax + b'x`` as the only class."""

    def __init__(self, matrix: Any, slope: Any) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.tensor(matrix, dtype=torch.float64), requires_grad=False)
        self.slope = nn.Parameter(torch.tensor(slope, dtype=torch.float64), requires_grad=False)

    def forward(self, images: Tensor) -> Tensor:
        x = images.flatten(1)
        return (0.5 * ((x @ self.matrix) * x).sum(dim=1) + x @ self.slope)[:, None]


@pytest.mark.parametrize("base", ["gradient", "integrated-gradients"])
def test_recorded_noise_gives_the_recorded_statistics(base: str, golden: Golden) -> None:
    case = golden("roar", "C1_ensembles_of_gradient_quadratic")
    inputs, expected = case["inputs"], case["expected"]["finite_J"]
    options: dict[str, Any] = {}
    if base == "integrated-gradients":
        case = golden("roar", "C2_integrated_gradients_quadratic")
        expected = case["expected"]["ensembles_of_inclusive_linspace_IG_finite_J"]
        reference = torch.tensor(case["inputs"]["x0"], dtype=torch.float64).view(3, 2, 2)
        options = {"baseline": "reference", "reference": reference, "quadrature": "inclusive", "n_steps": 25}
    noise = torch.tensor(inputs["Z"], dtype=torch.float64).view(15, 1, 3, 2, 2)
    found = smoothing_family(
        base,
        Quadratic(inputs["A"], inputs["b"]),
        torch.tensor(inputs["x"], dtype=torch.float64).view(1, 3, 2, 2),
        torch.tensor([0]),
        generator=recorded(noise),
        noise=Noise(15, 0.15, "relative"),
        base_options=options,
    )
    for key, statistic in (("SG", found.mean), ("SG_SQ", found.mean_square), ("VAR_ddof0", found.variance)):
        torch.testing.assert_close(statistic.flatten().tolist(), expected[key], atol=1e-8, rtol=0)


@pytest.mark.parametrize(("base", "key"), [("input-x-gradient", "IxG"), ("integrated-gradients", "IG")])
def test_recorded_noise_tunnel_of_a_relu_network(
    base: str, key: str, golden: Golden, recorded_network: tuple[nn.Module, Tensor, Tensor]
) -> None:
    model, images, targets = recorded_network
    case = golden("idsds", "noise_tunnel")
    noise = torch.tensor(case["noise"], dtype=torch.float64).view(2, 4, 3, 8, 8).transpose(0, 1)
    found = smoothing_family(
        base,
        model,
        images[:2],
        targets[:2],
        generator=recorded(noise),
        noise=Noise(4, 1.0, "absolute"),
        base_options={"quadrature": "gauss-legendre"} if key == "IG" else {},
    )
    statistics = {"smoothgrad": found.mean, "smoothgrad_sq": found.mean_square, "vargrad": found.variance}
    for name, statistic in statistics.items():
        sums = statistic.sum(dim=1).view(2, 4, 2, 4, 2).sum(dim=(2, 4)).flatten(1)
        expected = torch.tensor(case["expected"][f"{key} {name}"]["patch_sums_raw"], dtype=torch.float64)
        torch.testing.assert_close(sums, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("scale", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vargrad_of_a_linear_model_is_zero_and_never_negative(
    scale: float, dtype: torch.dtype, make_images: MakeImages
) -> None:
    weights = scale * make_images(1, channels=2, side=16, seed=8).reshape(2, -1)[:, :192].to(dtype)
    layer = nn.Linear(192, 2).to(dtype)
    with torch.no_grad():
        layer.weight.copy_(weights)
    images = make_images(3, side=8).to(dtype)
    found = attribute(
        "vargrad", nn.Sequential(nn.Flatten(), layer), images, torch.tensor([0, 1, 0]), n_samples=50
    )
    assert float(found.min()) >= 0
    assert float(found.max()) <= (1e-6 * float(weights.abs().max())) ** 2


@pytest.mark.parametrize("base", BASES)
def test_mean_square_is_variance_plus_squared_mean_and_variance_is_not_negative(
    base: str, net: nn.Module, make_images: MakeImages, fast_options: Callable[[str], dict[str, Any]]
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    options: dict[str, Any] = {"base": base, "base_options": fast_options(base), "n_samples": 3}
    mean, mean_square, variance = (attribute(name, net, images, targets, **options) for name in FAMILY)
    assert float(variance.min()) >= 0
    torch.testing.assert_close(mean_square, variance + mean.square(), atol=0, rtol=1e-6)


@pytest.mark.parametrize("base", BASES)
def test_one_pass_gives_what_averaging_the_base_by_hand_gives(
    base: str, net: nn.Module, make_images: MakeImages, fast_options: Callable[[str], dict[str, Any]]
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    generator, noise = CounterGenerator.for_images(images, seed=4), Noise(4, 0.1)
    copies = [
        images + noise_deviation(images, noise) * generator.normal(sample, images) for sample in range(4)
    ]
    maps = torch.stack(
        [attribute(base, net, copy, targets, generator=generator, **fast_options(base)) for copy in copies]
    )
    with torch.enable_grad():
        found = smoothing_family(
            base, net, images, targets, generator=generator, noise=noise, base_options=fast_options(base)
        )
    scale = float(maps.abs().max())
    assert float((found.mean - maps.mean(dim=0)).abs().max()) < 1e-5 * scale
    assert float((found.variance - maps.var(dim=0, correction=0)).abs().max()) < 1e-5 * scale**2


@pytest.mark.parametrize("name", FAMILY)
def test_a_single_clean_sample_is_the_base_its_square_or_nothing(
    name: str, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    plain = attribute("gradient", net, images, targets)
    found = attribute(name, net, images, targets, n_samples=1, last_clean=True)
    expected = {
        "smoothgrad": plain,
        "smoothgrad-squared": plain.square(),
        "vargrad": torch.zeros_like(plain),
    }[name]
    torch.testing.assert_close(found, expected)


def test_expectations_over_the_noise_have_their_closed_form(golden: Golden) -> None:
    case = golden("roar", "C1_ensembles_of_gradient_quadratic")
    inputs, expected = case["inputs"], case["expected"]["closed_form_expectation"]
    image = torch.tensor(inputs["x"], dtype=torch.float64).view(1, 3, 2, 2)
    found = smoothing_family(
        "gradient", Quadratic(inputs["A"], inputs["b"]), image, torch.tensor([0]), noise=Noise(4000, 0.15)
    )
    # Standard errors: sigma / sqrt(4000) of the mean, about 2.2 % of the variance; four of each are allowed.
    variance = torch.tensor(expected["VAR"], dtype=torch.float64)
    errors = (found.mean.flatten() - torch.tensor(expected["SG"], dtype=torch.float64)).abs()
    assert bool((errors <= 4 * (variance / 4000).sqrt()).all())
    assert bool(((found.variance.flatten() - variance).abs() <= 4 * 0.0224 * variance).all())


def test_relative_noise_follows_each_images_own_range(make_images: MakeImages) -> None:
    images = make_images(2)
    images[1] *= 10
    spread = torch.stack([image.max() - image.min() for image in images])
    torch.testing.assert_close(noise_deviation(images, Noise(scale=0.1)).flatten(), 0.1 * spread)
    assert noise_deviation(images, Noise(scale=0.1, kind="absolute")).flatten().tolist() == pytest.approx(
        [0.1] * 2
    )


class Sees(nn.Module):
    """Sum of the pixels, which remembers what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(images.detach().clone())
        return images.flatten(1).sum(dim=1, keepdim=True)


@pytest.mark.parametrize("last_clean", [False, True])
def test_copies_carry_the_noise_asked_for_and_only_a_clean_last_one_carries_none(
    last_clean: bool, make_images: MakeImages
) -> None:
    model, images = Sees(), make_images(2, side=32)
    with memory_budget("100MB", chunk=2):
        attribute(
            "smoothgrad",
            model,
            images,
            torch.tensor([0, 0]),
            n_samples=3,
            noise_scale=0.1,
            last_clean=last_clean,
        )
    noises = [(seen - images) / noise_deviation(images, Noise(scale=0.1)) for seen in model.seen[1:]]
    assert len(noises) == 3
    assert float(noises[2].abs().max()) == 0 if last_clean else float(noises[2].std()) > 0.9
    for noise in noises[:2]:
        assert float(noise.std()) == pytest.approx(1, abs=0.05)
        assert float(noise.mean()) == pytest.approx(0, abs=0.05)
    assert float((noises[0] - noises[1]).abs().max()) > 1
    assert float((noises[0][0] - noises[0][1]).abs().max()) > 1


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"base": "smoothgrad"}, "smooths itself"),
        ({"base": "gradiant"}, "unknown method 'gradiant'"),
        ({"base": "gradient", "base_options": {"n_steps": 3}}, "n_steps"),
        ({"base": "guided-backprop", "base_options": {"output": "both"}}, "output"),
    ],
)
def test_an_unusable_base_is_refused(
    options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute("smoothgrad", net, make_images(1), torch.tensor([0]), **options)


def test_smoothing_equals_captum_on_the_same_noise(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])

    def captum(kind: str) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(11)
            maps: Tensor = NoiseTunnel(Saliency(net)).attribute(
                images, nt_type=kind, nt_samples=6, stdevs=0.2, target=targets, abs=False
            )
            return maps.detach()

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(11)
        # captum draws all samples of an image in a row.
        noise = torch.normal(0.0, 1.0, (12, 3, 12, 12)).view(2, 6, 3, 12, 12).transpose(0, 1)
    with torch.enable_grad():
        found = smoothing_family(
            "gradient", net, images, targets, generator=recorded(noise), noise=Noise(6, 0.2, "absolute")
        )
    for kind, statistic in (
        ("smoothgrad", found.mean),
        ("smoothgrad_sq", found.mean_square),
        ("vargrad", found.variance),
    ):
        torch.testing.assert_close(statistic, captum(kind), atol=1e-7, rtol=1e-4)
