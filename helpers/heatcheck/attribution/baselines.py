"""Reference images that integrated gradients start from."""

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor
from torchvision.transforms.functional import gaussian_blur

from heatcheck.attribution.passes import channel_values
from heatcheck.runtime.seeds import CounterGenerator

BaselineName = Literal[
    "zero",
    "black",
    "white",
    "constant",
    "channel-mean",
    "mean-image",
    "mean-channel",
    "uniform",
    "gaussian",
    "blur",
    "reference",
]
RANDOM = ("uniform", "gaussian")
# Samples of the counter-based generator from here on are baselines; below are those of other methods.
_FIRST_SAMPLE = 1 << 40


class BaselineOptions(NamedTuple):
    """What the named baselines depend on.

    Attributes:
        value: Colour of ``constant`` in the space of the images, one number or one per channel.
        mean: Per-channel mean the images were normalized with; needed by ``black`` and ``white``.
        std: Per-channel standard deviation the images were normalized with; needed by both.
        noise_scale: Half-width of ``uniform``, standard deviation of ``gaussian``.
        shared_noise: The same noise for every image, drawn from the seed alone.
        blur_sigma: Standard deviation of ``blur`` in pixels.
        reference: The image ``(C, H, W)`` or images ``(N, C, H, W)`` of ``reference``.
        mean_image: Mean training image ``(C, H, W)`` in the space of the images; needed by ``mean-image``
            and ``mean-channel``.
    """

    value: float | tuple[float, ...] = 0.0
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    noise_scale: float = 1.0
    shared_noise: bool = False
    blur_sigma: float = 10.0
    reference: Tensor | None = None
    mean_image: Tensor | None = None


def baseline_draws(names: tuple[BaselineName, ...], n_baselines: int) -> list[tuple[BaselineName, int]]:
    """Baselines to average over: every fixed one once, every random one ``n_baselines`` times.

    Raises:
        ValueError: No name is given, or several draws are asked for and no baseline is random.
    """
    if not names:
        raise ValueError("no baseline given; name at least one")
    if n_baselines > 1 and not set(names) & set(RANDOM):
        raise ValueError(
            f"n_baselines is {n_baselines}, but {', '.join(names)} is always the same image; "
            f"use n_baselines=1, several names, or one of {', '.join(RANDOM)}"
        )
    return [(name, draw) for name in names for draw in range(n_baselines if name in RANDOM else 1)]


def make_baseline(
    name: BaselineName, images: Tensor, options: BaselineOptions, *, draw: int, generator: CounterGenerator
) -> Tensor:
    """Baseline ``(N, C, H, W)`` of ``images``, possibly broadcast.

    ``zero`` is the mean colour of normalized images. ``black`` and ``white`` are 0 and 1 before
    normalization. ``channel-mean`` is each image's own mean per channel; ``mean-image`` is the mean training
    image and ``mean-channel`` its mean per channel (Arras et al. 2022). ``uniform`` is in
    ``[-noise_scale, noise_scale)``, ``gaussian`` has mean 0; both are drawn per (seed, image, draw), or
    per (seed, draw) if shared. ``blur`` is the image under a Gaussian with reflected borders.

    Raises:
        ValueError: The baseline needs an option that is missing or does not fit the images.
    """
    if name in RANDOM:
        return _noise(name, images, options, draw, generator)
    if name == "blur":
        with torch.no_grad():
            return gaussian_blurred(images, options.blur_sigma)
    if name == "channel-mean":
        return images.mean(dim=(2, 3), keepdim=True).expand_as(images)
    if name in ("reference", "mean-image", "mean-channel"):
        return _given(name, images, options)
    if name in ("black", "white"):
        return _level(name, images, options).expand_as(images)
    return channel_values(options.value if name == "constant" else 0.0, images).expand_as(images)


def _noise(
    name: BaselineName, images: Tensor, options: BaselineOptions, draw: int, generator: CounterGenerator
) -> Tensor:
    source, like = generator, images
    if options.shared_noise:
        source, like = CounterGenerator(generator.seed, (0,)), images.new_empty(1, *images.shape[1:])
    sample = _FIRST_SAMPLE + draw
    noise = source.normal(sample, like) if name == "gaussian" else 2 * source.uniform(sample, like) - 1
    return (options.noise_scale * noise).to(images.dtype).expand_as(images)


def _level(name: BaselineName, images: Tensor, options: BaselineOptions) -> Tensor:
    if options.mean is None or options.std is None:
        raise ValueError(
            f"baseline {name!r} needs the normalization of the images: give mean=(...) and std=(...)"
        )
    mean, std = channel_values(options.mean, images), channel_values(options.std, images)
    return ((1.0 if name == "white" else 0.0) - mean) / std


def _given(name: BaselineName, images: Tensor, options: BaselineOptions) -> Tensor:
    option = "reference" if name == "reference" else "mean_image"
    given: Tensor | None = getattr(options, option)
    if given is None or given.shape not in (images.shape[1:], images.shape):
        found = "nothing" if given is None else tuple(given.shape)
        raise ValueError(
            f"baseline {name!r} needs {option}=Tensor of shape {tuple(images.shape[1:])}, got {found}"
        )
    start = given.to(images).expand_as(images)
    return start.mean(dim=(2, 3), keepdim=True).expand_as(images) if name == "mean-channel" else start


def gaussian_blurred(images: Tensor, sigma: float) -> Tensor:
    """Images ``(N, C, H, W)`` under a Gaussian of standard deviation ``sigma`` pixels, borders reflected."""
    # Reflection reaches at most one image further, so the kernel is cut there.
    down, across = (2 * min(math.ceil(3 * sigma), side - 1) + 1 for side in images.shape[2:])
    # The kernel is an outer product, so two passes in one direction each do the work of all its taps.
    blurred: Tensor = gaussian_blur(gaussian_blur(images, [across, 1], sigma), [1, down], sigma)
    return blurred
