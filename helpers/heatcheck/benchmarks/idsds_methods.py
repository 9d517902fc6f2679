"""The 23 rows of the single-deletion study, in two profiles that are never mixed.

``reference`` is what the published numbers were made with, library quirks included; ``corrected`` is what
the methods' papers say.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from torch import nn

from heatcheck.attribution.registry import check_options, get_method
from heatcheck.benchmarks.heatmaps import MethodRequest
from heatcheck.metrics.patches import Transform

Profile = Literal["reference", "corrected"]
Kind = Literal["any", "convolutional", "rectified", "vit", "b-cos", "bagnet"]
PROFILES: tuple[Profile, ...] = ("reference", "corrected")
SMOOTHING = ("smoothgrad", "smoothgrad-squared", "vargrad")


class StudyMethod(NamedTuple):
    """A method of the study.

    Attributes:
        rows: Name of its row in the study, by transform.
        reference: Registered method and options of the published numbers.
        corrected: Registered method and options of its paper.
        kind: Models it explains.
    """

    rows: Mapping[Transform, str]
    reference: MethodRequest
    corrected: MethodRequest
    kind: Kind = "any"


_BOTH: tuple[Transform, ...] = ("raw", "abs")
_RAW: tuple[Transform, ...] = ("raw",)
_IG: Mapping[str, Any] = MappingProxyType({"quadrature": "gauss-legendre", "n_steps": 50})


def _same(
    row: str,
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    transforms: tuple[Transform, ...] = _RAW,
    kind: Kind = "any",
) -> StudyMethod:
    """A method that the published code and its paper agree on."""
    request = MethodRequest(name, dict(options or {}))
    return StudyMethod(_rows(row, transforms), request, request, kind)


def _smoothed(
    row: str,
    name: str,
    base: str,
    options: Mapping[str, Any],
    *,
    transforms: tuple[Transform, ...] = _RAW,
) -> StudyMethod:
    """Four noisy copies: with deviation 1 in the images' space, or with 0.15 of each image's range."""
    common = {"base": base, "n_samples": 4, "base_options": dict(options)}
    reference = MethodRequest(name, {**common, "noise": "absolute", "noise_scale": 1.0})
    corrected = MethodRequest(name, {**common, "noise": "relative", "noise_scale": 0.15})
    return StudyMethod(_rows(row, transforms), reference, corrected)


def _uniform(row: str) -> StudyMethod:
    """One noise image for all images as published, against three for each."""
    name, common = "integrated-gradients", {**_IG, "baseline": "uniform"}
    reference = MethodRequest(name, {**common, "shared_noise": True, "n_baselines": 1})
    corrected = MethodRequest(name, {**common, "shared_noise": False, "n_baselines": 3})
    return StudyMethod(_rows(row, _BOTH), reference, corrected)


def _differing(row: str, reference: str, corrected: str) -> StudyMethod:
    """An activation map of which the published code computes something else."""
    first, second = MethodRequest(reference, {}), MethodRequest(corrected, {})
    return StudyMethod(_rows(row, _RAW), first, second, "convolutional")


def _rows(name: str, transforms: tuple[Transform, ...]) -> dict[Transform, str]:
    return {transform: name if transform == "raw" else f"{name} abs." for transform in transforms}


_IXG, _PATH = "input-x-gradient", "integrated-gradients"
STUDY: Mapping[str, StudyMethod] = MappingProxyType(
    {
        _IXG: _same("IxG", _IXG, transforms=_BOTH),
        "ixg-smoothgrad": _smoothed("IxG-SG", "smoothgrad", _IXG, {}, transforms=_BOTH),
        _PATH: _same("IG", _PATH, _IG, transforms=_BOTH),
        "ig-uniform": _uniform("IG-U"),
        "ig-smoothgrad": _smoothed("IG-SG", "smoothgrad", _PATH, _IG, transforms=_BOTH),
        # Never negative, so the study's absolute values change nothing.
        "ig-smoothgrad-squared": _smoothed("IG-SG-SQ", "smoothgrad-squared", _PATH, _IG),
        "ig-vargrad": _smoothed("IG-SG-VG", "vargrad", _PATH, _IG),
        "rise": _same("RISE", "rise"),
        "rise-uniform": _same("RISE-U", "rise", {"fill": "uniform"}),
        "grad-cam": _same("Grad-CAM", "grad-cam", kind="convolutional"),
        "grad-cam++": _differing("Grad-CAM++", "grad-cam++-cubed", "grad-cam++"),
        "smooth-grad-cam++": _differing("SG-CAM++", "smooth-grad-cam++-last-noisy", "smooth-grad-cam++"),
        "xgrad-cam": _same("XGrad-CAM", "xgrad-cam", kind="convolutional"),
        "layer-cam": _same("Layer-CAM", "layer-cam", kind="convolutional"),
        "attention-rollout": _same("Rollout", "attention-rollout", kind="vit"),
        "chefer-relevance": _same("Chefer-LRP", "chefer-relevance", kind="vit"),
        "b-cos": _same("B-cos", "b-cos", kind="b-cos"),
        "bagnet": _same("BagNet", "bagnet", kind="bagnet"),
    }
)
# Methods that ask about deletions themselves: the score favors them.
ALIGNED = frozenset({"sliding-patch", "sliding-patch-g", "kernel-shap"})


def method_request(name: str, profile: Profile, options: Mapping[str, Any] | None = None) -> MethodRequest:
    """Registered method and all options behind a method of the study, or any registered method.

    A registered variant becomes its base method with the variant's options, so that methods of one
    computation share it.

    Args:
        name: A key of ``STUDY``, or a registered method.
        profile: ``reference`` or ``corrected``.
        options: Options the user changed; they win.

    Raises:
        ValueError: No such method, or an option is not allowed.
    """
    study = STUDY.get(name)
    if study is None:
        request = MethodRequest(name, {})
    else:
        request = study.reference if profile == "reference" else study.corrected
    entry = get_method(request.name)
    chosen = {**request.options, **(options or {})}
    check_options(request.name, chosen)
    if entry.variant_of is None:
        return MethodRequest(request.name, chosen)
    return MethodRequest(entry.variant_of, {**entry.preset, **chosen})


def probability_request(request: MethodRequest) -> MethodRequest | None:
    """The same method explaining the softmax probability; None where it explains no score or always that."""
    if request.name in SMOOTHING:
        base = MethodRequest(request.options["base"], request.options.get("base_options") or {})
        changed = probability_request(base)
        return changed and MethodRequest(
            request.name, {**request.options, "base_options": dict(changed.options)}
        )
    known = get_method(request.name).options.model_fields
    if "output" not in known or check_options(request.name, request.options)["output"] == "probability":
        return None
    return MethodRequest(request.name, {**request.options, "output": "probability"})


def model_kind(module: nn.Module) -> Kind:
    """What kind of model this is, told from what it offers.

    ``b-cos``: it has an ``explanation_mode``. ``bagnet``: a ``receptive_field``. ``vit``: attention blocks
    with ``qkv`` projections. All others are ``convolutional``.
    """
    if hasattr(module, "explanation_mode"):
        return "b-cos"
    if hasattr(module, "receptive_field"):
        return "bagnet"
    if any(hasattr(part, "qkv") for part in module.modules()):
        return "vit"
    return "convolutional"


def is_applicable(name: str, module: nn.Module) -> bool:
    """Whether a registered method explains this model, as far as its kind of model tells.

    Class activation maps need a stack of maps, which all models but transformers have. What follows rules of
    its own through linear layers and rectifiers has none for the products of transformers and B-cos networks.
    A variant explains what its base method does. Registered methods of no kind always apply.
    """
    wanted, kind = _wanted_kind(name), model_kind(module)
    if wanted == "convolutional":
        return kind != "vit"
    if wanted == "rectified":
        return kind not in ("vit", "b-cos")
    return wanted in ("any", kind)


def _wanted_kind(name: str) -> Kind:
    if name in STUDY:
        return STUDY[name].kind
    entry = get_method(name)
    if entry.family in ("lrp", "guided") or name in ("deep-lift", "guided-grad-cam"):
        return "rectified"
    if entry.family == "cam":
        return "convolutional"
    base = STUDY.get(entry.variant_of or name)
    return "any" if base is None else base.kind


def is_aligned(name: str) -> bool:
    """Whether a method asks the model about deleted patches itself, so that the score favors it."""
    return name in ALIGNED


def study_row(name: str, transform: str) -> str:
    """Name of the row in the study's table, such as ``IxG abs.``; empty where the study has none."""
    study = STUDY.get(name)
    rows = {} if study is None else {str(name): row for name, row in study.rows.items()}
    return rows.get(transform, "")


def column_name(method: str, transform: str) -> str:
    """Name of a method's row: that of the study, or the registered one."""
    plain = {"raw": method, "abs": f"{method} abs."}
    return study_row(method, transform) or plain.get(transform, f"{method} {transform}")
