"""What each function of a forward pass does with relevance: layers, normalizations, sums, scalings."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from heatcheck.attribution.lrp_norms import merge_after, merge_before, scale_and_shift
from heatcheck.attribution.lrp_rules import (
    Bounds,
    LinearMap,
    share_addends,
    share_relevance,
    share_sum,
)
from heatcheck.attribution.lrp_trace import (
    Affine,
    Call,
    Composite,
    Layer,
    Ledger,
    Plan,
    active_tensors,
    annotate,
    bounds_of,
    depends_on_further,
    mark_further,
    note_of,
    spread,
)
from heatcheck.attribution.rectifiers import rectifier_call

_CONVOLUTIONS = ("conv1d", "conv2d", "conv3d")
_MINUS = ("sub", "subtract", "isub", "rsub")


@dataclass(frozen=True)
class Surroundings:
    """What a step needs to know beside its arguments.

    Attributes:
        composite: Which rule holds where.
        names: Paths of the model's weights by identity.
        ledger: Takes note of where relevance goes, or None.
        first: Names of the layers met so far whose input is the image.
    """

    composite: Composite
    names: dict[int, str]
    ledger: Ledger | None = None
    first: list[str] = field(default_factory=list)


Handler = Callable[[Surroundings, Call], Tensor | None]


def linear_layer(around: Surroundings, call: Call) -> Tensor:
    """A linear layer or convolution; a batch normalization before it that nothing else took is merged.

    Raises:
        ValueError: The weights themselves depend on the image.
    """
    inputs, weight = call.argument(0, "input"), call.argument(1, "weight")
    bias = call.argument(2, "bias")
    if active_tensors([weight, bias]):
        raise ValueError(f"the model computes weights of {call.name} from the image; no rule shares those")
    rest = call.args[3:]
    options = {key: value for key, value in call.kwargs.items() if key not in ("input", "weight", "bias")}
    kind = "conv" if call.name in _CONVOLUTIONS else "dense"
    if bias is not None and kind == "conv":
        bias = bias.view(-1, *[1] * (weight.ndim - 2))
    name = around.names.get(id(weight), call.name)
    part = LinearMap(lambda values, w: call.func(values, w, None, *rest, **options), weight, bias)
    layer = Layer(name, kind, part, inputs, bounds_of(inputs))
    note = note_of(inputs)
    if note is not None and note.affine is not None and layer.has_channels_second:
        layer = merge_before(layer, note.affine)
    return _emit(around, layer, call.evaluate())


def matrix_product(around: Surroundings, call: Call) -> Tensor | None:
    """A product with a constant matrix on the right, which is a linear layer without a bias."""
    inputs, weight = call.argument(0, "input"), call.argument(1, "other", "mat2")
    if call.name == "rmatmul" or active_tensors([weight]) or not isinstance(weight, Tensor):
        return None
    name = around.names.get(id(weight), call.name)
    layer = Layer(name, "dense", LinearMap(torch.matmul, weight, None), inputs, bounds_of(inputs))
    result = _emit(around, layer, call.evaluate())
    # The weight is turned, so nothing may be merged into it.
    return annotate(result)


def batch_norm(around: Surroundings, call: Call) -> Tensor:
    """A batch normalization: merged into the layer before it, or else a linear layer of its own.

    Raises:
        ValueError: It uses the statistics of the batch.
    """
    inputs: Tensor = call.argument(0, "input")
    if around.composite.pass_norms or bounds_of(inputs) is not None:
        return _pass(around, call, inputs)
    scale, shift = scale_and_shift(call)
    note = note_of(inputs)
    if note is not None and note.layer is not None and note.layer.has_channels_second:
        return _emit(around, merge_after(note.layer, scale, shift), call.evaluate())
    view = (-1, *[1] * (inputs.ndim - 2))
    part = LinearMap(torch.mul, scale.view(view), shift.view(view))
    name = around.names.get(id(call.argument(3, "weight")), call.name)
    layer = Layer(name, "conv" if inputs.ndim > 2 else "dense", part, inputs, None)
    result = _emit(around, layer, call.evaluate())
    return annotate(result, affine=Affine(inputs, scale, shift))


def rectifier(around: Surroundings, call: Call) -> Tensor | None:
    """ReLU in any spelling: relevance passes."""
    found = rectifier_call(call.name, call.args, call.kwargs)
    if found is None:
        return None
    return _pass(around, call._replace(in_place=found.in_place), found.input)


def scaling(around: Surroundings, call: Call) -> Tensor | None:
    """A product with, or quotient by, something that does not depend on the image: relevance passes."""
    operands = [call.argument(0, "input"), call.argument(1, "other")]
    active = active_tensors(operands)
    if len(active) != 1 or call.kwargs.get("rounding_mode"):
        return None
    if "div" in call.name and (active[0] is not operands[0] or call.name.startswith("r")):
        return None
    return _pass(around, call, active[0])


def addition(around: Surroundings, call: Call) -> Tensor | None:
    """A sum or difference of two: in proportion to each; a constant keeps its share, as a bias does.

    A shift of the image itself, such as its normalization, passes all.
    """
    first, second = call.argument(0, "input"), call.argument(1, "other")
    factor = float(call.kwargs.get("alpha", 1))
    signs = (-factor, 1.0) if call.name == "rsub" else (1.0, -factor if call.name in _MINUS else factor)
    active = active_tensors([first, second])
    if len(active) == 1 and (bounds_of(active[0]) is not None or _is_nothing(first) or _is_nothing(second)):
        return _pass(around, call, active[0])
    addends = [_addend(around, part, active[0]) for part in (first, second)]
    if call.in_place:
        addends[0] = addends[0].clone()

    def share(relevance: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        signed = tuple(sign * part for sign, part in zip(signs, parts, strict=True))
        composite = around.composite
        return share_addends(signed, relevance, composite.epsilon, positive=composite.positive_sums)

    plan = Plan("add", "sum", share, around.ledger)
    return _finish(call, spread(plan, call.evaluate(), *addends))


def reduction(around: Surroundings, call: Call) -> Tensor:
    """A sum, mean or average pooling: in proportion to what each value adds."""
    inputs: Tensor = call.argument(0, "input")
    composite = around.composite

    def reduce(values: Tensor) -> Tensor:
        result: Tensor = call.replace(inputs, values).run()
        return result

    def share(relevance: Tensor, values: Tensor) -> tuple[Tensor, ...]:
        positive = composite.positive_sums
        return (share_sum(reduce, values, relevance, composite.epsilon, positive=positive),)

    return spread(Plan(call.name, "sum", share, around.ledger), call.evaluate(), inputs)


def dropout(around: Surroundings, call: Call) -> Tensor:
    """Dropout in evaluation, which does nothing.

    Raises:
        ValueError: It is at work.
    """
    if call.argument(2, "training", "train", default=True):
        raise ValueError(f"the model uses {call.name} in evaluation mode too; relevance needs fixed layers")
    return call.target


def concatenation(around: Surroundings, call: Call) -> Tensor | None:
    """Nothing to do but, with a ledger, to let constant parts take their share."""
    parts = call.argument(0, "tensors")
    if around.ledger is None or not isinstance(parts, tuple | list):
        return None
    ledger = around.ledger
    taking = [
        part if part.requires_grad or not part.is_floating_point() else ledger.leaf(part) for part in parts
    ]
    result: Tensor = call.func(
        taking, *call.args[1:], **{k: v for k, v in call.kwargs.items() if k != "tensors"}
    )
    return result


def _emit(around: Surroundings, layer: Layer, value: Tensor) -> Tensor:
    """``value`` of a linear layer, whose relevance is shared by the rule of its place."""
    if layer.bounds is not None:
        around.first.append(layer.name)
    composite = around.composite
    zone = composite.conv if layer.kind == "conv" else composite.dense
    rule = composite.first if layer.bounds is not None else zone

    # A copy, because what follows may work in place.
    outputs = value.clone() if rule.rule == "epsilon" else None

    def share(relevance: Tensor, inputs: Tensor) -> tuple[Tensor, ...]:
        return (share_relevance(rule, layer.map, inputs, relevance, outputs=outputs, bounds=layer.bounds),)

    result = spread(Plan(layer.name, layer.kind, share, around.ledger), value, layer.inputs)
    return annotate(result, layer=layer)


def _pass(around: Surroundings, call: Call, inputs: Tensor) -> Tensor:
    """The call's value, whose relevance goes to ``inputs`` as it is; bounds go along."""
    shape, bounds = inputs.shape, bounds_of(inputs)

    def share(relevance: Tensor) -> tuple[Tensor, ...]:
        return (relevance.sum_to_size(shape),)

    plan = Plan(call.name, "pass", share, None, saves=False)
    result = _finish(call, spread(plan, call.evaluate(), inputs))
    return result if bounds is None else annotate(result, bounds=moved_bounds(call, inputs, bounds))


