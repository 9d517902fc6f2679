from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from heatcheck.removal.fills import FILLS, Fill, gaussian_kernel, get_fill, register_fill

READY = [name for name in FILLS if not FILLS[name].missing]
INPAINTERS = [name for name in READY if FILLS[name].uses_mask]
every_fill = pytest.mark.parametrize("name", READY)
every_inpainter = pytest.mark.parametrize("name", INPAINTERS)
# What is drawn or segmented follows the exact pixels, so rounding them changes it.
CHAOTIC = {"noise", "random", "superpixel-mean"}
# Pictures of 8 bits: a level more or less is a fortieth of these images' deviation, and it spreads.
COARSE = {"telea", "ns"}
# Noise on top of what an inpainter finds is left out where its promises are exact ones.
NOISE: dict[str, dict[str, Any]] = {"road": {"noise": 0.0}}


def noiseless(name: str) -> Fill:
    return get_fill(name, **NOISE.get(name, {}))


def test_the_fills_are_these() -> None:
    inpainting = {"pushpull", "diffusion", "biharmonic", "telea", "ns", "torchscript", "road"}
    painting = {"zero", "constant", "mean", "superpixel-mean", "noise", "random", "blur", "wide-blur"}
    assert set(FILLS) == inpainting | painting
    assert {name for name in FILLS if FILLS[name].uses_mask} == inpainting
    assert set(FILLS) - set(READY) == {"torchscript"}


@every_fill
def test_kept_pixels_are_exactly_as_they_were(name: str, images: Tensor, keep: Tensor) -> None:
    copies = images.clone(), keep.clone()
    filled = get_fill(name)(images, keep)
    assert torch.equal(torch.where(keep, filled, 0), torch.where(keep, images, 0))
    assert torch.equal(images, copies[0])
    assert torch.equal(keep, copies[1])


@every_fill
def test_masks_of_bools_floats_and_three_channels_mean_the_same(
    name: str, images: Tensor, keep: Tensor
) -> None:
    expected = get_fill(name)(images, keep)
    for mask in (keep.float(), keep.expand_as(images), keep.expand_as(images).float()):
        torch.testing.assert_close(get_fill(name)(images, mask), expected, rtol=0, atol=1e-6)


@every_fill
def test_an_image_is_filled_the_same_in_any_batch(name: str, images: Tensor, keep: Tensor) -> None:
    together = get_fill(name)(images, keep)
    for row in range(5):
        alone = get_fill(name)(images[row : row + 1], keep[row : row + 1])
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-6)
    backwards = get_fill(name)(images.flip(0), keep.flip(0)).flip(0)
    torch.testing.assert_close(backwards, together, rtol=0, atol=1e-6)


@every_fill
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes_are_kept_and_give_nearly_the_same(
    name: str, images: Tensor, keep: Tensor, dtype: torch.dtype
) -> None:
    filled = get_fill(name)(images.to(dtype), keep)
    assert filled.dtype == get_fill(name)(images.to(dtype), keep.float()).dtype == dtype
    if name not in CHAOTIC:
        tolerance = 0.3 if name in COARSE else 0.03
        exact = noiseless(name)
        filled = exact(images.to(dtype), keep)
        torch.testing.assert_close(filled.float(), exact(images, keep), rtol=0, atol=tolerance)


@every_fill
def test_a_fill_that_ignores_the_mask_has_one_substrate(name: str, images: Tensor, keep: Tensor) -> None:
    fill = get_fill(name)
    everything_removed = fill(images, torch.zeros_like(keep))
    torch.testing.assert_close(fill.substrate(images), everything_removed, rtol=0, atol=1e-6)
    if not fill.uses_mask:
        assert torch.equal(fill(images, keep), torch.where(keep, images, everything_removed))


@every_fill
def test_the_global_generator_is_not_touched(name: str, images: Tensor, keep: Tensor) -> None:
    state = torch.get_rng_state()
    get_fill(name)(images, keep)
    assert torch.equal(torch.get_rng_state(), state)


