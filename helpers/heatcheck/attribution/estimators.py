"""The 18 estimators of the remove-and-retrain benchmark, all from one streaming pass.

Three bases (gradient, guided backpropagation, integrated gradients), each raw, squared, and as mean, squared
mean, mean square and variance over noisy copies of the image: Hooker et al. 2019, section 3. The copies are
drawn once for all bases, and gradient and guided backpropagation share their forward passes.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.attribution.estimator_passes import (
    Base,
    Path,
    Work,
    base_maps,
    noisy_maps,
    start_gradients,
)
from heatcheck.attribution.gradient import Quadrature, quadrature_rule
from heatcheck.attribution.guard import check_inputs, untouched
from heatcheck.attribution.passes import Piece, Query, backward_size, channel_values, wide
from heatcheck.attribution.registry import METHODS, attribute
from heatcheck.attribution.smoothing import Noise
from heatcheck.runtime.seeds import CounterGenerator

Ensemble = Literal["none", "mean", "mean_square", "variance"]
Baseline = Tensor | float | tuple[float, ...]

BASES: tuple[Base, ...] = ("grad", "gb", "ig")


class Estimator(NamedTuple):
    """One of the 18 estimators.

    Attributes:
        name: Identifier, such as ``sg-sq-grad``.
        base: Map that is computed on the image or on its noisy copies.
        ensemble: Statistic over the copies, a field of ``Smoothed``, or ``none`` for the image alone.
        squared: The result is squared element by element.
    """

    name: str
    base: Base
    ensemble: Ensemble
    squared: bool

    @property
    def label(self) -> str:
        """Name in figures, as in the paper: ``SG-SQ-GRAD``."""
        return self.name.upper()

    @property
    def signed(self) -> bool:
        """Whether units are ranked by a value with a sign, so that large negative ones come last."""
        return self.ensemble in ("none", "mean") and not self.squared

    @property
    def ranked_from(self) -> str:
        """Estimator whose map is ranked: of a square it is what was squared, ranked by magnitude.

        Element by element that is the same order, but squares of small numbers become zero.
        """
        return self.name.removeprefix("sq-") if self.squared else self.name

    @property
    def aggregate(self) -> Literal["sum", "abs_sum"]:
        """How the channels of the map ``ranked_from`` become one value per unit."""
        return "abs_sum" if self.squared else "sum"


_FORMS: Mapping[str, tuple[Ensemble, bool]] = {
    "": ("none", False),
    "sq-": ("none", True),
    "sg-": ("mean", False),
    "sq-sg-": ("mean", True),
    "sg-sq-": ("mean_square", False),
    "var-": ("variance", False),
}
ESTIMATORS: Mapping[str, Estimator] = {
    f"{prefix}{base}": Estimator(f"{prefix}{base}", base, *form)
    for base in BASES
    for prefix, form in _FORMS.items()
}


def estimator_maps(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    names: Sequence[str],
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    n_samples: int = 15,
    noise_scale: float = 0.15,
    n_steps: int = 25,
    quadrature: Quadrature = "midpoint",
    baseline: Baseline = 0.0,
    method_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Tensor]:
    """Maps of the estimators ``names`` in their order, each ``(N, C, H, W)`` float32 or wider.

    With ``J`` copies ``x + e_j``, ``e_j ~ N(0, (scale (max x - min x))**2)``, and a base map ``g``:
    ``sg = mean g(x + e_j)``, ``sg-sq = mean g(x + e_j)**2``, ``var = mean (g(x + e_j) - sg)**2``,
    ``sq = g(x)**2``, ``sq-sg = sg**2`` (Hooker et al. 2019, section 3), so ``sg-sq = var + sg**2``. Only
    what the names need is computed: for all of them ``n_steps + 2`` gradients of the image and of each copy.
    Memory does not grow with copies or steps. The copies are those of the registered ``smoothgrad``.

    Args:
        model: Classifier of normalized images, ``(N, C, H, W) -> (N, K)`` logits; left as it was.
        images: ``(N, C, H, W)`` floating, normalized.
        targets: ``(N,)`` int64; the paper explains the class predicted for the clean image.
        names: Keys of ``ESTIMATORS``, and names of registered methods, which may give ``(N, 1, H, W)``.
        forward_args: Further inputs of the model, ``(N, ...)`` each.
        generator: Noise; by default seed 0 with the images' contents as ids.
        n_samples: Noisy copies ``J`` per image.
        noise_scale: Standard deviation of the noise, as a share of the range of each image.
        n_steps: Gradients on the line of integrated gradients.
        quadrature: Their nodes and weights, see ``quadrature_rule``.
        baseline: Where the line starts, also for the noisy copies: one number, one per channel, or an image
            ``(C, H, W)`` or ``(N, C, H, W)``, in the space of the images. The paper has the black image.
        method_options: Options of the registered methods.

    Raises:
        ValueError: A name is unknown, or images, targets, numbers or the baseline cannot be used.
    """
    options = method_options or {}
    _check_names(names, options)
    check_inputs(model, images, targets)
    noise = _checked_noise(n_samples, noise_scale)
    path = Path(_start(baseline, images), *quadrature_rule(quadrature, n_steps))
    generator = generator or CounterGenerator.for_images(images)
    query = Query(model, images.detach(), targets, forward_args, generator=generator)
    wanted = [ESTIMATORS[name] for name in names if name in ESTIMATORS]
    with untouched(model):
        size = backward_size(query) if wanted else 1
        maps = _maps_in_groups(Work(query, path, noise, size), wanted)
    ask = partial(attribute, forward_args=forward_args, generator=generator)
    for name in names:
        if name not in maps:
            maps[name] = ask(name, model, images, targets, **options.get(name, {}))
    return {name: maps[name] for name in names}


def _maps_in_groups(work: Work, wanted: Sequence[Estimator]) -> dict[str, Tensor]:
    """Maps of ``wanted``, group by group, so that the running statistics are of a group only."""
    images = work.query.images
    maps = {item.name: torch.empty_like(wide(images)) for item in wanted}
    for first in range(0, len(images) if wanted else 0, work.size):
        rows = slice(first, min(first + work.size, len(images)))
        for name, found in _group_maps(work.take(rows), wanted).items():
            maps[name][rows] = found
    return maps


def _group_maps(work: Work, wanted: Sequence[Estimator]) -> dict[str, Tensor]:
    def bases_of(*, alone: bool) -> list[Base]:
        used = {item.base for item in wanted if (item.ensemble == "none") == alone}
        return [base for base in BASES if base in used]

    at_start = start_gradients(work) if any(item.base == "ig" for item in wanted) else None
    everything = [Piece(0, slice(0, len(work.query.images)))]
    clean = base_maps(work, everything, work.query.images, bases_of(alone=True), at_start)
    noisy = noisy_maps(work, bases_of(alone=False), at_start)
    maps = {}
    for item in wanted:
        found = clean[item.base] if item.ensemble == "none" else getattr(noisy[item.base], item.ensemble)
        maps[item.name] = found.square() if item.squared else found
    return maps


def _start(baseline: Baseline, images: Tensor) -> Tensor:
    if not isinstance(baseline, Tensor):
        return channel_values(baseline, images).expand_as(images)
    if baseline.shape not in (images.shape, images.shape[1:]):
        raise ValueError(
            f"baseline of shape {tuple(baseline.shape)} does not fit the images {tuple(images.shape)}; "
            "give a number, one per channel, or an image (C, H, W) or (N, C, H, W)"
        )
    return baseline.detach().to(images).expand_as(images)


def _checked_noise(n_samples: int, noise_scale: float) -> Noise:
    if n_samples < 1 or noise_scale < 0:
        raise ValueError(
            f"n_samples is {n_samples} and noise_scale {noise_scale}; "
            "there must be at least 1 sample, and the scale must not be negative"
        )
    return Noise(n_samples, noise_scale, "relative")


def _check_names(names: Sequence[str], options: Mapping[str, Mapping[str, Any]]) -> None:
    if unknown := [name for name in names if name not in ESTIMATORS and name not in METHODS]:
        raise ValueError(
            f"unknown estimators {', '.join(unknown)}; known: {', '.join(ESTIMATORS)}, "
            f"and the registered methods {', '.join(sorted(METHODS))}"
        )
    if spare := [name for name in options if name in ESTIMATORS or name not in names]:
        raise ValueError(
            f"method_options names {', '.join(spare)}; they go with registered methods among the names"
        )
