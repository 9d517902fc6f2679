"""SmoothGrad, SmoothGrad-Squared and VarGrad over any base method, from one streaming pass."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.attribution.passes import Count, NotNegative, Piece, Query, backward_size, stream, wide
from heatcheck.attribution.registry import check_options, get_method, register
from heatcheck.runtime.seeds import CounterGenerator

NoiseKind = Literal["relative", "absolute"]


class Smoothed(NamedTuple):
    """Statistics of a base method's maps over noisy copies of the image, each ``(N, C or 1, H, W)``.

    ``mean`` is SmoothGrad, ``mean_square`` SmoothGrad-Squared, ``variance`` VarGrad (population
    variance, never negative); ``mean_square = variance + mean**2`` exactly.
    """

    mean: Tensor
    mean_square: Tensor
    variance: Tensor


class Noise(NamedTuple):
    """How the noisy copies are made.

    Attributes:
        n_samples: Number of copies.
        scale: Standard deviation, as a share of the image's range or in the space of the images.
        kind: ``relative`` to ``max(x) - min(x)`` of the single image, or ``absolute``.
        last_clean: The last copy is the image itself.
    """

    n_samples: int = 25
    scale: float = 0.15
    kind: NoiseKind = "relative"
    last_clean: bool = False


def smoothing_family(
    base: str,
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    noise: Noise | None = None,
    base_options: Mapping[str, Any] | None = None,
) -> Smoothed:
    """Mean, mean square and variance of the maps of ``base``, for the cost of one of them.

    The copies are ``x + e_j`` with ``e_j ~ N(0, sigma**2)``, not clipped, drawn per (seed, image, j), so
    every base sees the same copies. Mean and squared deviations are updated copy by copy (Welford 1962):
    memory does not grow with their number, and no difference of large numbers is taken.

    Args:
        base: Any registered method but one of this family.
        model: Classifier in evaluation mode; see ``untouched``.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model, repeated with the copies.
        generator: Random numbers.
        noise: How many copies and how noisy.
        base_options: Options of ``base``.

    Raises:
        ValueError: ``base`` is unknown, smooths itself, or its options are not allowed.
    """
    entry = get_method(base)
    if entry.family == "smoothing":
        raise ValueError(f"base {base!r} smooths itself; choose another base")
    values = check_options(base, base_options or {})
    noise = noise or Noise()
    generator = generator or CounterGenerator.for_images(images)
    query = Query(model, images, targets, forward_args, generator=generator)

    sigma = noise_deviation(images, noise)

    def write(piece: Piece, place: Tensor) -> None:
        if noise.last_clean and piece.step == noise.n_samples - 1:
            place.copy_(images[piece.rows])
            return
        draws = generator.take(piece.rows).normal(piece.step, place).to(place.dtype)
        torch.addcmul(images[piece.rows], sigma[piece.rows], draws, out=place)

    def maps_of(part: Query) -> Tensor:
        _, copies, classes, extras, _, numbers = part
        maps = entry.function(model, copies, classes, forward_args=extras, generator=numbers, **values)
        return wide(maps)

    return _statistics(
        stream(maps_of, query, write, n_steps=noise.n_samples, size=backward_size(query)), images
    )


def noise_deviation(images: Tensor, noise: Noise) -> Tensor:
    """Standard deviation of the noise for each image, ``(N, 1, 1, 1)``."""
    sigma = images.new_full((len(images), 1, 1, 1), noise.scale)
    if noise.kind == "relative":
        sigma *= images.amax(dim=(1, 2, 3), keepdim=True) - images.amin(dim=(1, 2, 3), keepdim=True)
    return sigma


class Running(NamedTuple):
    """Statistics while the maps come in: their mean, and the sum of their squared deviations from it."""

    mean: Tensor
    deviations: Tensor


def add_maps(running: Running, maps: Tensor, n_before: int, rows: slice = slice(None)) -> None:
    """Count the images' next maps in, into ``running`` itself (Welford 1962).

    Args:
        running: Statistics so far, ``(N, C, H, W)``; zeros before the first maps.
        maps: One further map for each of the images at ``rows``.
        n_before: Maps of these images that were counted already.
        rows: Images the maps belong to.
    """
    change = maps - running.mean[rows]
    running.mean[rows].add_(change, alpha=1 / (n_before + 1))
    # A square times a positive number: rounding cannot make the sum negative.
    running.deviations[rows].addcmul_(change, change, value=n_before / (n_before + 1))


def smoothed(running: Running, n_samples: int) -> Smoothed:
    """The three statistics of ``n_samples`` maps per image."""
    variance = running.deviations / n_samples
    return Smoothed(running.mean, variance + running.mean.square(), variance)


def _statistics(samples: Iterable[tuple[Piece, Tensor]], images: Tensor) -> Smoothed:
    running = Running(*(torch.zeros_like(wide(images)) for _ in range(2)))
    n_samples = 1
    for piece, maps in samples:
        if piece.step == 0 and piece.rows.start == 0:
            running = Running(*(maps.new_zeros(len(images), *maps.shape[1:]) for _ in range(2)))
        add_maps(running, maps, piece.step, piece.rows)
        n_samples = piece.step + 1
    return smoothed(running, n_samples)


@register("smoothgrad", family="smoothing", cites="smilkov2017smoothgrad")
def smoothgrad(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    base: str = "gradient",
    base_options: dict[str, Any] | None = None,
    n_samples: Count = 25,
    noise_scale: NotNegative = 0.15,
    noise: NoiseKind = "relative",
    last_clean: bool = False,
) -> Tensor:
    """Mean of the base method's maps over noisy copies of the image (Smilkov et al. 2017).

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Random numbers.
        base: Method that is averaged, any but those of this family.
        base_options: Options of the base method.
        n_samples: Noisy copies per image.
        noise_scale: Standard deviation of the noise.
        noise: Whether ``noise_scale`` is a share of each image's range or in the space of the images.
        last_clean: The last copy has no noise.
    """
    return smoothing_family(
        base,
        model,
        images,
        targets,
        forward_args=forward_args,
        generator=generator,
        noise=Noise(n_samples, noise_scale, noise, last_clean),
        base_options=base_options,
    ).mean


@register("smoothgrad-squared", family="smoothing", cites="hooker2019benchmark")
def smoothgrad_squared(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    base: str = "gradient",
    base_options: dict[str, Any] | None = None,
    n_samples: Count = 25,
    noise_scale: NotNegative = 0.15,
    noise: NoiseKind = "relative",
    last_clean: bool = False,
) -> Tensor:
    """Mean of the squared maps over noisy copies (Hooker et al. 2019); options as ``smoothgrad``."""
    return smoothing_family(
        base,
        model,
        images,
        targets,
        forward_args=forward_args,
        generator=generator,
        noise=Noise(n_samples, noise_scale, noise, last_clean),
        base_options=base_options,
    ).mean_square


@register("vargrad", family="smoothing", cites="adebayo2018sanity")
def vargrad(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    base: str = "gradient",
    base_options: dict[str, Any] | None = None,
    n_samples: Count = 25,
    noise_scale: NotNegative = 0.15,
    noise: NoiseKind = "relative",
    last_clean: bool = False,
) -> Tensor:
    """Population variance of the maps over noisy copies (Adebayo et al. 2018); options as ``smoothgrad``."""
    return smoothing_family(
        base,
        model,
        images,
        targets,
        forward_args=forward_args,
        generator=generator,
        noise=Noise(n_samples, noise_scale, noise, last_clean),
        base_options=base_options,
    ).variance
