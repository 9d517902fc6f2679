"""Passes that serve several methods give what each method alone would give."""

from typing import Any

import pytest
import torch

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks.clevr_xai_questions import MaskSource, explain, open_questions
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest
from heatcheck.benchmarks.shared_passes import pass_heatmaps, pass_of, plan_passes
from heatcheck.models.catalog import get_classifier
from heatcheck.runtime.seeds import CounterGenerator

OPTIONS: dict[str, dict[str, Any]] = {
    "gradient-squared": {},
    "input-x-gradient": {},
    "input-x-gradient-squared": {},
    "integrated-gradients-squared": {"n_steps": 3},
    "guided-backprop-squared": {},
    "smoothgrad": {"n_samples": 3},
    "smoothgrad-squared": {"n_samples": 3, "noise_scale": 0.05},
    "vargrad": {"n_samples": 3, "base": "input-x-gradient"},
    "grad-cam": {},
}


@pytest.fixture(scope="module")
def explained(tiny: None) -> Explained:
    questions = open_questions("tiny", "simple").load([0, 4, 5], 64, MaskSource())
    return explain(questions, get_classifier("tiny"), torch.tensor([3, 0, 17]), torch.device("cpu"))


@pytest.mark.parametrize("method", OPTIONS)
def test_a_pass_gives_what_the_method_alone_gives(explained: Explained, method: str) -> None:
    options = OPTIONS[method]
    found = pass_heatmaps(explained, pass_of(method, options), seed=5)[method]
    expected = attribute(
        method,
        explained.classifier.module,
        explained.images,
        explained.data.targets,
        forward_args=explained.forward_args,
        generator=CounterGenerator.for_images(explained.images, seed=5),
        **options,
    )
    assert torch.allclose(found, expected, rtol=1e-5, atol=1e-9)


def test_methods_of_equal_options_share_a_pass() -> None:
    names = ["input-x-gradient", "gradient", "gradient-squared", "smoothgrad", "vargrad", "grad-cam"]
    passes = plan_passes([MethodRequest(name, {}) for name in names])
    assert [work.method for work in passes] == ["gradient", "smoothgrad", "grad-cam"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (("gradient", {}), ("gradient-squared", {"output": "probability"})),
        (("smoothgrad", {"n_samples": 3}), ("vargrad", {"n_samples": 4})),
        (("gradient", {"squared": True}), ("gradient", {})),
        (("integrated-gradients", {"n_steps": 2}), ("integrated-gradients-squared", {"n_steps": 3})),
    ],
)
def test_other_options_are_another_pass(
    first: tuple[str, dict[str, object]], second: tuple[str, dict[str, object]]
) -> None:
    passes = plan_passes([MethodRequest(*first), MethodRequest(*second)])
    assert len(passes) == 2
    assert first[0] in passes[0].members


def test_a_user_s_own_squared_option_is_kept(explained: Explained) -> None:
    found = pass_heatmaps(explained, pass_of("gradient", {"squared": True}), seed=0)
    plain = pass_heatmaps(explained, pass_of("gradient", {}), seed=0)
    assert torch.equal(found["gradient"], plain["gradient-squared"])


def test_a_pass_leaves_the_model_as_it_was(explained: Explained) -> None:
    module = explained.classifier.module
    before = {name: value.clone() for name, value in module.state_dict().items()}
    pass_heatmaps(explained, pass_of("smoothgrad", {"n_samples": 2}), seed=0)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(weight.grad is None for weight in module.parameters())
