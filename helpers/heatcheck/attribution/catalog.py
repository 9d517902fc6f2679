"""All built-in methods: importing this module registers them."""

from collections.abc import Mapping

from heatcheck.attribution import (
    attention,
    bagnet,
    bcos,
    cam,
    chefer,
    controls,
    deep_lift,
    extremal,
    gradient,
    guided,
    kernel_shap,
    lime,
    lrp,
    meaningful,
    perturbation,
    rise,
    smooth_cam,
    smoothing,
)
from heatcheck.attribution.registry import METHODS, Entry

BUILT_IN = (
    *(gradient, deep_lift, smoothing, guided, cam, smooth_cam, lrp),
    *(perturbation, rise, lime, kernel_shap, meaningful, extremal),
    *(attention, chefer, bcos, bagnet),
    controls,
)


def load_catalog() -> Mapping[str, Entry]:
    """Every method by name: the built-in ones, and those that plug-ins have registered so far."""
    return METHODS
