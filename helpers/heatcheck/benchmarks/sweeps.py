"""The sweeps of the robustness experiment: which hyperparameter of which method takes which values.

Values come from Bansal, Agarwal and Nguyen (2020), "SAM: The Sensitivity of Attribution Methods to
Hyperparameters", and from the code of Agarwal and Nguyen (2020); the notes say which are of this book.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

Value = int | float | str
# What is varied where it is no option of the method.
NOISE = "input noise"
SEED = "seed"
# Lengths are in pixels, or cells, of an image of this side.
PUBLISHED_SIDE = 224


class Sweep(NamedTuple):
    """Settings of one hyperparameter, for a method and its generative variant alike.

    Attributes:
        name: Name that presets choose it by.
        method: Base method.
        generative: Variant that fills holes with an inpainter; None where it lacks the hyperparameter, so
            that nothing can be compared.
        hyperparameter: An option of the method; ``input noise``: the variance of Gaussian noise on images
            in [0, 1], clipped; or ``seed``, which is added to the seed of the run.
        values: All settings, the reference among them.
        reference: The one that all others are compared with.
        is_length: Whether values are lengths at a side of 224, which scale with the image's.
        signed: Whether the method's maps have a sign; it decides the data range of SSIM.
    """

    name: str
    method: str
    generative: str | None
    hyperparameter: str
    values: tuple[Value, ...]
    reference: Value
    is_length: bool = False
    signed: bool = True

    @property
    def varied(self) -> tuple[Value, ...]:
        """The values that are compared with the reference."""
        return tuple(value for value in self.values if value != self.reference)


_SP = ("sliding-patch", "sliding-patch-g")
_LIME = ("lime", "lime-g")
_MP = ("meaningful-perturbation", "meaningful-perturbation-g")

SWEEPS: dict[str, Sweep] = {
    sweep.name: sweep
    for sweep in (
        Sweep("patch-size", *_SP, "patch", (5, 17, 29, 41, 53), 29, is_length=True),
        Sweep("small-patch-size", *_SP, "patch", (5, 6, 7), 6, is_length=True),
        Sweep("large-patch-size", *_SP, "patch", (52, 53, 54), 53, is_length=True),
        # Published with one stride only; twice and four times it are this book's.
        Sweep("stride", *_SP, "stride", (3, 6, 12), 3, is_length=True),
        Sweep("patch-noise", *_SP, NOISE, (0.0, 0.1), 0.0),
        # Numbers of superpixels and samples are no lengths: they are the same for every image size. 150
        # superpixels are this book's.
        Sweep("superpixels", *_LIME, "n_segments", (50, 150), 50),
        Sweep("samples", *_LIME, "n_samples", (500, 1000), 1000),
        Sweep("lime-seed", *_LIME, SEED, (0, 1, 2, 3, 4), 0),
        Sweep("lime-noise", *_LIME, NOISE, (0.0, 0.1), 0.0),
        # The variant has no constant fill to choose.
        Sweep("lime-fill", "lime", None, "fill", ("zero", "superpixel-mean", "noise"), "zero"),
        # 14 and 56 cells are this book's.
        Sweep("mask-size", *_MP, "mask_size", (14, 28, 56), 28, is_length=True, signed=False),
        # The method scales this radius with the image itself, and the variant does not blur.
        Sweep("blur-radius", _MP[0], None, "blur_radius", (5.0, 10.0, 30.0), 10.0, signed=False),
        # Four settings with reference 300 were published; their values are this book's.
        Sweep("iterations", *_MP, "n_iterations", (10, 150, 300, 450), 300, signed=False),
        # The reference is that of the code of Agarwal and Nguyen; Bansal et al. start from the disc.
        Sweep("init", *_MP, "init", ("random", "circular", "ones"), "random", signed=False),
        Sweep("mp-seed", *_MP, SEED, (0, 1, 2, 3, 4), 0, signed=False),
        Sweep("mp-noise", *_MP, NOISE, (0.0, 0.1), 0.0, signed=False),
    )
}


def get_sweep(name: str, side: int, values: Sequence[Value] | None = None) -> Sweep:
    """Sweep ``name`` for images of a shorter side of ``side`` pixels.

    Lengths become ``max(1, round(value * side / 224))`` pixels or cells.

    Args:
        name: One of ``SWEEPS``.
        side: Shorter side of the images in pixels.
        values: Own settings, the reference first, in the units of ``SWEEPS``: lengths at a side of 224.

    Raises:
        ValueError: No such sweep, fewer than two settings, or two that are the same on images this small.
    """
    if name not in SWEEPS:
        raise ValueError(f"unknown sweep {name!r}; known: {', '.join(SWEEPS)}")
    sweep = SWEEPS[name]
    listed = sweep.values if values is None else tuple(values)
    if not listed:
        raise ValueError(f"sweep {name!r} has no values; give the reference first, then what it varies to")
    reference = sweep.reference if values is None else listed[0]
    scaled = tuple(_scaled(sweep, value, side) for value in listed)
    if len(set(scaled)) < max(2, len(scaled)):
        raise ValueError(
            f"sweep {name!r} needs two or more different settings, got {list(listed)}, which are "
            f"{list(scaled)} for images of {side} pixels; leave it out or give other values"
        )
    return sweep._replace(values=scaled, reference=_scaled(sweep, reference, side))


def sweep_options(
    sweep: Sweep, options: Mapping[str, Mapping[str, Any]], *, generative: bool, value: Value
) -> dict[str, Any]:
    """Options of the method or its variant at one setting of a sweep.

    Args:
        sweep: The sweep.
        options: Options the user changed, by method; those of the base method hold for the variant too.
        generative: Whether the variant runs.
        value: The setting; it wins over ``options``.
    """
    chosen = dict(options.get(sweep.method, {}))
    if generative and sweep.generative:
        chosen |= options.get(sweep.generative, {})
    return chosen if sweep.hyperparameter in (NOISE, SEED) else chosen | {sweep.hyperparameter: value}


def label_of(value: Value) -> str:
    """A setting as text, for columns and axes."""
    return value if isinstance(value, str) else f"{value:g}"


def _scaled(sweep: Sweep, value: Value, side: int) -> Value:
    if not sweep.is_length or isinstance(value, str):
        return value
    return max(1, round(value * side / PUBLISHED_SIDE))
