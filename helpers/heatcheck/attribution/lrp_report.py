"""Conservation: where the relevance of a logit went, layer by layer."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.attribution.guard import check_inputs, untouched
from heatcheck.attribution.lrp import (
    Setting,
    canonical_form,
    check_in_bounds,
    composite_of,
    image_bounds,
    propagate,
)
from heatcheck.attribution.lrp_trace import Ledger
from heatcheck.attribution.passes import Piece, Query
from heatcheck.attribution.registry import check_options, get_method


class LayerRelevance(NamedTuple):
    """Relevance sums of one step, ``(N,)`` each.

    Attributes:
        name: Path of the layer, or the name of the function.
        kind: ``conv``, ``dense`` or ``sum``.
        outgoing: Of its output.
        incoming: Of all its inputs together.
    """

    name: str
    kind: str
    outgoing: Tensor
    incoming: Tensor

    @property
    def absorbed(self) -> Tensor:
        """What biases (and, far below, the stabilizer) kept."""
        return self.outgoing - self.incoming


class RelevanceReport(NamedTuple):
    """Relevance maps and the sums behind them.

    Attributes:
        heatmaps: ``(N, C, H, W)``, as the method gives them.
        start: Relevance of the targets, ``(N,)``; where it is negative, all signs are turned.
        image: What the pixels got in all, ``(N,)``.
        further_inputs: What parts that depend on further inputs got, such as a question, ``(N,)``.
        constants: What parts that depend on no input got, such as coordinates, ``(N,)``.
        layers: Steps from the logit down to the image.
    """

    heatmaps: Tensor
    start: Tensor
    image: Tensor
    further_inputs: Tensor
    constants: Tensor
    layers: tuple[LayerRelevance, ...]

    @property
    def absorbed(self) -> Tensor:
        """What the biases of all layers kept, ``(N,)``."""
        return self.start - self.image - self.further_inputs - self.constants


def relevance_report(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    method: str = "lrp",
    **options: Any,
) -> RelevanceReport:
    """Relevance maps of ``lrp`` or a variant, with the relevance at every layer.

    One image at a time, so that sums are over one image whatever its layers do with the batch axis.

    Args:
        model: As for ``lrp``.
        images: ``(N, C, H, W)``, at least one.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        method: ``lrp`` or one of its variants.
        **options: Options of the method.

    Raises:
        ValueError: Another method, an unusable option or input, or what ``lrp`` refuses.
    """
    if get_method(method).family != "lrp":
        raise ValueError(f"method {method!r} shares no relevance; give 'lrp' or a variant of it")
    if not len(images):
        raise ValueError("a report needs at least one image")
    setting = Setting(**check_options(method, options))
    check_inputs(model, images, targets)
    with untouched(model):
        query = Query(canonical_form(model, setting.batch_norm), images.detach(), targets, forward_args)
        rows = [_one(query, slice(row, row + 1), setting) for row in range(len(images))]
    return _joined(rows)


def _one(query: Query, row: slice, setting: Setting) -> RelevanceReport:
    part = query.at([Piece(0, row)], query.images[row].clone())
    bounds = image_bounds(part.images, setting)
    if setting.first == "box":
        check_in_bounds(part.images, bounds)
    ledger = Ledger()
    heatmaps, start = propagate(part, bounds, composite_of(setting), ledger, start=setting.start)
    shares = {further: heatmaps.new_zeros(()) for further in (True, False)}
    for constant, further in ledger.constants:
        if constant.grad is not None:
            shares[further] = shares[further] + constant.grad.sum()
    layers = tuple(LayerRelevance(*entry) for entry in ledger.entries)
    return RelevanceReport(heatmaps, start.sum(), heatmaps.sum(), shares[True], shares[False], layers)


def _joined(rows: list[RelevanceReport]) -> RelevanceReport:
    layers = tuple(
        LayerRelevance(
            same[0].name,
            same[0].kind,
            torch.stack([layer.outgoing for layer in same]),
            torch.stack([layer.incoming for layer in same]),
        )
        for same in zip(*(row.layers for row in rows), strict=True)
    )
    start, image, further, constants = (
        torch.stack([getattr(row, name) for row in rows])
        for name in ("start", "image", "further_inputs", "constants")
    )
    return RelevanceReport(
        torch.cat([row.heatmaps for row in rows]), start, image, further, constants, layers
    )
