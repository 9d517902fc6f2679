"""How relevance travels: what is known of a tensor, and steps whose backward pass shares relevance."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from heatcheck.attribution.lrp_rules import Bounds, LinearMap, ZoneRule

_NOTE = "_relevance_note"
_FURTHER = "_relevance_further_input"


class Composite(NamedTuple):
    """Which rule holds where.

    Attributes:
        first: Layers whose input is the image.
        conv: All other convolutions.
        dense: All other linear layers.
        epsilon: Stabilizer of sums, means and average pooling.
        positive_sums: Whether only positive addends of these take part.
        pass_norms: Whether relevance passes every batch normalization unchanged.
    """

    first: ZoneRule
    conv: ZoneRule
    dense: ZoneRule
    epsilon: float = 1e-6
    positive_sums: bool = False
    pass_norms: bool = False


@dataclass(frozen=True)
class Layer:
    """A linear layer in the forward pass, kept so that a batch normalization can be merged into it."""

    name: str
    kind: str
    map: LinearMap
    inputs: Tensor
    bounds: Bounds | None

    @property
    def has_channels_second(self) -> bool:
        """Whether axis 1 of its input and output are its channels, as a batch normalization has it."""
        return self.kind == "conv" or self.inputs.ndim == 2


class Affine(NamedTuple):
    """``inputs * scale + shift`` per channel, ``(K,)`` each: what a batch normalization is."""

    inputs: Tensor
    scale: Tensor
    shift: Tensor


@dataclass(frozen=True)
class Note:
    """What is known of a tensor: the layer or normalization it comes from, and bounds if it is the image."""

    version: int
    layer: Layer | None = None
    affine: Affine | None = None
    bounds: Bounds | None = None


class Entry(NamedTuple):
    """Relevance that one step got and gave in a backward pass, each summed."""

    name: str
    kind: str
    outgoing: Tensor
    incoming: Tensor


@dataclass(frozen=True)
class Ledger:
    """Where relevance went in one backward pass.

    Attributes:
        entries: Steps in backward order.
        constants: Tensors that do not depend on the image but took relevance, and whether they depend on a
            further input of the model.
    """

    entries: list[Entry] = field(default_factory=list)
    constants: list[tuple[Tensor, bool]] = field(default_factory=list)

    def leaf(self, constant: Tensor) -> Tensor:
        """``constant`` as a tensor that takes its share of the relevance."""
        leaf = constant.detach().requires_grad_(True)
        self.constants.append((leaf, depends_on_further(constant)))
        return leaf


class Call(NamedTuple):
    """A function of the model's forward pass with its arguments."""

    func: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    in_place: bool

    def argument(self, index: int, *names: str, default: Any = None) -> Any:
        """Argument at ``index``, or by one of ``names``."""
        if len(self.args) > index:
            return self.args[index]
        return next((self.kwargs[name] for name in names if name in self.kwargs), default)

    @property
    def target(self) -> Tensor:
        """First argument, which a form in place changes."""
        tensor: Tensor = self.argument(0, "input")
        return tensor

    def replace(self, old: Tensor, new: Tensor) -> "Call":
        """The same call with ``new`` in the place of ``old``."""
        args = tuple(new if part is old else part for part in self.args)
        return self._replace(args=args, kwargs={k: new if v is old else v for k, v in self.kwargs.items()})

    def run(self) -> Any:
        """Its result."""
        return self.func(*self.args, **self.kwargs)

    def evaluate(self) -> Any:
        """Its result without a graph; a form in place works on a copy."""
        with torch.no_grad():
            return (self.replace(self.target, self.target.clone()) if self.in_place else self).run()


Share = Callable[..., tuple[Tensor, ...]]


class Plan(NamedTuple):
    """A step of the backward pass: ``share(relevance, *inputs)`` gives the relevance of each input."""

    name: str
    kind: str
    share: Share
    ledger: Ledger | None
    saves: bool = True


def spread(plan: Plan, value: Tensor, *inputs: Tensor) -> Tensor:
    """``value``, whose relevance goes to ``inputs`` by ``plan``."""
    result: Tensor = _Spread.apply(plan, [value], *inputs)
    return result


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, held: list[Tensor], *inputs: Tensor) -> Tensor:
        ctx.plan = plan
        if plan.saves:
            ctx.save_for_backward(*inputs)
        # Taken out of the list: an argument given back would count as a view, which no step in place may
        # change, and would be kept alive.
        return held.pop()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (relevance,) = gradients
        shares = ctx.plan.share(relevance, *ctx.saved_tensors)
        if ctx.plan.ledger is not None:
            total = torch.stack([share.sum() for share in shares]).sum()
            ctx.plan.ledger.entries.append(Entry(ctx.plan.name, ctx.plan.kind, relevance.sum(), total))
        return (None, None, *shares)


def note_of(tensor: Tensor) -> Note | None:
    """What is known of ``tensor``, unless it was changed in place since."""
    note: Note | None = getattr(tensor, _NOTE, None)
    return note if note is not None and note.version == tensor._version else None


def annotate(
    tensor: Tensor, *, layer: Layer | None = None, affine: Affine | None = None, bounds: Bounds | None = None
) -> Tensor:
    """``tensor``, of which this is known from now on."""
    setattr(tensor, _NOTE, Note(tensor._version, layer, affine, bounds))
    return tensor


def bounds_of(tensor: Tensor) -> Bounds | None:
    """Bounds of ``tensor`` if it is the image or a rearrangement of it."""
    note = note_of(tensor)
    return note.bounds if note else None


def depends_on_further(tensor: Tensor) -> bool:
    """Whether ``tensor`` was computed from a further input of the model."""
    return bool(getattr(tensor, _FURTHER, False))


def mark_further(tensor: Tensor) -> Tensor:
    """``tensor``, said to be computed from a further input of the model."""
    setattr(tensor, _FURTHER, True)
    return tensor


def tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in nested tuples, lists and dictionaries."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from tensors_in(part)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors_in(part)


def active_tensors(values: Iterable[Any]) -> list[Tensor]:
    """Tensors in ``values`` that depend on the image."""
    return [tensor for value in values for tensor in tensors_in(value) if tensor.requires_grad]
