"""Random changes of batches: against torchvision, and what they must never do."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms import functional as tv

from heatcheck.data.augmentation import (
    Crops,
    published_eval,
    published_train,
    random_crops,
    recommended,
    resample,
    resample_nearest,
    separate_train,
)

BICUBIC = InterpolationMode.BICUBIC


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(n: int = 3, side: int = 32, channels: int = 3) -> Tensor:
    return torch.rand(n, channels, side, side, generator=seeded(9))


def crops_of(*rows: tuple[int, int, int, int, bool]) -> Crops:
    columns = list(zip(*rows, strict=True))
    return Crops(*(torch.tensor(column) for column in columns))


@pytest.mark.parametrize("size", [32, 20, 61])
def test_a_crop_is_resized_as_torchvision_does(size: int) -> None:
    images = noise()
    rows = [(0, 0, 32, 32, False), (5, 9, 13, 20, True), (11, 1, 9, 8, False)]
    resized = resample(images, crops_of(*rows), size)
    for image, result, (top, left, height, width, flip) in zip(images, resized, rows, strict=True):
        expected = tv.resized_crop(image, top, left, height, width, [size, size], BICUBIC, antialias=True)
        torch.testing.assert_close(result, tv.hflip(expected) if flip else expected, atol=2e-5, rtol=0)


@pytest.mark.parametrize("shape", [(224, 224), (32, 32), (40, 33)])
def test_evaluation_enlarges_and_crops_the_center_as_torchvision_does(shape: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *shape, generator=seeded())
    side = min(shape)
    expected = tv.resize(images, round(side * 256 / 224), BICUBIC, antialias=True)
    height, width = expected.shape[-2:]
    top, left = (height - side + 1) // 2, (width - side + 1) // 2
    expected = expected[..., top : top + side, left : left + side]
    torch.testing.assert_close(published_eval(images), expected, atol=2e-5, rtol=0)


def test_evaluation_sees_only_the_central_196_of_224_pixels() -> None:
    images = torch.zeros(1, 1, 224, 224)
    images[..., 14:210, 14:210] = 1
    inside = published_eval(images)
    # The cubic kernel reaches two pixels further.
    assert inside[..., 3:-3, 3:-3].min() > 0.99
    images[..., 12:212, 12:212] = 1
    torch.testing.assert_close(published_eval(images), torch.ones(1, 1, 224, 224))


@pytest.mark.parametrize("change", [lambda x: published_train(x, seeded()), published_eval])
def test_one_color_stays_that_color(change: object) -> None:
    assert callable(change)
    color = torch.tensor([0.485, 0.456, 0.406])[:, None, None]
    result = change(color.expand(4, 3, 32, 32))
    torch.testing.assert_close(result, color.expand(4, 3, 32, 32), atol=1e-6, rtol=0)


def test_crops_follow_the_published_rule() -> None:
    crops = random_crops(20_000, (224, 224), seeded())
    top, left, height, width, flip = crops
    assert bool((top >= 0).all() and (top + height <= 224).all())
    assert bool((left >= 0).all() and (left + width <= 224).all())
    area, whole = height * width / 224**2, (height == 224) & (width == 224)
    ratio = width / height
    assert area.min() >= 0.1
    assert 0.74 < ratio.min() < 0.76
    assert 1.32 < ratio.max() < 1.35
    # Areas of 8 to 10 % fail: with ratio r, heights are uniform from sqrt(0.08 / r) to min(1, 1 / r).
    ratios = torch.linspace(3 / 4, 4 / 3, 2001, dtype=torch.float64)
    reach = torch.minimum(torch.ones_like(ratios), 1 / ratios)
    failing = ((0.1 / ratios).sqrt() - (0.08 / ratios).sqrt()) / (reach - (0.08 / ratios).sqrt())
    assert float(whole.double().mean()) == pytest.approx(float(failing.mean()), abs=0.008)
    assert float(flip.double().mean()) == pytest.approx(0.5, abs=0.015)


def test_a_failed_attempt_takes_the_central_square() -> None:
    crops = random_crops(3000, (40, 60), seeded())
    failed = (crops.height == 40) & (crops.width == 40) & (crops.left == 10)
    assert 0.01 < float(failed.double().mean()) < 0.12


@pytest.mark.parametrize("change", [published_train, recommended])
def test_what_is_drawn_depends_on_place_and_generator_only(change: object) -> None:
    assert callable(change)
    images = noise(5)
    whole = change(images, seeded(3))
    torch.testing.assert_close(change(images, seeded(3)), whole, atol=0, rtol=0)
    torch.testing.assert_close(change(images[:2], seeded(3)), whole[:2], atol=1e-6, rtol=0)
    other = change(torch.cat([1 - images[:1], images[1:]]), seeded(3))
    torch.testing.assert_close(other[1:], whole[1:], atol=1e-6, rtol=0)
    assert not torch.equal(change(images, seeded(4)), whole)


@pytest.mark.parametrize("change", [published_train, recommended])
def test_neither_the_images_nor_torchs_own_generator_change(change: object) -> None:
    assert callable(change)
    images, state = noise(), torch.get_rng_state()
    before = images.clone()
    change(images, seeded())
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)


def test_recommended_moves_as_padding_by_reflection_and_cropping_does() -> None:
    image = torch.arange(64.0).reshape(1, 1, 8, 8)
    padded = torch.nn.functional.pad(image, (2, 2, 2, 2), mode="reflect")
    allowed = {
        (flip, top, left): (tv.hflip(padded) if flip else padded)[..., top : top + 8, left : left + 8]
        for flip in (False, True)
        for top in range(5)
        for left in range(5)
    }
    seen = set()
    for seed in range(400):
        moved = recommended(image, seeded(seed), flip=True, pad=2)
        matching = [place for place, window in allowed.items() if torch.equal(window, moved)]
        assert len(matching) == 1
        seen.update(matching)
    assert seen == set(allowed)


def test_recommended_never_mirrors_unless_told() -> None:
    image = torch.arange(16.0).expand(1, 1, 16, 16)
    for seed in range(20):
        moved = recommended(image, seeded(seed), pad=0)
        assert torch.equal(moved, image)
    assert any(not torch.equal(recommended(image, seeded(s), flip=True, pad=0), image) for s in range(20))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), side=st.integers(8, 40), flip=st.booleans())
def test_removing_before_or_after_recommended_is_the_same(seed: int, side: int, flip: bool) -> None:
    images, fill = noise(2, side), torch.tensor([0.2, 0.4, 0.6])[:, None, None]
    removed = torch.rand(2, 1, side, side, generator=seeded(seed)) < 0.5
    before = recommended(torch.where(removed, fill, images), seeded(seed), flip=flip)
    moved = recommended(removed, seeded(seed), flip=flip)
    after = torch.where(moved, fill, recommended(images, seeded(seed), flip=flip))
    assert moved.dtype == torch.bool
    assert torch.equal(before, after)


def test_the_published_way_mixes_removed_and_kept_pixels_and_the_separate_way_does_not() -> None:
    images, fill = torch.ones(8, 3, 32, 32), torch.zeros(3)
    removed = torch.rand(8, 1, 32, 32, generator=seeded()) < 0.5
    mixed = published_train(torch.where(removed, fill[:, None, None], images), seeded(1))
    apart = separate_train(images, removed, fill, seeded(1))
    assert bool(((mixed > 0.1) & (mixed < 0.9)).any())
    zeros, ones = torch.isclose(apart, torch.zeros(())), torch.isclose(apart, torch.ones(()))
    assert bool((zeros | ones).all())
    assert 0.3 < float(zeros.double().mean()) < 0.7


def test_masks_are_resized_to_the_nearest_pixel() -> None:
    mask = torch.zeros(1, 1, 8, 8, dtype=torch.bool)
    mask[..., 2:4, 4:6] = True
    half = resample_nearest(mask, crops_of((0, 0, 8, 8, False)), 16)
    expected = mask.repeat_interleave(2, -1).repeat_interleave(2, -2)
    assert torch.equal(half, expected)
    mirrored = resample_nearest(mask, crops_of((0, 0, 8, 8, True)), 16)
    assert torch.equal(mirrored, expected.flip(-1))


def test_half_precision_elsewhere_does_not_change_the_fill() -> None:
    images = torch.full((2, 3, 32, 32), 0.485)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = published_eval(images)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result, images, atol=1e-6, rtol=0)


@pytest.mark.parametrize("pad", [-1, 8])
def test_a_padding_that_does_not_fit_is_refused(pad: int) -> None:
    with pytest.raises(ValueError, match=rf"8 x 8 pixels by {pad}; allowed: 0 to 7"):
        recommended(noise(1, 8), seeded(), pad=pad)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("change", [published_train, recommended])
def test_changes_on_a_gpu_are_those_on_the_cpu(change: object) -> None:
    assert callable(change)
    images = noise(4)
    moved = change(images.cuda(), seeded(2))
    assert moved.is_cuda
    torch.testing.assert_close(moved.cpu(), change(images, seeded(2)), atol=1e-5, rtol=0)
