"""All built-in methods: importing this module registers them."""

from collections.abc import Mapping

from heatcheck.attribution import (
    cam,
    controls,
    extremal,
    gradient,
    guided,
    lime,
    meaningful,
    perturbation,
    rise,
    smoothing,
)
from heatcheck.attribution.registry import METHODS, Entry

BUILT_IN = (gradient, smoothing, guided, cam, perturbation, rise, lime, meaningful, extremal, controls)


def load_catalog() -> Mapping[str, Entry]:
    """Every method by name: the built-in ones, and those that plug-ins have registered so far."""
    return METHODS
