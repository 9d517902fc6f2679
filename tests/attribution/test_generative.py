"""The generative variants: the same methods with a removal operator in place of the constant fill."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.lime import perturbed_scores, sample_bits
from heatcheck.attribution.passes import Query
from heatcheck.attribution.perturbation import sliding_patch_grid
from heatcheck.attribution.registry import attribute, get_method
from heatcheck.attribution.superpixels import SlicOptions, superpixels
from heatcheck.attribution.windows import make_windows
from heatcheck.removal.registry import FILLS, Fill
from heatcheck.runtime.memory import memory_budget

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]
LIME: dict[str, Any] = {"n_samples": 13, "n_segments": 6, "sigma": 0.5}
FAST: dict[str, dict[str, Any]] = {
    "sliding-patch": {"patch": 5, "stride": 3},
    "lime": LIME,
    "meaningful-perturbation": {"n_iterations": 4, "mask_size": 4},
}


def asked_with(paint: Callable[[Tensor], Tensor], masks: list[Tensor]) -> Fill:
    """Inpainter that notes the masks it is asked with and paints ``paint(images)``."""

    def function(images: Tensor, keep_mask: Tensor) -> Tensor:
        masks.extend(keep_mask.clone())
        return paint(images)

    return Fill("noting", function, uses_mask=True)


class Witness(nn.Module):
    """Classifier that keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Tensor] = []

    def forward(self, images: Tensor) -> Tensor:
        self.seen.extend(images.clone())
        return images.mean(dim=(2, 3))


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_a_recorded_inpainting_is_pasted_only_under_the_patch(
    chunk: int, golden: Golden, linear_model: Build
) -> None:
    base, case = golden("deletion", "sp_linear"), golden("deletion", "sp_g_given_fill")
    inpainted = torch.tensor([case["inputs"]["inpainted"]], dtype=torch.float64)
    masks: list[Tensor] = []
    query = Query(
        linear_model(base["inputs"]["weights"], base["inputs"]["bias"]),
        torch.tensor([base["inputs"]["image"]], dtype=torch.float64),
        torch.tensor([base["expected"]["explained_class"]]),
        output="probability",
    )
    windows = make_windows(8, case["inputs"]["patch"], case["inputs"]["stride"], cover=False)
    with memory_budget("100MB", chunk=chunk):
        found = sliding_patch_grid(query, windows, windows, asked_with(inpainted.expand_as, masks))
    expected = torch.tensor(case["expected"]["grid"], dtype=torch.float64)
    torch.testing.assert_close(found[0], expected, atol=1e-9, rtol=0)
    assert [int((mask == 0).sum()) for mask in masks] == [16] * 9


