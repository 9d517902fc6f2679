"""One look for every figure: sizes of a two-column paper, and one fixed color and marker per method."""

import functools
import hashlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, ParamSpec, TypeVar

import matplotlib as mpl
import seaborn as sns

P = ParamSpec("P")
Result = TypeVar("Result")

COLUMN = 3.35  # width in inches of one column of a two-column paper
PAGE = 6.9  # width in inches of both columns
INK = "#2b2b33"
MUTED = "#6e6e78"
ACCENT = "#c8421f"
SEQUENTIAL = "rocket_r"  # positive heatmaps: light where nothing is, dark where the map is high
DIVERGING = "vlag"  # signed heatmaps: blue below zero, white at zero, red above

CONTROLS = ("random", "random-blocks", "sobel", "centre", "centre-box", "constant")


class Look(NamedTuple):
    """How a method is drawn: color, marker and line style."""

    color: str
    marker: str
    line: Any


_DASH = (0, (5.0, 1.6))
_DOT = (0, (1.2, 1.2))
_DASHDOT = (0, (5.0, 1.4, 1.2, 1.4))

# One hue per family out of seaborn's color-blind palette (Okabe and Ito's idea); members of a family differ
# in shade, marker and dashes, so that no pair depends on hue alone.
_LOOKS = {
    "gradient": Look("#0173b2", "o", "-"),
    "input-x-gradient": Look("#56b4e9", "s", _DASH),
    "integrated-gradients": Look("#01436a", "D", _DASHDOT),
    "gradient-squared": Look("#4a9fd0", "^", _DOT),
    "input-x-gradient-squared": Look("#8fcdf0", "v", _DOT),
    "integrated-gradients-squared": Look("#2f6f9a", "<", _DOT),
    "ig-uniform": Look("#3c82b8", "p", _DASH),
    "deep-lift": Look("#1b5fa0", "h", _DASHDOT),
    "smoothgrad": Look("#029e73", "o", "-"),
    "smoothgrad-squared": Look("#4fc3a1", "s", _DASH),
    "vargrad": Look("#015c43", "D", _DASHDOT),
    "ixg-smoothgrad": Look("#2bb38c", "^", _DOT),
    "ig-smoothgrad": Look("#01805d", "v", _DASH),
    "ig-smoothgrad-squared": Look("#7ad4b9", "<", _DASHDOT),
    "ig-vargrad": Look("#0f6e54", ">", _DOT),
    "guided-backprop": Look("#de8f05", "o", "-"),
    "guided-backprop-squared": Look("#b97705", "^", _DOT),
    "deconvnet": Look("#f2c14e", "s", _DASH),
    "guided-grad-cam": Look("#946004", "D", _DASHDOT),
    "grad-cam": Look("#cc78bc", "o", "-"),
    "grad-cam++": Look("#8a3f7b", "s", _DASH),
    "layer-cam": Look("#e8a9dc", "D", _DASHDOT),
    "xgrad-cam": Look("#b0509f", "^", _DOT),
    "grad-cam-signed": Look("#d991c9", "v", _DASH),
    "grad-cam++-cubed": Look("#6b2d5f", "<", _DASHDOT),
    "smooth-grad-cam++": Look("#a5608f", ">", _DOT),
    "smooth-grad-cam++-last-noisy": Look("#7d4a72", "P", _DASH),
    "lrp": Look("#5b35a8", "o", "-"),
    "lrp-alpha1-beta0": Look("#9a7bd6", "s", _DASH),
    "lrp-alpha2-beta1": Look("#35196e", "D", _DASHDOT),
    "lrp-epsilon": Look("#b9a5ea", "^", _DOT),
    "lrp-epsilon-alpha": Look("#7a52c7", "v", _DASH),
    "lrp-epsilon-plus": Look("#8468b8", "<", _DASHDOT),
    "lrp-epsilon-gamma-box": Look("#46307e", ">", _DOT),
    "sliding-patch": Look("#d55e00", "o", "-"),
    "rise": Look("#8f3f00", "s", _DASH),
    "rise-uniform": Look("#b8763f", "X", _DASHDOT),
    "kernel-shap": Look("#ad4a00", "h", "-"),
    "lime": Look("#f0894a", "D", _DASHDOT),
    "meaningful-perturbation": Look("#b5482b", "^", _DOT),
    # Variants share the hue of their base: generative ones are lighter and dashed.
    "sliding-patch-g": Look("#f29a4b", "v", _DASH),
    "lime-g": Look("#f3b083", "d", _DASH),
    "meaningful-perturbation-g": Look("#dc8b75", "<", _DASH),
    "mp-fong": Look("#842c16", ">", _DASHDOT),
    "extremal-perturbation": Look("#5c1f2e", "p", "-"),
    # Methods of one kind of model only.
    "attention-rollout": Look("#8a7a00", "o", "-"),
    "chefer-relevance": Look("#c2b04a", "s", _DASH),
    "b-cos": Look("#006d77", "*", "-"),
    "bagnet": Look("#4f6d00", "*", _DASH),
    "bagnet-exact": Look("#8aa644", "*", _DOT),
    "random": Look("#6f6f78", "x", _DOT),
    "random-blocks": Look("#7f7f88", "+", _DOT),
    "sobel": Look("#55555e", "1", _DOT),
    "centre": Look("#63636c", "2", _DOT),
    "centre-box": Look("#7a7a83", "4", _DOT),
    "constant": Look("#8d8d96", "3", _DOT),
}
# Own methods take one of these by the hash of their name: the same in every figure and every run.
_OWN = ("#7b3ff2", "#b8005c", "#5b7f00", "#00838f", "#a1392b", "#5e5ce6")
_OWN_MARKERS = ("P", "X", "v", "<", ">", "h")

