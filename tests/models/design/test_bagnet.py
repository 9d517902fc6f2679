"""BagNets: what a window sees, and that the logits are the mean over windows."""

import pytest
import torch
from torch import Tensor

from heatcheck.models.design.bagnet import BagNet


def build(n_wide: int, *, small: bool = False) -> BagNet:
    torch.manual_seed(0)
    shape = {"depths": (2, 1, 1), "strides": (2, 2, 1)} if small else {"depths": (1, 1, 1, 1)}
    model = BagNet(4, n_wide=n_wide, width=4, expansion=2, **shape).double()
    for layer in model.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.running_mean = torch.randn_like(layer.weight.data)
    return model.eval()


def images(size: int, n: int = 1) -> Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


CASES = [
    (4, False, 33, 8),
    (3, False, 17, 8),
    (2, False, 9, 8),
    (3, True, 17, 4),
    (2, True, 9, 4),
    (1, True, 5, 4),
]


@pytest.mark.parametrize(("n_wide", "small", "window", "stride"), CASES)
def test_windows_have_the_stated_side_and_step(n_wide: int, small: bool, window: int, stride: int) -> None:
    model = build(n_wide, small=small)
    assert (model.receptive_field, model.stride) == (window, stride)
    size = window + 2 * stride
    maps = model.window_logits(images(size))
    assert maps.shape == (1, 4, 3, 3)


@pytest.mark.parametrize(("n_wide", "small", "window", "stride"), CASES)
def test_a_window_sees_its_own_pixels_and_no_others(
    n_wide: int, small: bool, window: int, stride: int
) -> None:
    model, size = build(n_wide, small=small), window + 2 * stride
    x = images(size)
    for row, column in ((0, 0), (1, 2)):
        own = model.window_logits(x)[0, :, row, column]
        inside = (
            slice(row * stride, row * stride + window),
            slice(column * stride, column * stride + window),
        )
        outside = torch.randn_like(x)
        outside[..., inside[0], inside[1]] = x[..., inside[0], inside[1]]
        torch.testing.assert_close(
            model.window_logits(outside)[0, :, row, column], own, rtol=1e-10, atol=1e-12
        )
        alone = model(x[..., inside[0], inside[1]])[0]
        torch.testing.assert_close(alone, own, rtol=1e-10, atol=1e-12)
        for corner in ((0, 0), (window - 1, window - 1)):
            changed = x.clone()
            changed[0, :, inside[0].start + corner[0], inside[1].start + corner[1]] += 5
            assert (model.window_logits(changed)[0, :, row, column] - own).abs().max() > 1e-12


def test_the_output_is_the_mean_over_windows() -> None:
    model, x = build(3, small=True), images(32, 2)
    torch.testing.assert_close(model(x), model.window_logits(x).mean((2, 3)), rtol=1e-10, atol=1e-12)


def test_an_image_of_224_pixels_has_24_windows_a_side_and_its_last_seven_rows_are_not_seen() -> None:
    model, x = build(4), images(224)
    with torch.no_grad():
        assert model.window_logits(x).shape[-2:] == (24, 24)
        hidden = x.clone()
        hidden[..., -7:, :] += 1
        hidden[..., :, -7:] -= 1
        assert torch.equal(model(hidden), model(x))
        hidden[..., -8, :] += 1
        assert not torch.equal(model(hidden), model(x))


def test_images_smaller_than_a_window_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(32, 40\) pixels are smaller than a window of 33"):
        build(4)(torch.zeros(1, 3, 32, 40, dtype=torch.float64))