@pytest.mark.parametrize("name", sorted(FAST))
def test_a_variant_differs_from_its_base_in_the_fill_alone(
    name: str, net: nn.Module, make_images: MakeImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An inpainter that paints zeros has to give the map of the constant fill, bit for bit.
    monkeypatch.setitem(FILLS, "noting", asked_with(torch.zeros_like, []))
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    binary: dict[str, Any] = {"binary": True} if name == "meaningful-perturbation" else {}
    base = attribute(name, net, images, targets, fill="zero", **FAST[name], **binary)
    assert torch.equal(attribute(f"{name}-g", net, images, targets, fill="noting", **FAST[name]), base)
    inpainted = attribute(f"{name}-g", net, images, targets, **FAST[name])
    assert float((inpainted - base).abs().max()) > 1e-5
    assert torch.equal(
        inpainted, attribute(name, net, images, targets, fill="pushpull", **FAST[name], **binary)
    )


@pytest.mark.parametrize("name", sorted(FAST))
def test_variants_cite_the_paper_that_brought_them(name: str) -> None:
    variant = get_method(f"{name}-g")
    assert (variant.variant_of, variant.cites) == (name, "agarwal2020explaining")
    assert variant.preset["fill"] == "pushpull"


@pytest.mark.parametrize("fill", ["zero", "mean", "noise", "blur"])
@pytest.mark.parametrize("name", sorted(FAST))
def test_every_operator_that_ignores_the_mask_fills_with_one_image(
    name: str, fill: str, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    together = attribute(name, net, images, targets, fill=fill, **FAST[name])
    alone = [
        attribute(name, net, images[i : i + 1], targets[i : i + 1], fill=fill, **FAST[name]) for i in range(3)
    ]
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-6, rtol=0)
    assert float(together.std()) > 0


def test_the_operators_own_options_reach_it(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    constant = attribute("sliding-patch", net, images, targets, fill=0.7, **FAST["sliding-patch"])
    named = attribute(
        *("sliding-patch", net, images, targets),
        **{"fill": "constant", "fill_options": {"values": 0.7}, **FAST["sliding-patch"]},
    )
    assert torch.equal(constant, named)


@pytest.mark.parametrize("chunk", [3, 4, 10, 64])
def test_pixels_are_removed_in_every_sample_of_a_ragged_last_chunk(
    chunk: int, make_images: MakeImages
) -> None:
    # The published LIME-G classifies the last partial batch of samples without removing anything.
    images, model = make_images(1), Witness()
    segments = superpixels(images, SlicOptions(6, 30.0, 0.5))
    bits = sample_bits(0, 13, int(segments.max()) + 1)
    operator = asked_with(lambda some: torch.full_like(some, 9.0), [])
    with memory_budget("100MB", chunk=chunk):
        perturbed_scores(Query(model, images, torch.tensor([0])), segments, [bits], operator)
    seen = torch.stack(model.seen[-13:])
    assert torch.equal(seen, torch.where(bits[:, segments[0]][:, None], images, 9.0))


def test_rounding_to_eight_bits_clips_and_keeps_multiples_of_one_255th(make_images: MakeImages) -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    channels = [torch.tensor(part, dtype=torch.float64).view(3, 1, 1) for part in (mean, std)]
    images, model = make_images(1).double(), Witness()
    found = attribute("lime-g", model, images, torch.tensor([0]), quantize=True, mean=mean, std=std, **LIME)
    pictures = torch.stack(model.seen[-13:]) * channels[1] + channels[0]
    assert float(pictures.min()) == pytest.approx(0, abs=1e-12)
    assert float(pictures.max()) == pytest.approx(1, abs=1e-12)
    torch.testing.assert_close((pictures * 255).round() / 255, pictures, atol=1e-12, rtol=0)
    exact = attribute("lime-g", Witness(), images, torch.tensor([0]), mean=mean, std=std, **LIME)
    assert not torch.equal(found, exact)


def test_rounding_needs_the_normalization(net: nn.Module, make_images: MakeImages) -> None:
    with pytest.raises(ValueError, match=r"quantize rounds colors to 8 bits: give the normalization"):
        attribute("lime-g", net, make_images(1), torch.tensor([0]), quantize=True, **LIME)


def test_one_superpixel_gives_a_constant_map_of_the_shrunken_difference(linear_model: Build) -> None:
    model, image = linear_model([[1.0] * 64]), torch.full((1, 1, 8, 8), 0.5, dtype=torch.float64)
    options: dict[str, Any] = {"n_segments": 1, "n_samples": 40, "sigma": 0.5, "output": "logit"}
    found = attribute("lime", model, image, torch.tensor([0]), **options)
    kept = float(sample_bits(0, 40, 1).sum())
    removed = (40 - kept) * math.sqrt(math.exp(-1 / 0.25**2))
    spread = kept * removed / (kept + removed)
    torch.testing.assert_close(found, torch.full_like(found, 32 * spread / (spread + 1)))


@pytest.mark.parametrize("variant", ["sliding-patch", "sliding-patch-g"])
def test_a_strip_that_the_stride_leaves_is_unseen_unless_it_is_covered(
    variant: str, linear_model: Build, make_images: MakeImages
) -> None:
    weights = torch.zeros(8, 8, dtype=torch.float64)
    weights[:, 7] = 1
    model, images = linear_model([weights.flatten().tolist()]), make_images(1, channels=1, side=8).double()
    options: dict[str, Any] = {"output": "logit", "patch": 4, "stride": 3, "aggregate": "mean"}
    left, covered = (
        attribute(variant, model, images, torch.tensor([0]), cover=cover, **options)
        for cover in (False, True)
    )
    assert float(left.abs().max()) == 0
    assert float(covered[..., 7].abs().min()) > 0


@pytest.mark.parametrize(
    ("name", "options", "part"),
    [
        ("sliding-patch-g", {"patch": 13}, "patch 13 is larger than the image"),
        ("sliding-patch", {"fill": "cement"}, "unknown fill 'cement'; known: "),
        ("lime", {"fill": "cement"}, "unknown fill 'cement'; known: "),
        ("lime-g", {"fill_options": {"depth": 2}}, "fill 'pushpull' has no option depth"),
        ("sliding-patch", {"fill": 0.0, "fill_options": {"depth": 2}}, "belong to a removal operator"),
        (
            "lime",
            {"fill": "superpixel-mean", "fill_options": {"n": 2}},
            "no option n",
        ),
        ("sliding-patch", {"fill_options": {"depth": 2}}, "fill 'zero' has no option depth"),
    ],
)
def test_fills_that_cannot_be_are_refused(
    name: str, options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute(name, net, make_images(1), torch.tensor([0]), **options)


@pytest.mark.parametrize(
    ("paint", "part"),
    [
        (lambda images: images[..., 1:], "must return a tensor"),
        (lambda images: images * math.nan, "NaN or infinity"),
    ],
)
@pytest.mark.parametrize("name", sorted(FAST))
def test_an_inpainter_that_returns_nonsense_is_refused_by_its_name(
    name: str,
    paint: Callable[[Tensor], Tensor],
    part: str,
    make_images: MakeImages,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(FILLS, "noting", asked_with(paint, []))
    with pytest.raises(ValueError, match=f"'noting' returned .*{part}"):
        attribute(f"{name}-g", Witness(), make_images(1), torch.tensor([0]), fill="noting", **FAST[name])


def test_an_operator_that_lacks_what_it_needs_is_refused_before_the_model_runs(
    make_images: MakeImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(images: Tensor, keep_mask: Tensor, *, path: str) -> Tensor:
        return images

    monkeypatch.setitem(FILLS, "needy", Fill("needy", function, uses_mask=True))
    model = Witness()
    with pytest.raises(ValueError, match="fill 'needy' needs fill_options with path"):
        attribute("sliding-patch-g", model, make_images(1), torch.tensor([0]), fill="needy")
    assert model.seen == []
