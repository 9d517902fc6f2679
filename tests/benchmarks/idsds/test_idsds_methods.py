"""The study's methods in their two profiles, and which models they explain."""

from contextlib import contextmanager
from typing import Any

import pytest
from torch import nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks.heatmaps import MethodRequest
from heatcheck.benchmarks.idsds_maps import shared_work
from heatcheck.benchmarks.idsds_methods import (
    PROFILES,
    STUDY,
    is_aligned,
    is_applicable,
    method_request,
    model_kind,
    probability_request,
    study_row,
)

load_catalog()
SMOOTHED = "IG-SG, IG-SG abs., IG-SG-SQ, IG-SG-VG"
GRADIENTS = f"IxG, IxG abs., IxG-SG, IxG-SG abs., IG, IG abs., IG-U, IG-U abs., {SMOOTHED}"
CAMS = "Grad-CAM, Grad-CAM++, SG-CAM++, XGrad-CAM, Layer-CAM"
ROWS = f"{GRADIENTS}, RISE, RISE-U, {CAMS}, Rollout, Chefer-LRP, B-cos, BagNet"
SHARED = [
    "input-x-gradient",
    "ixg-smoothgrad",
    "integrated-gradients",
    "ig-uniform",
    "ig-smoothgrad",
    "ig-smoothgrad-squared",
    "ig-vargrad",
]


class Plain(nn.Module):
    """Stands for a network of some kind."""


class BCos(Plain):
    @contextmanager
    def explanation_mode(self) -> Any:
        yield


class Bag(Plain):
    receptive_field = 9


class Attention(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(2, 6)


MODELS = {
    "convolutional": nn.Sequential(nn.Conv2d(3, 4, 3)),
    "b-cos": BCos(),
    "bagnet": Bag(),
    "vit": nn.Sequential(nn.Conv2d(3, 4, 3), Attention()),
}


def test_the_study_has_its_23_rows() -> None:
    rows = [row for study in STUDY.values() for row in study.rows.values()]
    assert rows == ROWS.split(", ")
    assert len(rows) == 23


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", STUDY)
def test_every_method_of_the_study_can_run(name: str, profile: Any) -> None:
    request = method_request(name, profile)
    assert METHODS[request.name].variant_of is None


@pytest.mark.parametrize("profile", PROFILES)
def test_twelve_rows_need_five_computations(profile: Any) -> None:
    work = shared_work([method_request(name, profile) for name in SHARED])
    assert [one.method for one in work] == [
        "gradient",
        "smoothgrad",
        "integrated-gradients",
        "integrated-gradients",
        "smoothgrad",
    ]
    assert sum(len(STUDY[name].rows) for name in SHARED) == 12


def test_the_profiles_differ_where_the_published_code_departs_from_the_papers() -> None:
    differing = [name for name, study in STUDY.items() if study.reference != study.corrected]
    assert differing == [
        "ixg-smoothgrad",
        "ig-uniform",
        "ig-smoothgrad",
        "ig-smoothgrad-squared",
        "ig-vargrad",
        "grad-cam++",
        "smooth-grad-cam++",
    ]


@pytest.mark.parametrize(
    ("profile", "expected"), [("reference", ("absolute", 1.0)), ("corrected", ("relative", 0.15))]
)
def test_noise_is_the_librarys_default_or_a_share_of_the_range(
    profile: Any, expected: tuple[str, float]
) -> None:
    options = method_request("ig-smoothgrad", profile).options
    assert (options["noise"], options["noise_scale"], options["n_samples"]) == (*expected, 4)
    assert options["base_options"] == {"quadrature": "gauss-legendre", "n_steps": 50}


def test_the_users_options_win_and_are_checked() -> None:
    request = method_request("integrated-gradients", "reference", {"n_steps": 7})
    assert request.options == {"quadrature": "gauss-legendre", "n_steps": 7}
    with pytest.raises(ValueError, match="no_steps"):
        method_request("integrated-gradients", "reference", {"no_steps": 7})
    with pytest.raises(ValueError, match="unknown method"):
        method_request("no-such-method", "reference")


def test_a_registered_variant_becomes_its_base_method() -> None:
    found = method_request("gradient-squared", "reference")
    assert found == MethodRequest("gradient", {"squared": True})


@pytest.mark.parametrize("kind", MODELS)
def test_models_are_told_apart_by_what_they_offer(kind: str) -> None:
    assert model_kind(MODELS[kind]) == kind


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("input-x-gradient", list(MODELS)),
        ("sobel", list(MODELS)),
        ("grad-cam", ["convolutional", "b-cos", "bagnet"]),
        ("grad-cam-signed", ["convolutional", "b-cos", "bagnet"]),
        ("deep-lift", ["convolutional", "bagnet"]),
        ("lrp-epsilon", ["convolutional", "bagnet"]),
        ("guided-grad-cam", ["convolutional", "bagnet"]),
        ("attention-rollout", ["vit"]),
        ("b-cos", ["b-cos"]),
        ("bagnet", ["bagnet"]),
        ("bagnet-exact", ["bagnet"]),
    ],
)
def test_a_method_explains_the_models_it_was_made_for(name: str, kinds: list[str]) -> None:
    assert [kind for kind, module in MODELS.items() if is_applicable(name, module)] == kinds


def test_methods_of_the_logit_can_explain_the_probability() -> None:
    plain = probability_request(method_request("input-x-gradient", "reference"))
    assert plain == MethodRequest("input-x-gradient", {"output": "probability"})
    smooth = probability_request(method_request("ig-smoothgrad", "reference"))
    assert smooth is not None
    assert smooth.options["base_options"] == {
        "quadrature": "gauss-legendre",
        "n_steps": 50,
        "output": "probability",
    }
    for name in ("rise", "random"):  # one explains it already, one explains nothing
        assert probability_request(method_request(name, "reference")) is None


def test_methods_that_ask_about_deletions_are_marked() -> None:
    assert is_aligned("sliding-patch")
    assert not is_aligned("input-x-gradient")


def test_rows_are_named_as_in_the_study() -> None:
    assert study_row("integrated-gradients", "abs") == "IG abs."
    assert study_row("grad-cam", "abs") == study_row("sobel", "raw") == ""