def moved_bounds(call: Call, inputs: Tensor, bounds: Bounds) -> Bounds:
    """Bounds of the call's value, a monotone function of each pixel of ``inputs``."""
    ends = [call.replace(inputs, end).evaluate() for end in bounds]
    return Bounds(torch.minimum(*ends), torch.maximum(*ends))


def _finish(call: Call, result: Tensor) -> Tensor:
    # Copying back keeps what a form in place means: every view of the input sees the result.
    return call.target.copy_(result) if call.in_place else result


def _addend(around: Surroundings, part: Any, like: Tensor) -> Tensor:
    if isinstance(part, Tensor) and part.requires_grad:
        return part
    value = torch.as_tensor(part, dtype=like.dtype, device=like.device)
    if isinstance(part, Tensor) and depends_on_further(part):
        mark_further(value)
    return value if around.ledger is None else around.ledger.leaf(value)


def _is_nothing(part: Any) -> bool:
    return isinstance(part, int | float) and part == 0


def _table() -> dict[str, Handler]:
    names: dict[Handler, tuple[str, ...]] = {
        linear_layer: ("linear", *_CONVOLUTIONS),
        matrix_product: ("matmul", "rmatmul", "mm"),
        batch_norm: ("batch_norm",),
        scaling: (
            *("mul", "rmul", "imul", "multiply", "neg", "negative", "div", "divide", "true_divide"),
            *("truediv", "itruediv", "rtruediv", "rdiv"),
        ),
        addition: ("add", "radd", "iadd", *_MINUS),
        reduction: (
            *("mean", "sum"),
            *(f"{kind}avg_pool{n}d" for kind in ("", "adaptive_") for n in (1, 2, 3)),
        ),
        dropout: tuple(
            f"{kind}dropout{n}" for kind in ("", "alpha_", "feature_") for n in ("", "1d", "2d", "3d")
        ),
        concatenation: ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack"),
    }
    return {name: handler for handler, several in names.items() for name in several}


HANDLERS = _table()
