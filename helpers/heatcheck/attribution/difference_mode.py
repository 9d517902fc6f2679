"""A model's forward pass whose backward pass multiplies by differences from a reference, not by slopes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heatcheck.attribution.lrp_mode import MOVES
from heatcheck.attribution.lrp_trace import Call, Plan, active_tensors, spread
from heatcheck.attribution.rectifiers import graph_nodes, node_name, operation

# Functions of one value each, constants aside, under the names of function and method.
ELEMENTWISE = frozenset(
    (
        *("relu", "relu6", "hardtanh", "clamp", "clip", "clamp_min", "clamp_max", "threshold", "leaky_relu"),
        *("maximum", "minimum", "fmax", "fmin", "prelu", "elu", "selu", "celu", "gelu", "silu", "mish"),
        *("hardswish", "hardsigmoid", "softplus", "softsign", "softshrink", "hardshrink", "tanhshrink"),
        *("sigmoid", "expit", "logsigmoid", "log_sigmoid", "tanh", "exp", "expm1", "log", "log1p", "erf"),
        *("sqrt", "rsqrt", "reciprocal", "square", "pow", "rpow", "rdiv", "rtruediv", "abs", "absolute"),
        *("sin", "cos"),
    )
)
POOLS = frozenset(f"{kind}max_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3))
_LINEAR = MOVES | {
    *("Add", "Sub", "Rsub", "Neg", "Mean", "Sum", "Cumsum"),
    *("AvgPool2D", "AvgPool3D", "AdaptiveAvgPool2D", "MkldnnAdaptiveAvgPool2D", "AdaptiveAvgPool3D"),
    *("UpsampleBilinear2D", "UpsampleBicubic2D", "UpsampleLinear1D", "NativeBatchNorm", "CudnnBatchNorm"),
}
# Places of the factors of a product, and of what it divides by: linear unless all depend on the image.
_FACTORS = {
    **dict.fromkeys(("Mul", "Mm", "Bmm", "Mv", "Dot", "Convolution", "Linear"), (0, 1)),
    **dict.fromkeys(("Addmm", "Baddbmm", "Addbmm", "Addmv"), (1, 2)),
    "Div": (1,),
}
# Below this difference a quotient of differences is rounding, and the slope takes its place.
_NEAR = 1e-7


@dataclass
class Tape:
    """Inputs of the nonlinear steps of a pass over the reference, in their order, and how many are taken."""

    steps: list[tuple[str, Tensor]] = field(default_factory=list)
    taken: int = 0

    def take(self, name: str, like: Tensor) -> Tensor:
        """The reference's input of the next step.

        Raises:
            ValueError: The pass over the reference had another step there.
        """
        found = self.steps[self.taken] if self.taken < len(self.steps) else ("nothing", None)
        self.taken += 1
        if found[0] != name or found[1] is None or found[1].shape != like.shape:
            raise ValueError(
                f"the model runs {name} on the images where it ran {found[0]} on the baseline; it must take "
                "the same steps whatever it sees"
            )
        return found[1]


class DifferenceMode(TorchFunctionMode):
    """While active, nonlinear steps are recorded, or multiply gradients by differences from those recorded.

    Steps that are linear in the image keep their derivative, which is their multiplier. All else must be
    refused by ``check_all_known`` after the forward pass.

    Args:
        tape: Where to note the steps, or to take them from.
        record: Note them.
    """

    def __init__(self, tape: Tape, *, record: bool) -> None:
        super().__init__()
        self.tape = tape
        self.record = record

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "").split(".")[0].strip("_")
        call = Call(func, name, args, kwargs or {}, in_place=False)
        active = active_tensors([*args, *call.kwargs.values()])
        if active and "dropout" in name and call.argument(2, "training", "train", default=True):
            raise ValueError(f"the model uses {name} in evaluation mode too; differences need fixed layers")
        if len(active) != 1 or name not in ELEMENTWISE | POOLS:
            return call.run()
        step = _pool if name in POOLS else _rescale
        return self._note(call, active[0]) if self.record else step(call, active[0], self.tape)

    def _note(self, call: Call, inputs: Tensor) -> Tensor:
        # A copy, because what follows may work in place; and no graph, because nothing is differentiated.
        self.tape.steps.append((call.name, inputs.detach().clone()))
        given = inputs.detach().clone()
        value = call.replace(inputs, given).run()
        return inputs.copy_(value) if value is given else value.requires_grad_(True)


def check_all_known(model: nn.Module, scores: Tensor, tape: Tape) -> None:
    """Refuse a forward pass with a step that is neither linear nor has a rule.

    Raises:
        ValueError: There is such a step; the message names it. Or the baseline took more steps.
    """
    if tape.taken != len(tape.steps):
        raise ValueError(
            f"the model took {len(tape.steps)} nonlinear steps on the baseline and {tape.taken} on the "
            "images; it must take the same steps whatever it sees"
        )
    unknown = sorted({node_name(node) for node in graph_nodes(scores) if not _is_linear(node)})
    if unknown:
        raise ValueError(
            f"{type(model).__name__} has steps without a rule for differences: {', '.join(unknown)}; there "
            "are rules for elementwise functions, maximum pooling and what is linear in the image, in plain "
            "Python modules"
        )


def _is_linear(node: Any) -> bool:
    name = operation(node)
    if name in _FACTORS:
        active = [parent is not None for parent, _ in node.next_functions]
        return not all(active[place] for place in _FACTORS[name] if place < len(active))
    return name in _LINEAR and not getattr(node, "_saved_training", False)


def _rescale(call: Call, inputs: Tensor, tape: Tape) -> Tensor:
    """``y`` of an elementwise step; its multiplier is ``(y - y0) / (x - x0)``, or the slope where x is x0."""
    start = tape.take(call.name, inputs)
    with torch.enable_grad():
        leaf = inputs.detach().requires_grad_(True)
        given = leaf.clone()
        value: Tensor = call.replace(inputs, given).run()
        (slope,) = torch.autograd.grad(value.sum(), leaf)
    with torch.no_grad():
        change = inputs - start
        quotient = (value - call.replace(inputs, start).run()) / change
        multiplier = torch.where(change.abs() < _NEAR, slope, quotient)

    def share(gradient: Tensor) -> tuple[Tensor, ...]:
        return (gradient * multiplier,)

    result = spread(_plan(call, share), value.detach(), inputs)
    # Copying back keeps what a form in place means: every view of the input sees the result.
    return inputs.copy_(result) if value is given else result


def _pool(call: Call, inputs: Tensor, tape: Tape) -> Tensor:
    """``y`` of maximum pooling; what it rises by goes to its own largest value, a fall to the reference's.

    With ``m = max(y, y0)`` the place of the largest value gets ``m - y0`` and that of the reference's
    largest ``y - m``, each as a multiple of the difference there, between 0 and 1 (Lundberg and Lee 2017).
    """
    start, n_axes = tape.take(call.name, inputs), int(call.name[-2])
    with torch.no_grad():
        (value, own), (before, other) = (_pooled(call, inputs, given) for given in (inputs, start))
        change = (inputs - start).flatten(-n_axes)
        top = torch.maximum(value, before)
        shares = [
            (place, torch.where(part == 0, part, part / change.gather(-1, place)))
            for place, part in (
                (own.flatten(-n_axes), (top - before).flatten(-n_axes)),
                (other.flatten(-n_axes), (value - top).flatten(-n_axes)),
            )
        ]

    def share(gradient: Tensor) -> tuple[Tensor, ...]:
        total = torch.zeros_like(change)
        for place, factor in shares:
            total.scatter_add_(-1, place, gradient.flatten(-n_axes) * factor)
        return (total.view(inputs.shape),)

    return spread(_plan(call, share), value, inputs)


def _pooled(call: Call, inputs: Tensor, given: Tensor) -> tuple[Tensor, Tensor]:
    """Largest values of ``given`` in every window and their places in the flattened plane."""
    call = call.replace(inputs, given)
    pool: Callable[..., tuple[Tensor, Tensor]] = getattr(F, call.name)
    return pool(*call.args, **{**call.kwargs, "return_indices": True})


def _plan(call: Call, share: Callable[..., tuple[Tensor, ...]]) -> Plan:
    return Plan(call.name, "difference", share, None, saves=False)
