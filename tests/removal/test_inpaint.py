"""OpenCV and scikit-image as removal operators."""

import sys
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from skimage.restoration import inpaint_biharmonic
from torch import Tensor

from heatcheck.removal.fills import get_fill

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
METHODS = {"telea": cv2.INPAINT_TELEA, "ns": cv2.INPAINT_NS}
each_method = pytest.mark.parametrize("name", METHODS)


@pytest.fixture
def photograph() -> Tensor:
    """8-bit picture ``(3, 20, 24)`` with soft shapes."""
    y, x = np.mgrid[:20, :24]
    waves = [np.sin(x / 5 + c) * np.cos(y / (3 + c)) for c in range(3)]
    return torch.from_numpy(((np.stack(waves) + 1) * 127).round()).byte()


@pytest.fixture
def patch() -> Tensor:
    """Keep mask ``(1, 1, 20, 24)`` without a patch that stays away from the border."""
    mask = torch.ones(1, 1, 20, 24, dtype=torch.bool)
    mask[..., 5:13, 6:16] = False
    return mask


def normalized(pictures: Tensor) -> Tensor:
    return (pictures.double() / 255 - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


@each_method
@pytest.mark.parametrize("radius", [3.0, 5.0])
def test_with_the_normalization_it_is_opencvs_answer_for_the_photograph(
    name: str, radius: float, photograph: Tensor, patch: Tensor
) -> None:
    fill = get_fill(name, radius=radius, mean=MEAN, std=STD)
    found = fill(normalized(photograph)[None], patch)[0]
    hole = (~patch[0, 0]).byte().numpy()
    expected = cv2.inpaint(photograph.permute(1, 2, 0).numpy().copy(), hole, radius, METHODS[name])
    torch.testing.assert_close(found, normalized(torch.from_numpy(expected).permute(2, 0, 1)))


@each_method
def test_without_it_each_channel_spans_all_levels(name: str, photograph: Tensor, patch: Tensor) -> None:
    images = photograph[None].double()
    found = get_fill(name)(images, patch)
    # A quarter of the contrast, elsewhere: the levels are the same, so the answer is.
    moved = get_fill(name)(images / 4 - 7, patch)
    torch.testing.assert_close(moved, found / 4 - 7)
    direct = get_fill(name, mean=(0.0,) * 3, std=(1.0,) * 3)(images / 255, patch) * 255
    torch.testing.assert_close(found, direct, rtol=0, atol=4)


@each_method
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_any_number_of_channels_is_painted_one_by_one(name: str, channels: int, patch: Tensor) -> None:
    images = torch.rand(1, channels, 20, 24, generator=torch.Generator().manual_seed(0))
    together = get_fill(name)(images, patch)
    for channel in range(channels):
        alone = get_fill(name)(images[:, channel : channel + 1], patch)
        torch.testing.assert_close(together[:, channel : channel + 1], alone)
    three = torch.cat([images, images, images], 1)[:, :3]
    torch.testing.assert_close(get_fill(name)(three, patch)[:, :1], together[:, :1])


@each_method
def test_a_hole_at_the_border_shows_nothing_of_what_was_removed(name: str, photograph: Tensor) -> None:
    keep = torch.ones(1, 1, 20, 24, dtype=torch.bool)
    keep[..., :12, :15] = False
    images = photograph[None].float()
    other = torch.where(keep, images, 255 - images)
    # OpenCV itself gives two answers here.
    hole = (~keep[0, 0]).byte().numpy()
    answers = [
        cv2.inpaint(pictures[0].byte().permute(1, 2, 0).numpy().copy(), hole, 3, METHODS[name])
        for pictures in (images, other)
    ]
    assert (answers[0] != answers[1]).any()
    assert torch.equal(get_fill(name)(images, keep), get_fill(name)(other, keep))


@each_method
def test_half_a_normalization_is_refused(name: str, photograph: Tensor, patch: Tensor) -> None:
    with pytest.raises(ValueError, match="give both or none"):
        get_fill(name, mean=MEAN)(photograph[None].float(), patch)


@each_method
def test_without_opencv_the_message_says_what_to_install(
    name: str, photograph: Tensor, patch: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(ImportError, match=r"need OpenCV.*pip install 'heatcheck\[inpaint\]'"):
        get_fill(name)(photograph[None].float(), patch)


def test_biharmonic_is_scikit_images(photograph: Tensor, patch: Tensor) -> None:
    images = normalized(photograph)[None]
    picture: Any = images[0].permute(1, 2, 0).numpy()
    expected = inpaint_biharmonic(picture, ~patch[0, 0].numpy(), channel_axis=-1)
    found = get_fill("biharmonic")(images, patch)[0].permute(1, 2, 0)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-12)
