"""Rectifiers with another backward rule, however the model calls them."""

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Rule = Literal["guided", "deconvnet"]

# First argument is the input; each name covers the function, the method and the form in place.
_CLAMPS = ("clamp", "clip")
_THRESHOLDS = ("threshold", "_threshold")
_MAXIMA = ("maximum", "max", "fmax")
_COMPARISONS = ("gt", "ge", "lt", "le", "greater", "greater_equal", "less", "less_equal", "heaviside")
# Autograd nodes of rectifiers that slipped through, and of code that hides them.
_MISSED = ("ReluBackward", "ThresholdBackward")
_HIDING = ("CompiledFunction", "CppFunction", "DifferentiableGraph")


class Call(NamedTuple):
    """A rectifier ``min(max(input, 0), upper)`` in a model's forward pass."""

    input: Tensor
    upper: float
    in_place: bool


class RectifierMode(TorchFunctionMode):
    """While active, every rectifier's backward pass follows ``rule``; its forward pass stays the same.

    With ``g`` the incoming gradient and ``y`` the input: ``deconvnet`` passes ``max(g, 0)`` (Zeiler and
    Fergus 2014), ``guided`` passes ``max(g, 0)`` where ``0 < y < upper`` (Springenberg et al. 2015,
    figure 1), ``upper`` being 6 for ReLU6 and infinity for ReLU.

    Attributes:
        found: Names of the rectifiers met so far.
        active: Whether the rule holds for what runs now; elsewhere rectifiers keep their derivative.
        skipped: Names of the rectifiers met where it does not.
        followed: Autograd's own nodes of rectifiers whose backward pass follows the rule all the same.
    """

    def __init__(self, rule: Rule, *, active: bool = True) -> None:
        super().__init__()
        self.rule = rule
        self.found: list[str] = []
        self.active = active
        self.skipped: list[str] = []
        self.followed: set[Any] = set()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "").split(".")[0]
        if self.active:
            _refuse_comparison(name.strip("_"), args, kwargs)
        call = rectifier_call(name, args, kwargs)
        if call is None or not self.active:
            self.skipped += [] if call is None else [name]
            return func(*args, **kwargs)
        self.found.append(name)
        return self.rectify(call, func, args, kwargs)

    def rectify(self, call: Call, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Result of the rectifier ``call``, which the model wrote as ``func`` of these arguments."""
        rectified: Tensor = _Rectify.apply(call.input, call.upper, self.rule)
        # Copying back keeps what a form in place means: every view of the input sees the result.
        return call.input.copy_(rectified) if call.in_place else rectified


def check_all_rectified(model: nn.Module, scores: Tensor, mode: RectifierMode) -> None:
    """Refuse a result whose backward pass would not follow the rule.

    Args:
        model: What was run.
        scores: Its output with a graph.
        mode: What it was run under.

    Raises:
        ValueError: No rectifier was met, or one was met only by autograd.
    """
    every = [_short(node) for node in graph_nodes(scores) if node not in mode.followed]
    nodes = sorted(set(every))
    hidden = [name for name in nodes if name.startswith((*_MISSED, *_HIDING))]
    n_missed = sum(name.startswith(_MISSED) for name in every)
    if n_missed > len(mode.skipped) or any(name.startswith(_HIDING) for name in nodes):
        raise ValueError(
            f"{type(model).__name__} hides rectifiers in {', '.join(hidden)}, where their backward pass "
            "cannot be changed; give the model as plain Python modules, neither compiled nor TorchScript"
        )
    if not mode.found:
        raise ValueError(
            f"{type(model).__name__} has no rectifier (ReLU, ReLU6) to guide; "
            f"its steps are: {', '.join(nodes)}; use 'gradient' for such a model"
        )


@contextmanager
def only_within(mode: RectifierMode, module: nn.Module) -> Iterator[None]:
    """While inside, the rule of ``mode`` holds only for what ``module`` runs."""

    def switch(active: bool) -> Callable[..., None]:
        return lambda *_: setattr(mode, "active", active)

    handles = [
        module.register_forward_pre_hook(switch(True)),
        module.register_forward_hook(switch(False), always_call=True),
    ]
    mode.active = False
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def check_not_scripted(model: nn.Module) -> None:
    """Refuse models whose parts run outside Python.

    Raises:
        ValueError: A module is TorchScript or compiled; the message names it.
    """
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule | torch.jit.ScriptFunction) or hasattr(
            module, "_orig_mod"
        ):
            raise ValueError(
                f"module {name or 'model'!r} is {type(module).__name__}: its rectifiers cannot be seen; "
                "give the model as plain Python modules, neither compiled nor TorchScript"
            )


class _Rectify(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, upper: float, rule: Rule) -> Tensor:
        ctx.rule, ctx.upper = rule, upper
        if rule == "guided":
            # A number within the bounds where active, in the type of the values: a model that recomputes
            # activations for its backward pass puts the values themselves here, and both read alike.
            active = (values > 0) & (values < upper)
            ctx.save_for_backward(active.to(values.dtype) * (1.0 if math.isinf(upper) else upper / 2))
        return values.clamp(min=0, max=None if math.isinf(upper) else upper)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        passed = gradients[0].clamp(min=0)
        if ctx.rule == "guided":
            (saved,) = ctx.saved_tensors
            passed = passed * ((saved > 0) & (saved < ctx.upper))
        return passed, None, None


def rectifier_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    """The rectifier that function ``name`` is with these arguments, or None."""
    in_place = name.endswith("_") or kwargs.get("inplace", False) is True
    family = name.rstrip("_")
    values = args[0] if args else kwargs.get("input")
    if family in _MAXIMA:
        return _maximum(args, kwargs)
    if not isinstance(values, Tensor) or not values.requires_grad:
        return None
    rest = args[1:]
    lower, upper = _bounds(family, rest, kwargs)
    if not _is_zero(lower):
        return None
    # Functions of torch.nn.functional take inplace as their last positional argument.
    return Call(values, upper, in_place or (bool(rest) and rest[-1] is True))


def _bounds(family: str, rest: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, float]:
    """Lower and upper bound of the result; the lower is None if ``family`` has none."""

    def argument(index: int, name: str, default: Any) -> Any:
        return rest[index] if len(rest) > index else kwargs.get(name, default)

    lower, upper = None, None
    if family in ("relu", "relu6"):
        lower, upper = 0.0, (6.0 if family == "relu6" else None)
    elif family == "hardtanh":
        lower, upper = argument(0, "min_val", -1.0), argument(1, "max_val", 1.0)
    elif family in _CLAMPS:
        lower, upper = argument(0, "min", None), argument(1, "max", None)
    elif family == "clamp_min":
        lower = argument(0, "min", None)
    elif family in _THRESHOLDS and _is_zero(argument(1, "value", None)):
        lower = argument(0, "threshold", None)
    elif family == "leaky_relu" and _is_zero(argument(0, "negative_slope", 0.01)):
        lower = 0.0
    return lower, math.inf if upper is None else float(upper)


def _maximum(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call | None:
    pair = [*args, *(kwargs[key] for key in ("input", "other") if key in kwargs)]
    if len(pair) != 2 or not all(isinstance(part, Tensor) for part in pair):
        return None
    for values, other in (pair, pair[::-1]):
        if values.requires_grad and not other.requires_grad and _is_zero(other):
            return Call(values, math.inf, in_place=False)
    return None


def _refuse_comparison(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    if (
        name not in _COMPARISONS
        or not args
        or not isinstance(args[0], Tensor)
        or not args[0].is_floating_point()
    ):
        return
    other = args[1] if len(args) > 1 else kwargs.get("other")
    if name == "heaviside" or _is_zero(other):
        raise ValueError(
            f"the model compares activations with zero ({name}), which can be a rectifier written by hand; "
            "write it as torch.relu, so that its backward pass can be changed"
        )


def _is_zero(value: Any) -> bool:
    if isinstance(value, Tensor):
        return not value.requires_grad and bool((value == 0).all())
    return isinstance(value, int | float) and value == 0


def graph_nodes(scores: Tensor) -> Iterator[Any]:
    """All nodes of the autograd graph of ``scores``."""
    waiting, seen = [scores.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(parent for parent, _ in node.next_functions)
        yield node


def node_name(node: Any) -> str:
    """What autograd calls ``node``, such as ``MulBackward0``."""
    return str(node.name()).split("::")[-1]


def operation(node: Any) -> str:
    """What ``node`` is the derivative of, such as ``Mul``."""
    return re.sub(r"Backwards?\d*$", "", node_name(node))


def _short(node: Any) -> str:
    name = node_name(node)
    if name.startswith("HardtanhBackward") and node._saved_min_val == 0:
        return "ReluBackward (hardtanh)"
    return name
