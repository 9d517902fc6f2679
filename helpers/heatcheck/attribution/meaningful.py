"""Meaningful perturbation: the smallest smooth mask that takes the evidence for a class away."""

from typing import Annotated, Any, Literal

import pydantic
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.attribution.baselines import gaussian_blurred
from heatcheck.attribution.fills import Behind, Fill, behind
from heatcheck.attribution.mask_search import Kept, Objective, Scene, circular_start, mask_draws, search_masks
from heatcheck.attribution.masks import Padding, eight_bit_blur, over_image, with_surround
from heatcheck.attribution.passes import (
    Count,
    NotNegative,
    Output,
    Piece,
    Positive,
    Query,
    backward_size,
    class_scores,
    forward_size,
    in_chunks,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.runtime.memory import map_chunks
from heatcheck.runtime.seeds import CounterGenerator

Init = Literal["random", "circular", "ones"]
MaskUpsample = Literal["bilinear", "nearest", "nearest-blur"]
# Lengths of the published settings are in pixels of images with this side, and scale with the image.
_PUBLISHED_SIDE = 224
_PUBLISHED_CELLS = 28


@register(
    "meaningful-perturbation",
    family="perturbation",
    cites="fong2017interpretable",
    variants={
        "meaningful-perturbation-g": {"fill": "pushpull", "binary": True},
        "mp-fong": {"l1": 1e-3, "beta": 2.0, "n_top": 5, "mask_blur": 5.0},
    },
    variant_cites={"meaningful-perturbation-g": "agarwal2020explaining"},
)
def meaningful_perturbation(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "probability",
    n_iterations: Annotated[int, pydantic.Field(ge=0, le=100_000)] = 300,
    learning_rate: Positive = 0.1,
    mask_size: Count | None = None,
    init: Init = "random",
    l1: NotNegative = 1e-4,
    tv: NotNegative = 1e-2,
    beta: Annotated[float, pydantic.Field(ge=1)] = 3.0,
    reg_scale: Literal["fixed", "per_area"] = "fixed",
    jitter: Annotated[int, pydantic.Field(ge=0, le=256)] = 4,
    padding: Padding = "reflect",
    fill: Literal["gaussian"] | Fill = "gaussian",
    fill_options: dict[str, Any] | None = None,
    blur_radius: Positive = 10.0,
    kept: Kept = "resampled",
    binary: bool = False,
    mask_blur: NotNegative = 0.0,
    n_top: Count | None = None,
    upsample: MaskUpsample = "bilinear",
) -> Tensor:
    """One minus the mask that lowers the score most for its size and roughness, ``(N, 1, H, W)`` in [0, 1].

    Minimizes ``l1 sum |1 - m| + tv sum |m - neighbour|**beta + p_c(m x + (1 - m) b)`` over the cells of a
    coarse mask ``m`` (Fong and Vedaldi 2017, eq. 3 and 5) with Adam, clamped to [0, 1] after each step.
    With a removal operator that looks at the mask, ``b`` is made anew in every iteration (MP-G, Agarwal and
    Nguyen 2020). With no iterations the map is one minus the initial mask.

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Random numbers; one stream per image gives the initial mask, then a shift per iteration.
        output: Explained score.
        n_iterations: Steps of Adam.
        learning_rate: Of Adam.
        mask_size: Cells per side of the mask; by default an eighth of the image's shorter side, 28 at 224.
        init: Initial mask: ``random`` numbers in [0, 1), ``ones``, or ``circular``, the smallest blurred
            disc that removes 99 % of what the largest removes.
        l1: Weight of the removed area.
        tv: Weight of the roughness.
        beta: Exponent of the roughness.
        reg_scale: ``fixed`` sums over the cells, so that finer masks are penalized more; ``per_area``
            multiplies ``l1`` by ``(28 / mask_size)**2`` and ``tv`` by ``28 / mask_size``.
        jitter: Each iteration shifts image and fill by one of ``jitter`` pixels either way: it sees a window
            of an image that is larger by ``jitter`` pixels.
        padding: Those pixels are not in ``images`` and are invented: mirrored, or the outermost repeated.
        fill: ``gaussian`` is the image blurred with ``blur_radius``; else as in ``sliding-patch``.
        fill_options: Options of the removal operator.
        blur_radius: Standard deviation in pixels of an image of side 224, scaled with the shorter side. The
            authors blur before they resize: for an original of shorter side ``s``, that is ``2560 / s``.
        kept: What stands behind a kept pixel that a removal operator hands back as it was. ``exact``: the
            pixel itself, so that nothing would change if it were removed: the score sends no gradient to
            the cells of kept pixels, and only the mask's smoothness can remove what is kept.
            ``resampled``: the pixel as it comes back from the published inpainter, which works on 8/7 of
            the side; the detail that is lost on the way gives the gradient.
        binary: The model sees the mask as zeros and ones; gradients pass as if it did not.
        mask_blur: Standard deviation of a Gaussian over the enlarged mask, scaled like ``blur_radius``.
        n_top: Explain the sum of the scores of the ``n_top`` classes that score best on the whole image
            instead of the target.
        upsample: How ``1 - m`` becomes a map; ``nearest-blur`` blurs the enlarged mask in 8 bits by a
            pixel (Bansal et al. 2020).

    Raises:
        ValueError: The mask is finer than the image, or ``n_top`` leaves no class out.
    """
    height, width = (int(side) for side in images.shape[-2:])
    cells = _cells(mask_size, min(height, width))
    if not len(images):
        return wide(images[:, :1])
    scale = _PUBLISHED_CELLS / cells if reg_scale == "per_area" else 1.0
    unit = min(height, width) / _PUBLISHED_SIDE
    objective = Objective(l1 * scale**2, tv * scale, beta, binary, mask_blur * unit)
    generator = generator or CounterGenerator.for_images(images)
    query = Query(model, images, targets, forward_args, output, generator)
    classes = _classes(query, n_top)

    def search(part: slice) -> Tensor:
        some = query.at([Piece(0, part)], with_surround(images[part], jitter, padding))
        hidden = _hidden(fill, fill_options, some.images, blur_radius * unit)
        scene = Scene(some, classes[part], hidden, (height, width), kept)
        assert some.generator is not None
        start, corners = mask_draws(some.generator, cells, n_iterations, jitter)
        if init != "random":
            ones = torch.ones_like(start)
            start = ones if init == "ones" else circular_start(scene, cells, jitter // 2)
        dtype = wide(images).dtype
        for mask in search_masks(scene, start.to(images.device, dtype), corners, objective, learning_rate):
            last = mask
        return last

    masks = torch.cat([found for _, found in map_chunks(search, len(images), backward_size(query))])
    return mask_maps(masks, (height, width), upsample)


def mask_maps(masks: Tensor, size: tuple[int, int], upsample: MaskUpsample) -> Tensor:
    """Heatmaps ``(N, 1, *size)`` of masks ``(N, 1, R, R)``: ``1 - m``, enlarged.

    Args:
        masks: In [0, 1], 1 keeps.
        size: Height and width.
        upsample: See ``meaningful_perturbation``.
    """
    if upsample == "bilinear":
        return F.interpolate(1 - masks, size=size, mode="bilinear", align_corners=False)
    large = over_image(masks, size)
    return 1 - (eight_bit_blur(large, 1.0) if upsample == "nearest-blur" else large)


def _cells(mask_size: int | None, side: int) -> int:
    if mask_size is not None and mask_size > side:
        raise ValueError(
            f"mask_size {mask_size} is finer than the image, {side} pixels; use 1 to {side}, or None for an "
            f"eighth of it"
        )
    return mask_size or max(1, round(side * _PUBLISHED_CELLS / _PUBLISHED_SIDE))


def _classes(query: Query, n_top: int | None) -> Tensor:
    """Classes ``(N, k)`` whose scores are added up."""
    if n_top is None:
        return query.targets.to(query.images.device)[:, None]

    def scores(some: Query) -> Tensor:
        with torch.no_grad():
            return class_scores(some)

    found = in_chunks(scores, query, forward_size(query))
    n_classes = found.shape[1]
    if n_top >= n_classes:
        raise ValueError(
            f"n_top {n_top} leaves out none of the model's {n_classes} classes; use 1 to {n_classes - 1}"
        )
    return found.topk(n_top, dim=1).indices


def _hidden(
    fill: Literal["gaussian"] | Fill, fill_options: dict[str, Any] | None, images: Tensor, sigma: float
) -> Behind:
    if fill != "gaussian":
        hidden = behind(fill, fill_options, images)
        return hidden.expand_as(images) if isinstance(hidden, Tensor) else hidden
    if fill_options:
        raise ValueError("fill_options belong to a removal operator; set blur_radius for the fill 'gaussian'")
    return gaussian_blurred(images, sigma)
