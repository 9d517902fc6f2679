"""The three readings of the published importance maps differ in what the text says, and in nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.estimator_protocols import (
    CONTROLS,
    PROTOCOLS,
    control_options,
    default_controls,
    get_protocol,
    protocol_maps,
)
from heatcheck.attribution.estimators import ESTIMATORS, estimator_maps
from heatcheck.attribution.registry import METHODS, attribute, check_options
from heatcheck.runtime.seeds import CounterGenerator

load_catalog()
MakeImages = Callable[..., Tensor]
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
BLACK = (-2.1179039, -2.0357143, -1.8044444)


@pytest.mark.parametrize(
    ("name", "granularity", "n_samples", "quadrature", "controls"),
    [
        ("paper", "element", 15, "right", ("random", "sobel")),
        ("release", "element", 25, "inclusive", ("random-redrawn", "sobel-release")),
        ("recommended", "pixel", 15, "midpoint", ("random", "sobel")),
    ],
)
def test_the_protocols_are_those_of_the_paper_its_code_and_ours(
    name: str, granularity: str, n_samples: int, quadrature: str, controls: tuple[str, str]
) -> None:
    found = get_protocol(name)
    assert (found.granularity, found.n_samples, found.quadrature) == (granularity, n_samples, quadrature)
    assert (found.noise_scale, found.n_steps) == (0.15, 25)
    assert found.zero_start == (("sg-sq-ig",) if name == "release" else ())
    assert default_controls(found) == controls


def test_an_unknown_protocol_or_control_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="known: paper, release, recommended"):
        get_protocol("published")
    with pytest.raises(ValueError, match="known: random, random-redrawn, sobel"):
        control_options("edges", "pixel")
    with pytest.raises(ValueError, match="use 'sobel'"):
        control_options("sobel-release", "pixel")


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_has_one_value_per_unit(name: str, make_images: MakeImages) -> None:
    images = make_images(2)
    for granularity, channels in (("element", 3), ("pixel", 1)):
        if (name, granularity) == ("sobel-release", "pixel"):
            continue
        options = control_options(name, granularity)  # type: ignore[arg-type]
        check_options(CONTROLS[name].method, options)
        maps = attribute(
            CONTROLS[name].method, nn.Identity(), images, torch.zeros(2, dtype=torch.int64), **options
        )
        assert maps.shape == (2, channels, 12, 12)
    assert CONTROLS[name].method in METHODS


def test_only_the_redrawn_control_changes_with_the_read(make_images: MakeImages) -> None:
    images, targets = make_images(2), torch.zeros(2, dtype=torch.int64)

    def read(name: str, draw: int) -> Tensor:
        options = control_options(name, "element", draw=draw)
        return attribute("random", nn.Identity(), images, targets, **options)

    assert torch.equal(read("random", 0), read("random", 1))
    assert torch.equal(read("random-redrawn", 0), read("random", 0))
    assert torch.equal(read("random-redrawn", 1), read("random-redrawn", 1))
    assert not torch.equal(read("random-redrawn", 0), read("random-redrawn", 1))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocols_maps_start_at_black_but_where_its_code_starts_at_zero(
    name: str, net: nn.Module, make_images: MakeImages
) -> None:
    protocol = PROTOCOLS[name]._replace(n_samples=2, n_steps=3)
    images, targets = make_images(2), torch.tensor([0, 1])
    generator = CounterGenerator(2, (5, 6))
    names = [*list(ESTIMATORS)[::-1], *default_controls(protocol)]
    found = protocol_maps(net, images, targets, names, protocol, mean=MEAN, std=STD, generator=generator)
    assert list(found) == names
    options: dict[str, Any] = {
        "generator": generator, "n_samples": 2, "n_steps": 3, "quadrature": protocol.quadrature,
    }  # fmt: skip
    black = estimator_maps(net, images, targets, list(ESTIMATORS), baseline=BLACK, **options)
    zero = estimator_maps(net, images, targets, ["sg-sq-ig"], baseline=0.0, **options)
    for estimator in ESTIMATORS:
        expected = (zero if estimator in protocol.zero_start else black)[estimator]
        assert float((found[estimator] - expected).abs().max()) <= 1e-6 * float(expected.abs().max())
    assert float((zero["sg-sq-ig"] - black["sg-sq-ig"]).abs().max()) > 1e-2 * float(zero["sg-sq-ig"].max())
    channels = 1 if protocol.granularity == "pixel" else 3
    assert all(found[control].shape[1] == channels for control in default_controls(protocol))
