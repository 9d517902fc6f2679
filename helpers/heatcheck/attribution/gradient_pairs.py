"""Gradient and guided backpropagation from one forward pass."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from heatcheck.attribution.passes import Query, in_chunks, target_scores, wide
from heatcheck.attribution.rectifiers import Call, RectifierMode, check_all_rectified, check_not_scripted

# Functions whose own derivative is 0 at the bounds; that of the others is not, and a mask must say so.
_OPEN = ("relu", "relu6", "hardtanh", "threshold", "_threshold", "leaky_relu")


class SwitchedMode(RectifierMode):
    """While active, rectifiers keep their derivative, and follow the guided rule once it is switched on.

    The rule passes ``max(g, 0)`` where the input is within the bounds (Springenberg et al. 2015, figure 1):
    the derivative itself, of a gradient whose negative part is dropped before it.

    Attributes:
        switch: Its only element says whether backward passes follow the rule from now on.
    """

    def __init__(self) -> None:
        super().__init__("guided")
        # Not this object: hooks that knew it would keep the graph alive, which keeps the hooks.
        self.switch = [False]

    def rectify(self, call: Call, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Result of the rectifier ``call``, which the model wrote as ``func`` of these arguments."""
        if on_view := call.in_place and call.input._base is not None:
            # What the view shows is written through its base, past any hook on the view.
            copy = call.input.clone()
            args = tuple(copy if value is call.input else value for value in args)
            kwargs = {key: copy if value is call.input else value for key, value in kwargs.items()}
        result: Tensor = func(*args, **kwargs)
        if result.requires_grad:
            self.followed.add(result.grad_fn)
            name = getattr(func, "__name__", "").split(".")[0].rstrip("_")
            active = None if name in _OPEN else (result > 0) & (result < call.upper)
            result.register_hook(_guide(self.switch, active))  # type: ignore[no-untyped-call]
        return call.input.copy_(result) if on_view else result


def gradient_pairs(query: Query, size: int) -> tuple[Tensor, Tensor]:
    """Gradients and guided backpropagation ``(N, C, H, W)``, for one forward and two backward passes.

    Args:
        query: The batch.
        size: Most images at once.

    Raises:
        ValueError: The model has no rectifier, or has one that cannot be reached.
    """
    check_not_scripted(query.model)
    gradients, guided = in_chunks(_pair, query, size).unbind(dim=1)
    return gradients, guided


def _pair(query: Query) -> Tensor:
    leaf = query.images.detach().requires_grad_(True)
    # Active in the backward passes too, for models that recompute activations there.
    with SwitchedMode() as mode:
        scores = target_scores(query._replace(images=leaf.clone()))
        check_all_rectified(query.model, scores, mode)
        total = scores.sum()
        (gradients,) = torch.autograd.grad(total, leaf, retain_graph=True)
        mode.switch[0] = True
        (guided,) = torch.autograd.grad(total, leaf)
    return wide(torch.stack([gradients, guided], dim=1))  # (n, 2, C, H, W)


def _guide(switch: list[bool], active: Tensor | None) -> Callable[[Tensor], Tensor | None]:
    def guide(gradient: Tensor) -> Tensor | None:
        if not switch[0]:
            return None
        passed = gradient.clamp(min=0)
        return passed if active is None else passed * active

    return guide
