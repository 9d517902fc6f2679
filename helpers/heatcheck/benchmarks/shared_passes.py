"""Heatmaps of several methods from one computation, where one is the others' half of the way.

The squared gradient is the gradient squared, and three smoothing methods are three statistics of one set of
noisy gradients; each such pass is computed once per image and serves all of its members.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from heatcheck.attribution.guard import check_inputs, untouched
from heatcheck.attribution.registry import attribute, check_options
from heatcheck.attribution.smoothing import Noise, smoothing_family
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, method_options
from heatcheck.runtime.seeds import CounterGenerator, content_ids

# What a member's map is, from the pass's raw map and the image.
Derivation = Callable[[Tensor, Tensor], Tensor]


class Member(NamedTuple):
    """A method that a pass serves: how its map is derived, and what its option ``squared`` then says."""

    derive: Derivation
    squared: bool


_SELF = Member(lambda maps, images: maps, squared=False)
_SQUARE = Member(lambda maps, images: maps.square(), squared=True)
_SHARED: Mapping[str, Mapping[str, Member]] = {
    "gradient": {
        "gradient": _SELF,
        "gradient-squared": _SQUARE,
        "input-x-gradient": Member(lambda maps, images: images * maps, squared=False),
        "input-x-gradient-squared": Member(lambda maps, images: images * maps.square(), squared=True),
    },
    "integrated-gradients": {"integrated-gradients": _SELF, "integrated-gradients-squared": _SQUARE},
    "guided-backprop": {"guided-backprop": _SELF, "guided-backprop-squared": _SQUARE},
}
_SMOOTHING = ("smoothgrad", "smoothgrad-squared", "vargrad")


class Pass(NamedTuple):
    """One computation.

    Attributes:
        method: Registered method that is computed, the first of ``members`` where there are several.
        options: Options the user changed.
        members: Methods whose maps it gives.
    """

    method: str
    options: Mapping[str, Any]
    members: tuple[str, ...]

    @property
    def request(self) -> MethodRequest:
        """The method with its options."""
        return MethodRequest(self.method, self.options)


def pass_of(method: str, options: Mapping[str, Any]) -> Pass:
    """The pass that gives the maps of ``method``; methods of equal options get the same one.

    Raises:
        ValueError: The method or an option is unknown, or a value is not allowed.
    """
    wanted = check_options(method, options)
    if method in _SMOOTHING:
        return Pass(_SMOOTHING[0], dict(options), _SMOOTHING)
    for base, members in _SHARED.items():
        if method not in members:
            continue
        plain = {name: value for name, value in options.items() if name != "squared"}
        if wanted == check_options(base, plain) | {"squared": members[method].squared}:
            return Pass(base, plain, tuple(members))
    return Pass(method, dict(options), (method,))


def plan_passes(requests: Sequence[MethodRequest]) -> list[Pass]:
    """Passes that together give the maps of all ``requests``, each once, in the order they are needed."""
    passes: list[Pass] = []
    for request in requests:
        found = pass_of(*request)
        if found not in passes:
            passes.append(found)
    return passes


def pass_heatmaps(explained: Explained, work: Pass, *, seed: int) -> dict[str, Tensor]:
    """Raw heatmaps ``(N, C or 1, H, W)`` of every member of a pass.

    Args:
        explained: What is explained.
        work: The pass.
        seed: Seed of stochastic methods.
    """
    images = explained.images
    generator = CounterGenerator(seed, explained.random_ids or content_ids(images))
    options = method_options(work.request, explained.classifier)
    if work.method == _SMOOTHING[0]:
        return _smoothed(explained, options, generator)
    maps = attribute(
        work.method,
        explained.classifier.module,
        images,
        explained.data.targets.to(images.device),
        forward_args=explained.forward_args,
        generator=generator,
        **options,
    )
    members = _SHARED.get(work.method, {}) if len(work.members) > 1 else {work.method: _SELF}
    return {name: member.derive(maps, images) for name, member in members.items()}


def _smoothed(
    explained: Explained, options: Mapping[str, Any], generator: CounterGenerator
) -> dict[str, Tensor]:
    model, images = explained.classifier.module, explained.images
    targets = explained.data.targets.to(images.device)
    check_inputs(model, images, targets)
    names = ("n_samples", "noise_scale", "noise", "last_clean")
    noise = Noise(*(options[name] for name in names))
    with untouched(model):
        statistics = smoothing_family(
            options["base"],
            model,
            images,
            targets,
            forward_args=explained.forward_args,
            generator=generator,
            noise=noise,
            base_options=options["base_options"],
        )
    return {name: maps.detach() for name, maps in zip(_SMOOTHING, statistics, strict=True)}