@every_fill
@pytest.mark.parametrize("shape", [(1, 1, 1, 1), (2, 4, 1, 7), (0, 3, 4, 4)])
def test_odd_shapes_are_filled(name: str, shape: tuple[int, ...]) -> None:
    mask = torch.zeros(shape[0], 1, *shape[2:])
    assert get_fill(name)(torch.ones(shape), mask).shape == shape


def test_zero_and_constant_and_mean_are_what_they_say(images: Tensor, keep: Tensor) -> None:
    nothing = torch.zeros_like(keep)
    assert not get_fill("zero")(images, nothing).any()
    colors = get_fill("constant", values=(1.0, 2.0, 3.0))(images, nothing)
    assert torch.equal(colors, torch.tensor([1.0, 2.0, 3.0]).view(1, 3, 1, 1).expand_as(images))
    assert torch.equal(get_fill("constant", values=0.5)(images, nothing), torch.full_like(images, 0.5))
    torch.testing.assert_close(
        get_fill("mean")(images, keep)[4], images[4].mean((1, 2), keepdim=True).expand(3, 9, 11)
    )


def test_a_soft_mask_mixes_image_and_fill(images: Tensor) -> None:
    mask = torch.full((5, 1, 9, 11), 0.25)
    torch.testing.assert_close(get_fill("zero")(images, mask), 0.25 * images)
    expected = 0.25 * images + 0.75 * images.mean((2, 3), keepdim=True)
    torch.testing.assert_close(get_fill("mean")(images, mask), expected)


def test_blur_is_the_zero_padded_convolution_with_the_kernel(images: Tensor) -> None:
    kernel = gaussian_kernel().float().expand(3, 1, 11, 11)
    expected = F.conv2d(images, kernel, padding=5, groups=3)
    torch.testing.assert_close(get_fill("blur").substrate(images), expected, rtol=0, atol=1e-6)
    assert float(gaussian_kernel(7, 2.0).sum()) == pytest.approx(1)


def test_noise_is_normal_and_follows_its_seed() -> None:
    images = torch.zeros(1, 3, 64, 64)
    noise = get_fill("noise", scale=2.0).substrate(images)
    assert abs(float(noise.mean())) < 0.06
    assert float(noise.std()) == pytest.approx(2, abs=0.06)
    assert torch.equal(get_fill("noise", scale=2.0).substrate(images), noise)
    assert not torch.equal(get_fill("noise", scale=2.0, seed=1).substrate(images), noise)


def test_random_colors_are_uniform_and_follow_their_seed() -> None:
    images = torch.zeros(1, 3, 64, 64)
    colors = get_fill("random").substrate(images)
    assert colors.min() >= -1
    assert colors.max() < 1
    assert abs(float(colors.mean())) < 0.03
    assert float(colors.std()) == pytest.approx(3**-0.5, abs=0.02)
    assert not torch.equal(get_fill("random", seed=1).substrate(images), colors)
    normalized = get_fill("random", low=0.0, high=1.0, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.1))
    pixels = normalized.substrate(images)[0] * torch.tensor([0.2, 0.2, 0.1]).view(3, 1, 1)
    pixels = pixels + torch.tensor([0.5, 0.4, 0.3]).view(3, 1, 1)
    torch.testing.assert_close(pixels, (colors[0] + 1) / 2, rtol=0, atol=1e-6)


@every_inpainter
@pytest.mark.parametrize("size", [(8, 8), (9, 13), (1, 6)])
def test_an_inpainter_continues_a_constant_color_and_stays_between_its_surroundings(
    name: str, size: tuple[int, int]
) -> None:
    generator = torch.Generator().manual_seed(0)
    keep = torch.rand(6, 1, *size, generator=generator) < 0.4
    keep[:, :, 0, 0] = True
    color = torch.tensor([0.3, -2.0, 1.0]).view(1, 3, 1, 1).expand(6, 3, *size)
    torch.testing.assert_close(noiseless(name)(color, keep), color)
    images = torch.rand(6, 3, *size, generator=generator)
    known = torch.where(keep, images, torch.nan)
    filled = noiseless(name)(images, keep).flatten(2)
    low, high = known.nan_to_num(9).amin((2, 3)), known.nan_to_num(-9).amax((2, 3))
    assert (filled >= low[..., None] - 1e-6).all()
    assert (filled <= high[..., None] + 1e-6).all()


