"""Forward and backward passes in chunks: the ground that every method stands on."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Literal, NamedTuple

import pydantic
import torch
from torch import Tensor, nn

from heatcheck.removal.color import channel_values as channel_values
from heatcheck.runtime.memory import map_chunks, model_chunk
from heatcheck.runtime.seeds import CounterGenerator

Output = Literal["logit", "probability"]
Count = Annotated[int, pydantic.Field(ge=1, le=1_000_000)]
Positive = Annotated[float, pydantic.Field(gt=0)]
NotNegative = Annotated[float, pydantic.Field(ge=0)]


class Piece(NamedTuple):
    """Consecutive images of the batch in one round (a step, a sample or a mask)."""

    step: int
    rows: slice

    @property
    def length(self) -> int:
        """Number of images."""
        return int(self.rows.stop - self.rows.start)


class Query(NamedTuple):
    """What is asked of a model: the score of class ``targets[n]`` on ``images[n]``, for all n.

    Attributes:
        model: ``(N, C, H, W) -> (N, K)`` logits.
        images: ``(N, C, H, W)`` floating.
        targets: ``(N,)`` int64.
        forward_args: Further inputs of the model, ``(N, ...)`` each.
        output: Whether the score is the logit or the softmax probability.
        generator: Random numbers of the images, where a method needs them.
    """

    model: nn.Module
    images: Tensor
    targets: Tensor
    forward_args: tuple[Tensor, ...] = ()
    output: Output = "logit"
    generator: CounterGenerator | None = None

    def at(self, pieces: Sequence[Piece], images: Tensor) -> "Query":
        """The same question about ``images``, which stand for the rows named by ``pieces``."""
        targets = join([self.targets[piece.rows] for piece in pieces])
        extras = tuple(join([extra[piece.rows] for piece in pieces]) for extra in self.forward_args)
        rows = [row for piece in pieces for row in range(piece.rows.start, piece.rows.stop)]
        generator = self.generator.take(rows) if self.generator else None
        return self._replace(images=images, targets=targets, forward_args=extras, generator=generator)


def join(parts: Sequence[Tensor]) -> Tensor:
    """Concatenation along the first axis; a single part is not copied."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def pieces_of(part: slice, n_images: int) -> list[Piece]:
    """Pieces that the pairs ``part`` consist of, when pair ``p`` is image ``p % N`` in round ``p // N``."""
    found, start = [], part.start
    while start < part.stop:
        step, first = divmod(start, n_images)
        stop = min(part.stop, (step + 1) * n_images)
        found.append(Piece(step, slice(first, first + stop - start)))
        start = stop
    return found


def class_scores(query: Query) -> Tensor:
    """Scores ``(N, K)`` of all classes, from one forward pass.

    Raises:
        ValueError: The model's output is not ``(N, K)`` or has no such class as a target.
    """
    outputs = query.model(query.images, *query.forward_args)
    n_images = len(query.images)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != n_images:
        found = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ValueError(f"the model must return logits of shape ({n_images}, K), it returned {found}")
    if n_images and int(query.targets.max()) >= outputs.shape[1]:
        worst, last = int(query.targets.max()), outputs.shape[1] - 1
        raise ValueError(f"target {worst} is no class of the model; it scores the classes 0 to {last}")
    return outputs.softmax(dim=1) if query.output == "probability" else outputs


def target_scores(query: Query) -> Tensor:
    """Scores ``(N,)`` of the targets, from one forward pass.

    Raises:
        ValueError: As for ``class_scores``.
    """
    outputs = class_scores(query)
    return outputs.gather(1, query.targets.to(outputs.device)[:, None])[:, 0]


def forward_scores(query: Query) -> Tensor:
    """Scores ``(N,)`` of the targets without a gradient; the model gets ``query.images`` themselves."""
    with torch.no_grad():
        return target_scores(query)


def input_gradients(query: Query) -> Tensor:
    """Derivatives ``(N, C, H, W)`` of each image's score with respect to the image, float32 or wider."""
    leaf = query.images.detach().requires_grad_(True)
    # The model gets a copy, so that an in-place first layer neither fails nor reaches the images.
    scores = target_scores(query._replace(images=leaf.clone()))
    (gradients,) = torch.autograd.grad(scores.sum(), leaf)
    return wide(gradients)


def memory_layout(images: Tensor) -> torch.memory_format:
    """Whether ``images`` ``(N, C, H, W)`` lie channel by channel or pixel by pixel in memory."""
    by_pixel = images.is_contiguous(memory_format=torch.channels_last) and not images.is_contiguous()
    return torch.channels_last if by_pixel else torch.contiguous_format


def wide(values: Tensor) -> Tensor:
    """``values`` in float32 or their own wider type."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def backward_size(query: Query) -> int:
    """How many images at once fit the memory budget with their gradient."""
    return _size(query, backward=True)


def forward_size(query: Query) -> int:
    """How many images at once fit the memory budget without a gradient."""
    return _size(query, backward=False)


def stream(
    evaluate: Callable[[Query], Tensor],
    query: Query,
    write: Callable[[Piece, Tensor], object],
    *,
    n_steps: int,
    size: int,
    finish: Callable[[Sequence[Piece], Tensor], Tensor] | None = None,
) -> Iterator[tuple[Piece, Tensor]]:
    """Values of ``evaluate`` for every image in every round, round by round, in chunks that span both.

    For each image the rounds come in ascending order whatever the chunks are, so sums over them do not
    depend on batch or chunk size. Images keep the batch's layout in memory: channels last is faster for
    convolutions on a CPU.

    Args:
        evaluate: Maps a query to values ``(n, ...)``; its images are a fresh copy.
        query: The batch.
        write: Fills ``(length, C, H, W)`` with the images of a piece.
        n_steps: Number of rounds ``S``.
        size: Most images per call of ``evaluate``.
        finish: Makes what ``evaluate`` gets of a chunk's pieces and written images, all of them at once.

    Yields:
        A piece and its values ``(length, ...)``.
    """
    n_images, layout = len(query.images), memory_layout(query.images)

    def run(part: slice) -> Tensor:
        pieces = pieces_of(part, n_images)
        shape = (part.stop - part.start, *query.images.shape[1:])
        images = torch.empty(
            shape, dtype=query.images.dtype, device=query.images.device, memory_format=layout
        )
        for piece, place in zip(pieces, _split(images, pieces), strict=True):
            write(piece, place)
        return evaluate(query.at(pieces, finish(pieces, images) if finish else images))

    for part, values in map_chunks(run, n_images * n_steps, size):
        pieces = pieces_of(part, n_images)
        yield from zip(pieces, _split(values, pieces), strict=True)


def in_chunks(evaluate: Callable[[Query], Tensor], query: Query, size: int) -> Tensor:
    """Values ``(N, ...)`` of ``evaluate``, at most ``size`` images at a time, each a fresh copy."""
    if not len(query.images):
        return evaluate(query)

    def write(piece: Piece, place: Tensor) -> None:
        place.copy_(query.images[piece.rows])

    return join([values for _, values in stream(evaluate, query, write, n_steps=1, size=size)])


def _split(values: Tensor, pieces: Sequence[Piece]) -> list[Tensor]:
    return list(torch.split(values, [piece.length for piece in pieces]))


def _size(query: Query, *, backward: bool) -> int:
    if not len(query.images):
        return 1
    # A copy: measuring runs the model, which may work in place on its input.
    one, extras = query.images[:1].clone(), tuple(extra[:1] for extra in query.forward_args)
    return model_chunk(query.model, one, forward_args=extras, backward=backward)
