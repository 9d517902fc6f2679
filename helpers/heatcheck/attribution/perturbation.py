"""Sliding patch: how much the score falls when a window of the image is hidden."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from heatcheck.attribution.fills import Behind, Fill, behind
from heatcheck.attribution.passes import (
    Count,
    Output,
    Piece,
    Query,
    forward_scores,
    forward_size,
    in_chunks,
    stream,
    wide,
)
from heatcheck.attribution.registry import register
from heatcheck.attribution.windows import (
    Place,
    Upsample,
    Windows,
    at_centers,
    make_windows,
    mean_over_windows,
    stretch,
)
from heatcheck.runtime.seeds import CounterGenerator

# The reference patch of the published figures, as a share of their 224 pixels.
_PATCH_SHARE = 29 / 224


@register(
    "sliding-patch",
    family="perturbation",
    cites="zeiler2014visualizing",
    variants={"sliding-patch-g": {"fill": "pushpull"}},
    variant_cites={"sliding-patch-g": "agarwal2020explaining"},
)
def sliding_patch(
    model: nn.Module,
    images: Tensor,
    targets: Tensor,
    *,
    forward_args: tuple[Tensor, ...] = (),
    generator: CounterGenerator | None = None,
    output: Output = "probability",
    patch: Count | None = None,
    stride: Count = 3,
    fill: Fill = "zero",
    fill_options: dict[str, Any] | None = None,
    aggregate: Literal["grid", "mean"] = "grid",
    place: Place = "stretch",
    upsample: Upsample = "bilinear",
    cover: bool = False,
) -> Tensor:
    """Fall of the score when a window is hidden, as a map, ``(N, 1, H, W)``.

    ``grid[i, j] = p_c(x) - p_c(x with window (i, j) filled)`` (Zeiler and Fergus 2014; Agarwal and Nguyen
    2020), positive where hiding hurts.

    Args:
        model: Classifier.
        images: ``(N, C, H, W)``.
        targets: ``(N,)``.
        forward_args: Further inputs of the model.
        generator: Not used.
        output: Explained score.
        patch: Side of the square window in pixels; by default 29/224 of the image's shorter side, but
            not less than the stride.
        stride: Pixels from one window to the next.
        fill: ``zero``, one number for all channels or each, in the space of the images, or the name of a
            removal operator, which is called with each window as the hole (SP-G).
        fill_options: Options of the removal operator.
        aggregate: ``grid`` resizes the grid to the image; ``mean`` gives each pixel the mean of all
            windows over it, 0 where there is none.
        place: With ``grid``: ``stretch`` resizes as if the grid's cells tiled the image, as published;
            ``centre`` puts each value at its window's centre.
        upsample: With ``grid`` and ``stretch``: how the grid is resized.
        cover: Add a cut window where the stride leaves pixels at the right or lower end uncovered.
            Without, as published, up to ``stride - 1`` pixels there are never hidden.

    Raises:
        ValueError: The patch is larger than the image, or the stride larger than the patch.
    """
    query = Query(model, images, targets, forward_args, output)
    height, width = images.shape[-2:]
    side = patch or default_patch(min(height, width), stride)
    rows, columns = (make_windows(length, side, stride, cover=cover) for length in (height, width))
    grid = sliding_patch_grid(query, rows, columns, behind(fill, fill_options, images))
    if aggregate == "mean":
        return mean_over_windows(grid, rows, columns)[:, None]
    if place == "centre":
        return at_centers(grid, rows, columns)[:, None]
    return stretch(grid, (height, width), upsample)[:, None]


def default_patch(side: int, stride: int) -> int:
    """Side of the window where none is given: 29/224 of the image's, but not less than the stride."""
    return max(stride, round(_PATCH_SHARE * side))


def sliding_patch_grid(query: Query, rows: Windows, columns: Windows, fill: Behind) -> Tensor:
    """Fall of the score for each window, ``(N, G, G')``.

    Args:
        query: The batch.
        rows: Windows along the height.
        columns: Windows along the width.
        fill: What windows are filled with, ``(N, C, H, W)`` or broadcast to it, or a removal operator.
    """
    n_rows, n_columns = len(rows.starts), len(columns.starts)
    fills = fill.expand_as(query.images) if isinstance(fill, Tensor) else None

    def window(step: int) -> tuple[slice, slice]:
        down, across = divmod(step, n_columns)
        return slice(rows.starts[down], rows.stops[down]), slice(
            columns.starts[across], columns.stops[across]
        )

    def write(piece: Piece, place: Tensor) -> None:
        # Copying and overwriting a window is several times faster than choosing pixel by pixel with a mask.
        place.copy_(query.images[piece.rows])
        if fills is not None:
            area = (..., *window(piece.step))
            place[area] = fills[piece.rows][area]

    def finish(pieces: Sequence[Piece], chunk: Tensor) -> Tensor:
        if isinstance(fill, Tensor):
            return chunk
        keep = torch.ones_like(chunk[:, :1], dtype=torch.bool)
        lengths = [piece.length for piece in pieces]
        for piece, place in zip(pieces, torch.split(keep, lengths), strict=True):
            place[(..., *window(piece.step))] = False
        return fill(chunk, keep)

    size, n_steps = forward_size(query), n_rows * n_columns
    clean = wide(in_chunks(forward_scores, query, size))
    falls = clean.new_empty(len(query.images), n_steps)
    for piece, scores in stream(forward_scores, query, write, n_steps=n_steps, size=size, finish=finish):
        falls[piece.rows, piece.step] = clean[piece.rows] - scores
    return falls.view(-1, n_rows, n_columns)