STYLE: Any = {
    **sns.axes_style("ticks"),
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 8,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlepad": 5,
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "figure.constrained_layout.h_pad": 0.05,
    "figure.constrained_layout.hspace": 0.04,
    "figure.constrained_layout.w_pad": 0.05,
    "figure.constrained_layout.wspace": 0.05,
    "figure.dpi": 110,
    "figure.figsize": (PAGE, 2.6),
    "figure.labelsize": 8,
    "figure.titlesize": 8,
    # Ships with matplotlib, so that text is drawn the same on every machine.
    "font.family": ["DejaVu Sans"],
    "font.size": 8,
    "grid.color": "#d9d9de",
    "grid.linewidth": 0.5,
    "hatch.linewidth": 0.5,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.2,
    "legend.labelspacing": 0.35,
    "legend.title_fontsize": 7,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "text.color": INK,
    "xtick.color": INK,
    "xtick.labelsize": 7,
    "xtick.major.size": 3,
    "xtick.major.width": 0.6,
    "ytick.color": INK,
    "ytick.labelsize": 7,
    "ytick.major.size": 3,
    "ytick.major.width": 0.6,
}


def use_style() -> None:
    """Set the style for all figures drawn from here on, own ones included."""
    mpl.rcParams.update(STYLE)


def styled(function: Callable[P, Result]) -> Callable[P, Result]:
    """``function``, drawing in the style whatever the caller's settings are, which stay as they were."""

    @functools.wraps(function)
    def draw(*args: P.args, **kwargs: P.kwargs) -> Result:
        with mpl.rc_context(STYLE):
            return function(*args, **kwargs)

    return draw


def look(method: str) -> Look:
    """How ``method`` is drawn: always the same, whichever other methods are in the figure."""
    if method in _LOOKS:
        return _LOOKS[method]
    digest = hashlib.sha256(method.encode()).digest()
    return Look(_OWN[digest[0] % len(_OWN)], _OWN_MARKERS[digest[1] % len(_OWN_MARKERS)], "-")


def palette(methods: Iterable[str]) -> dict[str, str]:
    """Color of each method, as seaborn's ``palette`` takes it."""
    return {method: look(method).color for method in methods}


def is_control(method: str) -> bool:
    """Whether ``method`` is one of the controls, which look at no model."""
    return method in CONTROLS


def size(width: float, height: float) -> tuple[float, float]:
    """Figure size in inches.

    Raises:
        ValueError: The width is more than the page's or a side is not positive.
    """
    if not (0 < width < PAGE + 1e-6 and height > 0):
        raise ValueError(
            f"figure size {width} x {height} inches; allowed: width up to {PAGE}, height above 0"
        )
    return width, height
