"""Gradient and guided backpropagation of one forward pass are the two methods' own maps."""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.attribution.test_guided import RELU6S, RELUS, Activation, Rectified
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.gradient_pairs import gradient_pairs
from heatcheck.attribution.guard import untouched
from heatcheck.attribution.passes import Query
from heatcheck.attribution.registry import attribute

load_catalog()
MakeNet = Callable[[Callable[[], nn.Module]], nn.Module]
MakeImages = Callable[..., Tensor]


def pairs(model: nn.Module, images: Tensor, targets: Tensor, size: int = 2) -> tuple[Tensor, Tensor]:
    with untouched(model):
        return gradient_pairs(Query(model, images, targets), size)


# One whose own gradient fails, since the second half overwrites what the first one keeps, has no pair either.
@pytest.mark.parametrize(
    "spelling",
    [*(name for name in RELUS if name != "in place in two halves"), *(f"6 {name}" for name in RELU6S)],
)
def test_every_spelling_of_a_rectifier_gives_both_methods_maps(
    spelling: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    activation = RELU6S[spelling[2:]] if spelling.startswith("6 ") else RELUS[spelling]
    model = make_net(lambda: Rectified([activation] * 3))
    images, targets = make_images(3), torch.tensor([0, 1, 2])
    found = pairs(model, images, targets)
    for maps, name in zip(found, ("gradient", "guided-backprop"), strict=True):
        expected = attribute(name, model, images, targets)
        torch.testing.assert_close(maps, expected, atol=1e-6 * float(expected.abs().max()), rtol=0)
    assert float((found[0] - found[1]).abs().max()) > 0.1 * float(found[0].abs().max())


def test_at_zero_a_maximum_keeps_half_its_gradient_and_lets_nothing_guided_through(
    make_images: MakeImages,
) -> None:
    class Maximum(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            return torch.maximum(3 * images, torch.zeros(())).flatten(1).sum(dim=1, keepdim=True)

    images = make_images(2)
    images[:, :, ::2] = 0
    gradients, guided = pairs(Maximum(), images, torch.zeros(2, dtype=torch.int64))
    assert set(gradients[:, :, ::2].flatten().tolist()) == {1.5}
    assert not guided[:, :, ::2].any()
    assert torch.equal(guided[:, :, 1::2], gradients[:, :, 1::2])
    assert set(guided[:, :, 1::2].flatten().tolist()) == {0.0, 3.0}


@pytest.mark.parametrize(
    ("activation", "part"), [(nn.Tanh(), "TanhBackward0"), (lambda x: x * (x > 0), "gt")]
)
def test_a_model_whose_rectifiers_cannot_be_changed_is_refused(
    activation: Activation, part: str, make_net: MakeNet, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        pairs(make_net(lambda: Rectified([activation] * 3)), make_images(1), torch.tensor([0]))


def test_a_rectifier_that_only_autograd_sees_is_refused_though_others_were_found(
    make_net: MakeNet, make_images: MakeImages
) -> None:
    def hidden(values: Tensor) -> Tensor:
        with torch._C.DisableTorchFunction():
            return torch.relu(values)

    model = make_net(lambda: Rectified([nn.ReLU(), nn.ReLU(), hidden]))
    with pytest.raises(ValueError, match="hides rectifiers"):
        pairs(model, make_images(1), torch.tensor([0]))


def test_one_forward_pass_serves_both_and_its_graph_is_freed_without_a_collector(
    make_net: MakeNet, make_images: MakeImages
) -> None:
    alive: list[Any] = []

    class Token:
        def __call__(self, gradient: Tensor) -> None:
            return None

    def watched(values: Tensor) -> Tensor:
        result, token = torch.relu(values), Token()
        result.register_hook(token)  # type: ignore[no-untyped-call]
        alive.append(weakref.ref(token))
        return result

    model = make_net(lambda: Rectified([watched, nn.ReLU(), nn.ReLU(inplace=True)]))
    pairs(model, make_images(3), torch.tensor([0, 1, 2]), size=3)  # what is measured once is measured now
    alive.clear()
    gc.disable()
    try:
        pairs(model, make_images(3), torch.tensor([0, 1, 2]), size=3)
        assert [reference() for reference in alive] == [None]
    finally:
        gc.enable()
