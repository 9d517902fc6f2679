"""Settings of a method that are compared with the main one: baselines, noise, layers, rules.

The grids are those that the published comparison is known or reconstructed to have tried (Arras et al. 2022).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from heatcheck.attribution.registry import METHODS

# What the published network's layers are called here; Grad-CAM was tried at several.
CAM_LAYERS = ("cnn.conv4", "cnn.relu4", "cnn.bn4")
BASELINES = ("zero", "mean-channel", "mean-image")


class Grid(NamedTuple):
    """What the grids depend on.

    Attributes:
        options: The run's main options, by method.
        noise_scales: Noise levels.
        noise_samples: Numbers of noisy copies.
    """

    options: Mapping[str, Mapping[str, Any]]
    noise_scales: Sequence[float]
    noise_samples: Sequence[int]


class Variant(NamedTuple):
    """One setting.

    Attributes:
        group: Name of the grid, one of ``VARIANTS``.
        label: What tables call the setting.
        method: Registered method.
        options: Its options.
    """

    group: str
    label: str
    method: str
    options: Mapping[str, Any]


def variants_of(groups: Sequence[str], grid: Grid) -> list[Variant]:
    """All settings of the grids ``groups``, the main one among them where the grid holds it."""
    return [variant for group in groups for variant in VARIANTS[group](grid)]


def _baselines(grid: Grid) -> Iterator[Variant]:
    method = "integrated-gradients"
    for baseline in BASELINES:
        options = {**grid.options.get(method, {}), "baseline": baseline}
        yield Variant("ig-baselines", baseline.replace("-", " "), method, options)


def _smoothing(grid: Grid) -> Iterator[Variant]:
    for method in ("smoothgrad", "smoothgrad-squared", "vargrad"):
        for scale in grid.noise_scales:
            for count in grid.noise_samples:
                chosen = {"noise_scale": scale, "n_samples": count}
                options = {**grid.options.get(method, {}), **chosen}
                yield Variant("smoothing", f"noise {scale:g}, {count} samples", method, options)


def _layers(grid: Grid) -> Iterator[Variant]:
    for method in ("grad-cam", "guided-grad-cam"):
        for layer in CAM_LAYERS:
            options = {**grid.options.get(method, {}), "layer": layer}
            yield Variant("cam-layers", layer.rpartition(".")[2], method, options)


def _rules(grid: Grid) -> Iterator[Variant]:
    for name, entry in METHODS.items():
        if "lrp" in (name, entry.variant_of):
            yield Variant("lrp-rules", name, name, dict(grid.options.get(name, {})))
    if "lrp" in METHODS:
        for passed in ("last-passed", "all-passed"):
            options = {**grid.options.get("lrp", {}), "batch_norm": passed}
            yield Variant("lrp-rules", f"batch norm {passed.replace('-', ' ')}", "lrp", options)


VARIANTS: Mapping[str, Callable[[Grid], Iterator[Variant]]] = {
    "ig-baselines": _baselines,
    "smoothing": _smoothing,
    "cam-layers": _layers,
    "lrp-rules": _rules,
}
