"""LIME: a linear model of the score in terms of which superpixels are kept."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from heatcheck.attribution.fills import Behind, Fill, behind
from heatcheck.attribution.passes import (
    Count,
    NotNegative,
    Output,
    Piece,
    Positive,
    Query,
    forward_scores,
    forward_size,
    stream,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.attribution.superpixels import SlicOptions, superpixels
from heatcheck.attribution.superpixels import superpixel_means as superpixel_means
from heatcheck.removal.color import from_colors, round_to_bytes, to_colors
from heatcheck.runtime.seeds import CounterGenerator


@register(
    "lime",
    family="perturbation",
    cites="ribeiro2016why",
    variants={"lime-g": {"fill": "pushpull"}},
    variant_cites={"lime-g": "agarwal2020explaining"},
)
def lime(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "probability",
    n_samples: Count = 500,
    n_segments: Count = 50,
    compactness: Positive = 30.0,
    sigma: NotNegative = 3.0,
    kernel_width: Positive = 0.25,
    alpha: NotNegative = 1.0,
    fill: Literal["superpixel-mean"] | Fill = "zero",
    fill_options: dict[str, Any] | None = None,
    mean: tuple[float, ...] | None = None,
    std: tuple[Positive, ...] | None = None,
    quantize: bool = False,
) -> Tensor:
    """Weight of each superpixel in a ridge regression on which of them are kept, ``(N, 1, H, W)``.

    Ribeiro et al. 2016, with the choices of Agarwal and Nguyen 2020; every pixel of a superpixel gets
    its signed coefficient.

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Only its seed counts: images with the same number of superpixels see the same samples.
        output: Explained score.
        n_samples: Perturbed images per image; 10 per superpixel at least is a rule of thumb.
        n_segments: About how many superpixels.
        compactness: SLIC's weight of distance against colour.
        sigma: SLIC's smoothing in pixels.
        kernel_width: Width of the kernel that weighs samples by their distance.
        alpha: Strength of the ridge penalty.
        fill: What hidden superpixels show: ``zero``, their own mean colour, one number for all channels
            or each, in the space of the images, or the name of a removal operator, which is called with
            the hidden superpixels of each sample as the hole (LIME-G).
        fill_options: Options of the removal operator.
        mean: Normalization of the images, to segment them in their colours.
        std: Normalization of the images, to segment them in their colours.
        quantize: Round what the model sees to 8 bits, as the published LIME-G does; needs ``mean`` and
            ``std``.

    Raises:
        ValueError: Half a normalization is given, or none where ``quantize`` needs it.
    """
    query = Query(model, images, targets, forward_args, output)
    segments = superpixels(images, SlicOptions(n_segments, compactness, sigma, mean, std)).to(images.device)
    counts = segments.flatten(1).amax(dim=1) + 1 if len(images) else segments.new_zeros(0)
    seed = generator.seed if generator else 0
    bits = [sample_bits(seed, n_samples, int(count)) for count in counts]
    fills = (
        superpixel_means(images, segments)
        if fill == "superpixel-mean" and not fill_options
        else behind(fill, fill_options, images)
    )
    scores = perturbed_scores(query, segments, bits, fills, _rounding(mean, std) if quantize else None)
    coefficients = [
        fit_ridge(image_bits, image_scores, kernel_width=kernel_width, alpha=alpha)
        for image_bits, image_scores in zip(bits, scores.to("cpu", torch.float64), strict=True)
    ]
    maps = [weights.to(images.device)[labels] for weights, labels in zip(coefficients, segments, strict=True)]
    return torch.stack(maps)[:, None].to(wide(images).dtype) if maps else wide(images[:, :1])


def sample_bits(seed: int, n_samples: int, n_superpixels: int) -> Tensor:
    """Which superpixels each sample keeps, ``(n_samples, K)`` bool; sample 0 keeps all.

    The numbers are those of the reference implementation with its seed given: the legacy NumPy generator,
    row by row.
    """
    draws = np.random.RandomState(seed % 2**32).randint(0, 2, n_samples * n_superpixels)
    bits = torch.from_numpy(draws.reshape(n_samples, n_superpixels).astype(bool))
    bits[0] = True
    return bits


def perturbed_scores(
    query: Query,
    segments: Tensor,
    bits: list[Tensor],
    fill: Behind,
    rounded: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Score of every sample of every image, ``(N, S)``.

    Args:
        query: The batch.
        segments: ``(N, H, W)`` int64 superpixels.
        bits: For each image ``(S, K)``, which superpixels are kept; ``K`` differs between images.
        fill: What hidden superpixels show, ``(N, C, H, W)`` or broadcast to it, or a removal operator.
        rounded: What the model sees of the composites ``(n, C, H, W)``; None: themselves.
    """
    if not bits:
        return wide(query.images.new_zeros(0, 0))
    images, n_samples = query.images, len(bits[0])
    # A removal operator fills whole chunks afterwards; until then hidden pixels show the image.
    fills = fill.expand_as(images) if isinstance(fill, Tensor) else images
    most = max(image_bits.shape[1] for image_bits in bits)
    padded = torch.stack(
        [nn.functional.pad(image_bits, (0, most - image_bits.shape[1])) for image_bits in bits]
    )
    padded = padded.to(images.device)

    def kept(piece: Piece) -> Tensor:
        labels = segments[piece.rows]
        return padded[piece.rows, piece.step].gather(1, labels.flatten(1)).view(-1, 1, *labels.shape[-2:])

    def write(piece: Piece, place: Tensor) -> None:
        torch.where(kept(piece), images[piece.rows], fills[piece.rows], out=place)

    def finish(pieces: Sequence[Piece], chunk: Tensor) -> Tensor:
        if not isinstance(fill, Tensor):
            chunk = fill(chunk, torch.cat([kept(piece) for piece in pieces]))
        return rounded(chunk) if rounded else chunk

    scores, size = wide(images.new_empty(len(images), n_samples)), forward_size(query)
    for piece, values in stream(forward_scores, query, write, n_steps=n_samples, size=size, finish=finish):
        scores[piece.rows, piece.step] = values.to(scores.dtype)
    return scores


