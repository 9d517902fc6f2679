"""Three readings of how the published importance maps were made: the paper's, its code's, and ours.

Hooker et al. 2019 leave open, or their released code settles otherwise, what the names below fix. Each is a
set of values of the same computation.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from heatcheck.attribution import controls
from heatcheck.attribution.baselines import BaselineOptions, make_baseline
from heatcheck.attribution.estimators import estimator_maps
from heatcheck.attribution.gradient import Quadrature
from heatcheck.runtime.seeds import CounterGenerator

Granularity = Literal["element", "pixel"]
RandomKind = Literal["bernoulli", "bernoulli-redrawn", "exact"]
SobelKind = Literal["magnitude", "release"]


class Protocol(NamedTuple):
    """How importance maps are made and ranked.

    Attributes:
        name: ``paper``, ``release`` or ``recommended``.
        granularity: Units that are ranked: channel values, or pixels with all their channels.
        n_samples: Noisy copies ``J``.
        noise_scale: Standard deviation of the noise, as a share of each normalized image's range.
        n_steps: Gradients of integrated gradients.
        quadrature: Their nodes and weights.
        zero_start: Estimators whose line starts at the mean colour; that of the others starts at black.
        sobel: Strength of the edges, or the released signed derivative.
        random: Units drawn independently (``bernoulli``), once or at every read, or exactly ``k`` of them.
    """

    name: str
    granularity: Granularity
    n_samples: int
    noise_scale: float
    n_steps: int
    quadrature: Quadrature
    zero_start: tuple[str, ...]
    sobel: SobelKind
    random: RandomKind


class Control(NamedTuple):
    """A ranking that knows nothing of the model.

    Attributes:
        name: Identifier of the estimator.
        label: Name in figures.
        method: Registered method of its maps.
        redrawn: Whether it differs at every read of an image: the method's option ``draw`` counts the reads.
    """

    name: str
    label: str
    method: str
    redrawn: bool = False


# What registers the methods of ``CONTROLS``.
_REGISTERED = (controls,)

# The paper names no standard deviation; 0.15 is the default of the library its code calls.
PROTOCOLS: Mapping[str, Protocol] = {
    item.name: item
    for item in (
        Protocol("paper", "element", 15, 0.15, 25, "right", (), "magnitude", "bernoulli"),
        Protocol(
            *("release", "element", 25, 0.15, 25, "inclusive"),
            ("sg-sq-ig",),
            *("release", "bernoulli-redrawn"),
        ),
        Protocol("recommended", "pixel", 15, 0.15, 25, "midpoint", (), "magnitude", "exact"),
    )
}
CONTROLS: Mapping[str, Control] = {
    item.name: item
    for item in (
        Control("random", "Random", "random"),
        Control("random-redrawn", "Random, redrawn", "random", redrawn=True),
        Control("sobel", "Sobel", "sobel"),
        Control("sobel-release", "Sobel, as released", "sobel-release"),
    )
}


def get_protocol(name: str) -> Protocol:
    """The protocol called ``name``.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    if name not in PROTOCOLS:
        raise ValueError(f"unknown protocol {name!r}; known: {', '.join(PROTOCOLS)}")
    return PROTOCOLS[name]


def control_options(name: str, granularity: Granularity, *, draw: int = 0) -> dict[str, Any]:
    """Options of a control's method under which it gives one value per unit.

    Numbers of ``random`` below ``p / 100`` select units independently with probability ``p`` percent.

    Args:
        name: A key of ``CONTROLS``.
        granularity: Units that are ranked.
        draw: Number of the read; used by controls that are redrawn.

    Raises:
        ValueError: There is no such control, or it has no value per pixel.
    """
    if name not in CONTROLS:
        raise ValueError(f"unknown control {name!r}; known: {', '.join(CONTROLS)}")
    if name == "sobel-release":
        if granularity == "pixel":
            raise ValueError("'sobel-release' smooths across the channels, so it ranks elements; use 'sobel'")
        return {}
    if name == "sobel":
        return {"channels": "each" if granularity == "element" else "luma"}
    return {"per_channel": granularity == "element", "draw": draw if CONTROLS[name].redrawn else 0}


def protocol_maps(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    names: Sequence[str],
    protocol: Protocol,
    *,
    mean: tuple[float, ...],
    std: tuple[float, ...],
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    method_options: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Tensor]:
    """Maps of the estimators ``names`` as ``protocol`` has them, in their order.

    ``(N, C, H, W)`` each, or ``(N, 1, H, W)`` for controls and registered methods that give one value per
    pixel. Estimators of another starting point take a pass of their own, over the same noisy copies. Of a
    control that is redrawn this is the first draw; ``control_options`` gives the others.

    Args:
        model: Classifier of normalized images; left as it was.
        images: ``(N, C, H, W)`` normalized.
        targets: ``(N,)`` int64, the predicted classes.
        names: Keys of ``ESTIMATORS`` or ``CONTROLS``, or registered methods.
        protocol: An entry of ``PROTOCOLS``, or one of your own.
        mean: Normalization of the images, one number per channel; black is ``-mean / std``.
        std: As ``mean``.
        forward_args: Further inputs of the model.
        generator: Random numbers, see ``estimator_maps``.
        method_options: Options of registered methods; those of controls follow from the protocol.

    Raises:
        ValueError: As for ``estimator_maps`` and ``control_options``.
    """
    generator = generator or CounterGenerator.for_images(images)
    black = make_baseline("black", images, BaselineOptions(mean=mean, std=std), draw=0, generator=generator)
    compute = partial(
        estimator_maps,
        model,
        images,
        targets,
        forward_args=forward_args,
        generator=generator,
        n_samples=protocol.n_samples,
        noise_scale=protocol.noise_scale,
        n_steps=protocol.n_steps,
        quadrature=protocol.quadrature,
    )
    apart = [name for name in names if name in protocol.zero_start]
    others = [name for name in names if name not in apart and name not in CONTROLS]
    maps = compute(others, baseline=black, method_options=method_options)
    maps |= compute(apart, baseline=0.0)
    for name in names:
        if name not in CONTROLS:
            continue
        method = CONTROLS[name].method
        options = {method: control_options(name, protocol.granularity)}
        maps[name] = compute([method], method_options=options)[method]
    return {name: maps[name] for name in names}


def default_controls(protocol: Protocol) -> tuple[str, str]:
    """The two controls of a protocol: its random and its Sobel ranking."""
    return (
        "random-redrawn" if protocol.random == "bernoulli-redrawn" else "random",
        "sobel-release" if protocol.sobel == "release" else "sobel",
    )