@every_inpainter
def test_an_inpainter_does_not_look_into_the_hole(name: str, images: Tensor, keep: Tensor) -> None:
    changed = torch.where(keep, images, 77.0)
    torch.testing.assert_close(noiseless(name)(changed, keep), noiseless(name)(images, keep))


@every_inpainter
def test_an_inpainter_prefers_near_pixels(name: str) -> None:
    images = torch.zeros(1, 1, 16, 16)
    images[..., 8:] = 1
    keep = torch.ones(1, 1, 16, 16, dtype=torch.bool)
    keep[..., 1:4] = False
    keep[..., 12:15] = False
    filled = get_fill(name)(images, keep)
    assert filled[..., 2].max() < 0.2
    assert filled[..., 13].min() > 0.8


@every_inpainter
def test_with_nothing_known_an_inpainter_gives_the_mean_color(name: str, images: Tensor) -> None:
    assert not noiseless(name).substrate(images).any()


@pytest.mark.parametrize("name", [name for name in INPAINTERS if name != "pushpull"])
def test_no_gradient_flows_through_what_an_inpainter_fills(name: str, images: Tensor, keep: Tensor) -> None:
    soft = keep.float().mul(0.5).add(0.25).requires_grad_()
    assert not get_fill(name).substrate(images.requires_grad_(), soft).requires_grad


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: get_fill("lama"), "unknown fill 'lama'; known: biharmonic, blur, constant"),
        (lambda: get_fill("torchscript").substrate(torch.zeros(1, 3, 8, 8)), "'torchscript' needs path="),
        (lambda: get_fill("random", low=1.0).substrate(torch.zeros(1, 3, 8, 8)), "low < high"),
        (lambda: get_fill("random", mean=(0.5,) * 3).substrate(torch.zeros(1, 3, 8, 8)), "give both or none"),
        (lambda: get_fill("blur", radius=3), "no option radius; its options: size, sigma"),
        (lambda: get_fill("zero", value=3), "its options: none"),
        (lambda: get_fill("blur", size=4).substrate(torch.zeros(1, 3, 8, 8)), "odd size"),
        (lambda: get_fill("constant", values=(1.0, 2.0)).substrate(torch.zeros(1, 3, 8, 8)), "give 1 or 3"),
        (lambda: get_fill("zero").substrate(torch.zeros(3, 8, 8)), r"images must be \(N, C, H, W\)"),
        (lambda: get_fill("zero")(torch.zeros(2, 3, 8, 8), torch.zeros(2, 8, 8)), "keep_mask has shape"),
        (lambda: get_fill("zero")(torch.zeros(2, 3, 8, 8), torch.full((2, 1, 8, 8), 1.5)), r"\[0, 1\]"),
        (lambda: get_fill("zero")(torch.zeros(2, 3, 8, 8), torch.full((2, 1, 8, 8), torch.nan)), r"\[0, 1\]"),
        (
            lambda: get_fill("zero")(torch.zeros(2, 3, 8, 8), torch.zeros(2, 1, 8, 8).long()),
            "bool, or floating",
        ),
    ],
)
def test_misuse_is_refused_by_name(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def own(images: Tensor, keep_mask: Tensor, **options: Any) -> Tensor:
    return images[:, :1]


def infinite(images: Tensor, keep_mask: Tensor, **options: Any) -> Tensor:
    return images / 0


def test_what_an_own_fill_returns_is_checked(images: Tensor, keep: Tensor) -> None:
    with pytest.raises(ValueError, match=r"fill 'own' returned \(5, 1, 9, 11\)"):
        Fill("own", own, uses_mask=True)(images, keep)
    with pytest.raises(ValueError, match="fill 'infinite' returned NaN or infinity"):
        Fill("infinite", infinite, uses_mask=False)(images, keep)


def test_a_name_can_be_registered_once() -> None:
    with pytest.raises(ValueError, match=r"fill 'blur' is registered already, by heatcheck\.removal\.fills"):
        register_fill("blur", uses_mask=False)(own)