def _rounding(mean: tuple[float, ...] | None, std: tuple[float, ...] | None) -> Callable[[Tensor], Tensor]:
    """What rounds normalized images to 8 bits, clipped to black and white."""
    if mean is None or std is None:
        raise ValueError("quantize rounds colors to 8 bits: give the normalization, mean=(...) and std=(...)")

    def rounded(images: Tensor) -> Tensor:
        return from_colors(round_to_bytes(to_colors(images, mean, std)), mean, std)

    return rounded


def sample_weights(bits: Tensor, kernel_width: float) -> Tensor:
    """Weights ``(S,)`` of samples ``(S, K)`` by their cosine distance to the whole image, float64.

    ``w = sqrt(exp(-d**2 / width**2))`` with ``d = 1 - sqrt(kept / K)``.
    """
    distances = 1 - bits.double().mean(dim=1).sqrt()
    return torch.exp(-distances.square() / kernel_width**2).sqrt()


def fit_ridge(bits: Tensor, scores: Tensor, *, kernel_width: float, alpha: float) -> Tensor:
    """Coefficients ``(K,)`` of a weighted ridge regression with free intercept, float64.

    Minimises ``sum_s w_s (y_s - b - D_s beta)**2 + alpha |beta|**2`` in closed form.

    Args:
        bits: ``(S, K)`` which superpixels are kept.
        scores: ``(S,)``.
        kernel_width: See ``sample_weights``.
        alpha: Penalty.
    """
    weights = sample_weights(bits, kernel_width)[:, None]
    design, response = bits.double(), scores.double()[:, None]
    total = weights.sum()
    design = (design - (weights * design).sum(dim=0) / total) * weights.sqrt()
    response = (response - (weights * response).sum(dim=0) / total) * weights.sqrt()
    normal = design.T @ design + alpha * torch.eye(design.shape[1], dtype=torch.float64)
    # Without a penalty the equations may be singular; the solution of least norm is taken then.
    solution: Tensor = torch.linalg.lstsq(normal, design.T @ response, driver="gelsd").solution
    return solution[:, 0]
