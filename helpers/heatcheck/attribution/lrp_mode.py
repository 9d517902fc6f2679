"""A model's forward pass under which the backward pass propagates relevance."""

from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from heatcheck.attribution.lrp_layers import HANDLERS, Surroundings, moved_bounds, rectifier
from heatcheck.attribution.lrp_rules import Bounds
from heatcheck.attribution.lrp_trace import (
    Call,
    Composite,
    Ledger,
    active_tensors,
    annotate,
    bounds_of,
    depends_on_further,
    mark_further,
    tensors_in,
)
from heatcheck.attribution.rectifiers import graph_nodes, node_name, operation

# Autograd nodes that only move values about: their derivative moves relevance back.
MOVES = frozenset(
    (
        *(
            "View",
            "UnsafeView",
            "ReshapeAlias",
            "Alias",
            "AsStrided",
            "Expand",
            "Squeeze",
            "Unsqueeze",
            "Transpose",
            "Permute",
            "T",
        ),
        *(
            "Select",
            "Slice",
            "Index",
            "IndexSelect",
            "Gather",
            "Split",
            "SplitWithSizes",
            "Unbind",
            "Unfold",
            "Diagonal",
        ),
        *("Cat", "Stack", "Clone", "Copy", "CopySlices", "ToCopy", "Repeat", "Flip", "Roll"),
        *(
            "ConstantPadNd",
            "ReflectionPad2D",
            "ReplicationPad2D",
            "Im2Col",
            "PixelShuffle",
            "PixelUnshuffle",
            "UpsampleNearest2D",
        ),
        *("AccumulateGrad", "_Spread"),
    )
)
# Those that choose among values: their derivative gives relevance to the chosen one.
_CHOICES = frozenset(("Max", "Amax", "MaxPool2DWithIndices", "MaxPool3DWithIndices", "AdaptiveMaxPool2D"))
# Changes in place that only move values.
_ALLOWED_IN_PLACE = ("copy_", "__setitem__", "requires_grad_")
_IN_PLACE_OPERATORS = ("__iadd__", "__isub__", "__imul__", "__itruediv__", "__ifloordiv__", "__ipow__")


class RelevanceMode(TorchFunctionMode):
    """While active, a forward pass builds a graph whose derivatives are relevances.

    Layers, batch normalizations, rectifiers, sums, means and average pooling follow the composite's rules,
    whether a model calls them as modules, functions or operators. Whatever only moves values keeps its
    derivative. All else must be refused by ``check_all_shared`` after the forward pass.

    Args:
        model: Its parameters give the steps their names.
        composite: Which rule holds where.
        ledger: Takes note of where relevance goes.
    """

    def __init__(self, model: nn.Module, composite: Composite, ledger: Ledger | None = None) -> None:
        super().__init__()
        names = {id(weight): name.rpartition(".")[0] or name for name, weight in model.named_parameters()}
        self.around = Surroundings(composite, names, ledger)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "").split(".")[0]
        call = Call(func, name.strip("_"), args, kwargs or {}, _works_in_place(name, args, kwargs or {}))
        if not active_tensors([args, call.kwargs]):
            return self._constant(call)
        handler = HANDLERS.get(call.name)
        # Before the handlers' names: maximum(x, 0) and clamp(x, 0) are rectifiers too.
        result = rectifier(self.around, call._replace(name=name))
        if result is None and handler is not None:
            result = handler(self.around, call)
        if result is not None:
            return result
        if call.in_place and name not in _ALLOWED_IN_PLACE:
            raise ValueError(f"the model changes activations in place by {name}, for which there is no rule")
        return self._moved(call)

    def image(self, images: Tensor, bounds: Bounds) -> Tensor:
        """``images``, known to be the input whose values lie within ``bounds``."""
        return annotate(images, bounds=bounds)

    def _constant(self, call: Call) -> Any:
        result = call.run()
        given = list(tensors_in((call.args, call.kwargs)))
        if any(depends_on_further(part) for part in given):
            for part in tensors_in(result):
                if not any(part is one for one in given):
                    mark_further(part)
        return result

    def _moved(self, call: Call) -> Any:
        """The plain result; where it is the image moved about, its bounds are moved alike."""
        result = call.run()
        active = [part for part in (*call.args, *call.kwargs.values()) if active_tensors([part])]
        if len(active) != 1 or not isinstance(active[0], Tensor) or call.in_place:
            return result
        bounds = bounds_of(active[0])
        if bounds is not None and isinstance(result, Tensor) and result.requires_grad:
            annotate(result, bounds=moved_bounds(call, active[0], bounds))
        return result


def check_all_shared(model: nn.Module, scores: Tensor) -> None:
    """Refuse a forward pass with a step whose backward pass would be a plain derivative.

    Raises:
        ValueError: There is such a step; the message names it.
    """
    known = MOVES | _CHOICES
    unknown = sorted({node_name(node) for node in graph_nodes(scores) if operation(node) not in known})
    if unknown:
        raise ValueError(
            f"{type(model).__name__} has steps without a rule for relevance: {', '.join(unknown)}; there are "
            "rules for linear layers, convolutions, batch normalization, ReLU, sums, means, pooling and "
            "factors that do not depend on the image, in plain Python modules"
        )


def _works_in_place(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if name in _IN_PLACE_OPERATORS or name == "__setitem__":
        return True
    return (name.endswith("_") and not name.endswith("__")) or kwargs.get("inplace", False) is True
