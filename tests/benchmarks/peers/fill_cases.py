"""Fills of holes, per image: each against the library behind it, or against a plain loop over images."""

from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any, NamedTuple

import cv2
import numpy as np
import torch
from skimage.restoration import inpaint_biharmonic
from tests.benchmarks.peers.case import Answer, Case, Sides
from tests.benchmarks.peers.fill_peers import FOUR, ROAD, impute, pyramid
from tests.benchmarks.peers.inputs import make_pictures
from torch import Tensor

from heatcheck.removal.fills import get_fill, pushpull
from heatcheck.removal.segments import SlicOptions, superpixels

SIDE, N_IMAGES = 224, 4
HOLES = ("hole 29²", "hole 53²", "half the superpixels")
# The images are colors of 8 bits; told so, our OpenCV fills hand over the very bytes that the peer gets.
COLORS: dict[str, Any] = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
RADIUS = 3.0
# Standard deviation of the noise of noisy linear imputation.
NOISE = 0.01


class Hollow(NamedTuple):
    """Images with holes.

    Attributes:
        images: ``(N, 3, H, W)`` colors of 8 bits in [0, 1].
        holes: ``(N, 1, H, W)`` bool.
    """

    images: Tensor
    holes: Tensor


class Pairing(NamedTuple):
    """A fill of ours and whom it is compared with.

    Attributes:
        fill: Name of ours.
        options: Its options.
        peer: Who else fills the same holes.
        theirs: Makes the peer's call.
        tolerance: Largest difference allowed, as a share of the peer's largest value.
        n_images: Images per call.
        check: Makes the peer's call for the check of the answers, where it differs from the timed one.
    """

    fill: str
    options: dict[str, Any]
    peer: str
    theirs: Callable[[Hollow], Answer]
    tolerance: float
    n_images: int = N_IMAGES
    check: Callable[[Hollow], Answer] | None = None


def fill_cases() -> list[Case]:
    """All cases of fills, one per fill, peer and hole."""
    return [
        Case(
            f"fill {pairing.fill}, {hole}, {pairing.n_images} image(s) of {SIDE}²",
            pairing.peer,
            partial(_sides, pairing, hole),
            pairing.tolerance,
            n_images=pairing.n_images,
        )
        for pairing in _pairings()
        for hole in HOLES
    ]


def make_hollow(hole: str, n: int) -> Hollow:
    """``n`` images with holes of the kind ``hole``: a square in the middle, or half of the superpixels."""
    images = make_pictures(n, SIDE)
    holes = torch.zeros((n, 1, SIDE, SIDE), dtype=torch.bool)
    if hole == HOLES[2]:
        generator = torch.Generator().manual_seed(3)
        for row, labels in enumerate(superpixels(images, SlicOptions())):
            count = int(labels.max()) + 1
            hidden = torch.randperm(count, generator=generator)[: count // 2]
            holes[row, 0] = torch.isin(labels, hidden)
        return Hollow(images, holes)
    side = {HOLES[0]: 29, HOLES[1]: 53}[hole]
    start = (SIDE - side) // 2
    holes[..., start : start + side, start : start + side] = True
    return Hollow(images, holes)


def _pairings() -> list[Pairing]:
    scipy_four = "SciPy direct solve, 1 image at a time"
    road = "noisy linear imputation as in ROAD (8 neighbors), SciPy direct solve, 1 image at a time"
    opencv, biharmonic = f"OpenCV {cv2.__version__}", f"scikit-image {version('scikit-image')}"
    return [
        Pairing("pushpull", {}, "NumPy and SciPy pyramid, 1 image at a time", _call(pyramid), 1e-5),
        Pairing("diffusion", {}, scipy_four, _call(impute, stencil=FOUR), 1e-5),
        Pairing(
            "diffusion",
            {},
            road,
            _call(impute, stencil=ROAD, noise=NOISE),
            1e-5,
            check=_call(impute, stencil=FOUR),
        ),
        Pairing("telea", COLORS, opencv, partial(_opencv, method=cv2.INPAINT_TELEA), 1e-6),
        Pairing("ns", COLORS, opencv, partial(_opencv, method=cv2.INPAINT_NS), 1e-6),
        Pairing("biharmonic", {}, biharmonic, _biharmonic, 1e-5, n_images=1),
    ]


def _sides(pairing: Pairing, hole: str) -> Sides:
    hollow = make_hollow(hole, pairing.n_images)
    ours = partial(get_fill(pairing.fill, **pairing.options), hollow.images, ~hollow.holes)
    if pairing.check is None:
        return Sides(ours, pairing.theirs(hollow))
    same = pairing.check(hollow)
    return Sides(ours, pairing.theirs(hollow), lambda: (ours(), same()))


def _call(function: Callable[..., Tensor], **options: Any) -> Callable[[Hollow], Answer]:
    return lambda hollow: partial(function, hollow.images, hollow.holes, **options)


def _opencv(hollow: Hollow, *, method: int) -> Answer:
    """Call of OpenCV on pictures ``(H, W, 3)`` of bytes, there and back.

    OpenCV looks into a hole near the image's border. So that both sides look at the same, the peer's pictures
    have the pull-push fill there, as ours do; it is made beforehand and not in the peer's time.
    """
    prepared = pushpull(hollow.images, (~hollow.holes).float())
    pictures = (prepared * 255).round().byte().permute(0, 2, 3, 1).contiguous().numpy()
    masks = hollow.holes[:, 0].byte().numpy()

    def theirs() -> Tensor:
        painted = [
            cv2.inpaint(picture, mask, RADIUS, method) for picture, mask in zip(pictures, masks, strict=True)
        ]
        return torch.from_numpy(np.stack(painted)).permute(0, 3, 1, 2) / 255

    return theirs


def _biharmonic(hollow: Hollow) -> Answer:
    pictures = hollow.images.double().permute(0, 2, 3, 1).contiguous().numpy()
    holes = hollow.holes[:, 0].numpy()

    def theirs() -> Tensor:
        painted = [
            inpaint_biharmonic(picture, hole, channel_axis=-1)
            for picture, hole in zip(pictures, holes, strict=True)
        ]
        return torch.from_numpy(np.stack(painted)).permute(0, 3, 1, 2)

    return theirs
