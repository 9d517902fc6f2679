"""One knob for memory: chunk sizes follow from a budget and are halved when memory runs out."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

Result = TypeVar("Result")

_UNITS = {"": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}
# On a CPU a forward pass is fastest per image while its inputs fit the cache: about 3 MB, measured on
# networks of every size. More images at once only cost page faults.
_CPU_INPUT_BYTES = 3_000_000
_CHUNK_CAP = {"cpu": 64}
# With a gradient all activations stay alive, and fewer images at once keep them nearer.
_CHUNK_CAP_BACKWARD = {"cpu": 32}
_ACTIVATIONS: WeakKeyDictionary[nn.Module, dict[tuple[object, ...], int]] = WeakKeyDictionary()


class Limits(NamedTuple):
    """Extra memory a routine may use, in bytes, and the most images per forward pass (None: by device)."""

    budget: int
    chunk: int | None


_LIMITS: ContextVar[Limits | None] = ContextVar("limits", default=None)


def parse_bytes(size: int | str) -> int:
    """Number of bytes in ``size``: an integer, or text such as ``150MB`` or ``2 GiB``.

    Raises:
        ValueError: The text is no positive size.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]i?b)?\s*", str(size).lower())
    if match is None or float(match[1]) <= 0:
        raise ValueError(f"memory budget {size!r} is no size; write bytes or for example '150MB' or '2GiB'")
    return int(float(match[1]) * _UNITS[match[2] or ""])


@contextmanager
def memory_budget(budget: int | str, *, chunk: int | None = None) -> Iterator[Limits]:
    """Within the block, routines use at most ``budget`` extra memory and ``chunk`` images per forward.

    Results never depend on either number.
    """
    if chunk is not None and chunk < 1:
        raise ValueError(f"chunk must be at least 1, got {chunk}")
    limits = Limits(parse_bytes(budget), chunk)
    token = _LIMITS.set(limits)
    try:
        yield limits
    finally:
        _LIMITS.reset(token)


def current_limits(device: torch.device) -> Limits:
    """Limits in force: those of the enclosing ``memory_budget``, else a default for ``device``."""
    limits = _LIMITS.get()
    if limits is not None:
        return limits
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return Limits(free // 2, None)
    return Limits(parse_bytes("128MB"), None)


def chunk_size(
    bytes_per_item: int, device: torch.device, *, input_bytes: int = 0, backward: bool = False
) -> int:
    """How many items of ``bytes_per_item`` fit the budget on ``device``, at least one.

    Args:
        bytes_per_item: Extra memory of one item.
        device: Where the items are.
        input_bytes: Size of one item's input; on a CPU the inputs of a chunk should fit its cache.
        backward: Activations are kept for a gradient.
    """
    limits = current_limits(device)
    cap = limits.chunk or (_CHUNK_CAP_BACKWARD if backward else _CHUNK_CAP).get(device.type, 1024)
    if device.type == "cpu" and limits.chunk is None and input_bytes:
        cap = min(cap, _CPU_INPUT_BYTES // input_bytes)
    return max(1, min(cap, limits.budget // max(1, bytes_per_item)))


def model_chunk(
    model: nn.Module, images: Tensor, *, forward_args: tuple[Tensor, ...] = (), backward: bool = False
) -> int:
    """How many images of ``images`` ``(N, ...)`` go through ``model`` at once within the budget.

    Args:
        model: Any module; it is run once on one image to measure its activations.
        images: Batch of the images to come.
        forward_args: Further inputs of the model, ``(N, ...)`` each.
        backward: Activations are kept for a gradient.
    """
    activations = activation_bytes(model, images[:1], tuple(extra[:1] for extra in forward_args))
    # Without a gradient only a few activations live at once; a quarter of their sum is a safe bound.
    needed = 2 * activations if backward else max(1, activations // 4)
    return chunk_size(needed, images.device, input_bytes=images[:1].nbytes, backward=backward)


def activation_bytes(model: nn.Module, image: Tensor, forward_args: tuple[Tensor, ...] = ()) -> int:
    """Bytes of all leaf modules' outputs for one image ``(1, ...)``, the image itself included."""
    shape = (tuple(image.shape), image.dtype, *(tuple(extra.shape) for extra in forward_args))
    known = _ACTIVATIONS.setdefault(model, {})
    if shape not in known:
        known[shape] = _measure_activations(model, image, forward_args)
    return known[shape]


def _measure_activations(model: nn.Module, image: Tensor, forward_args: tuple[Tensor, ...]) -> int:
    total = 3 * image.nbytes

    def add(_module: nn.Module, _inputs: object, output: object) -> None:
        nonlocal total
        total += output.nbytes if isinstance(output, Tensor) else 0

    leaves = [module for module in model.modules() if not any(module.children())]
    handles = [leaf.register_forward_hook(add) for leaf in leaves]
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()
        with torch.no_grad():
            model(image, *forward_args)
    finally:
        for handle in handles:
            handle.remove()
        for module, training in modes:
            module.training = training
    return total


def map_chunks(function: Callable[[slice], Result], count: int, size: int) -> Iterator[tuple[slice, Result]]:
    """``function`` of consecutive slices of ``range(count)``, each at most ``size`` long.

    When a slice runs out of memory it is tried again at half the size, down to one item. ``function``
    must not change anything outside itself; the caller accumulates what is yielded.

    Raises:
        MemoryError: A single item does not fit.
    """
    start, size = 0, max(1, size)
    while start < count:
        part = slice(start, min(start + size, count))
        try:
            result = function(part)
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            if size == 1:
                raise MemoryError(
                    "one image alone does not fit into memory; use smaller images or another device"
                ) from error
            size = max(1, size // 2)
            continue
        yield part, result
        start = part.stop
