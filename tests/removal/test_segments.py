"""The mean color of superpixels as a removal operator."""

import torch
from torch import Tensor

from heatcheck.removal.fills import get_fill
from heatcheck.removal.segments import SlicOptions, superpixel_means, superpixels


def quarters(*, noise: float = 0.0) -> Tensor:
    """Image ``(1, 3, 24, 24)`` of four colors, one per quarter."""
    colors = torch.tensor([[0.9, 0.1], [0.2, 0.7]]).repeat_interleave(12, 0).repeat_interleave(12, 1)
    image = torch.stack([colors, 1 - colors, colors.T])[None]
    return image + noise * torch.randn(1, 3, 24, 24, generator=torch.Generator().manual_seed(0))


def test_flat_superpixels_stay_as_they_are() -> None:
    fill = get_fill("superpixel-mean", n_segments=4, sigma=0.0)
    torch.testing.assert_close(fill.substrate(quarters()), quarters())


def test_every_superpixel_takes_its_mean() -> None:
    images = quarters(noise=0.02)
    segments = superpixels(images, SlicOptions(n_segments=4, sigma=0.0))
    found = get_fill("superpixel-mean", n_segments=4, sigma=0.0).substrate(images)
    assert int(segments.max()) >= 1
    for label in range(int(segments.max()) + 1):
        where = segments[0] == label
        expected = images[0][:, where].mean(1, keepdim=True).expand(3, int(where.sum()))
        torch.testing.assert_close(found[0][:, where], expected)


def test_its_options_are_those_of_the_segmentation() -> None:
    images = quarters(noise=0.05)
    options = SlicOptions(9, 10.0, 1.0, (0.5, 0.4, 0.3), (0.2, 0.2, 0.1))
    expected = superpixel_means(images, superpixels(images, options))
    found = get_fill("superpixel-mean", **options._asdict()).substrate(images)
    torch.testing.assert_close(found, expected)
