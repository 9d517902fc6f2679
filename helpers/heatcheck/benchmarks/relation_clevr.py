"""The published training of the Relation Network, on CLEVR v1.0.

Arras, Osman and Samek 2022, "CLEVR-XAI", section 3.3: Adam, cross-entropy, weight decay, clipped gradients,
random crops and rotations. What the paper leaves open is taken from public replications, which stay near 65 %
without a slow start of the learning rate.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.data.clevr.clevr_v1 import Split, open_clevr
from heatcheck.data.clevr.vocabulary import answer_index, encode
from heatcheck.data.decoded import DecodedImages
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.state_dict import own_randomness
from heatcheck.models.training import rate_factor
from heatcheck.runtime.progress import progress


@dataclass(frozen=True)
class Published:
    """The published recipe.

    Attributes:
        epochs: Passes over all questions; the paper trained for at most so many.
        batch: Questions per step.
        learning_rate: Of Adam, at its largest.
        weight_decay: L2 penalty.
        clip: Largest norm of the gradient.
        warmup: Share of all steps during which the learning rate rises; then it follows a cosine to 0. The
            paper says "decay" only.
        shift: Largest shift of the crop in pixels, of an image padded with black; from public replications.
        angle: Largest rotation in radians; from public replications.
        seed: Decides weights, order and augmentation.
    """

    epochs: int = 1200
    batch: int = 64
    learning_rate: float = 2.5e-4
    weight_decay: float = 4e-5
    clip: float = 5.0
    warmup: float = 0.02
    shift: int = 8
    angle: float = 0.05
    seed: int = 0


class ClevrQuestions(NamedTuple):
    """One split of CLEVR as training takes it.

    Attributes:
        images: Decoded images.
        rows: ``(Q,)`` int64 image of each question.
        tokens: ``(Q, L)`` uint8, which holds all 82.
        lengths: ``(Q,)`` int64.
        answers: ``(Q,)`` int64.
    """

    images: DecodedImages
    rows: Tensor
    tokens: Tensor
    lengths: Tensor
    answers: Tensor


def read_split(
    root: Path, split: Split, cache: Path, *, size: int = 128, partial: bool = False
) -> ClevrQuestions:
    """One split of the archive in ``root``; images are decoded to ``cache`` when first asked for.

    Raises:
        FileNotFoundError: A file is missing.
        ValueError: A file is damaged.
    """
    opened = open_clevr(root, split, partial=partial)
    encoded = encode([question.text for question in opened.questions])
    return ClevrQuestions(
        opened.decoded(cache, size),
        torch.tensor(opened.rows(range(len(opened.questions)))),
        encoded.tokens.to(torch.uint8),
        encoded.lengths,
        torch.tensor([answer_index(question.answer) for question in opened.questions]),
    )


def train_published(
    data: ClevrQuestions,
    validation: ClevrQuestions,
    recipe: Published,
    *,
    size: int = 128,
    device: str = "cpu",
    folder: Path | None = None,
) -> tuple[RelationNetwork, list[dict[str, float]]]:
    """The network of the epoch that is best on ``validation``, and loss and accuracy of each epoch.

    Args:
        data: Training questions.
        validation: Questions that decide which epoch is kept.
        recipe: How to train.
        size: Side of the images in pixels.
        device: Where to train.
        folder: Where the checkpoint ``published.pt`` lies, from which an interrupted training goes on.

    Raises:
        FloatingPointError: The loss is no longer finite.
    """
    with own_randomness(recipe.seed):
        network = RelationNetwork(size).to(device)
        optimizer = torch.optim.Adam(
            network.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        path = None if folder is None else folder / "published.pt"
        state = _load(path, network, optimizer)
        for epoch in progress(range(len(state["curve"]), recipe.epochs), label="train on CLEVR"):
            loss = _epoch(network, optimizer, data, recipe, epoch)
            right = clevr_accuracy(network, validation)
            state["curve"].append({"epoch": float(epoch), "loss": loss, "accuracy": right})
            if right > state["accuracy"]:
                state["accuracy"] = right
                state["best"] = {key: value.cpu().clone() for key, value in network.state_dict().items()}
            _save(path, network, optimizer, state)
    network.load_state_dict(state["best"])
    return network.cpu().eval(), state["curve"]


def _epoch(
    network: RelationNetwork,
    optimizer: torch.optim.Optimizer,
    data: ClevrQuestions,
    recipe: Published,
    epoch: int,
) -> float:
    """Mean loss of one pass."""
    device = network.f1.weight.device
    generator = torch.Generator().manual_seed(recipe.seed * 1_000_003 + epoch)
    order = torch.randperm(len(data.rows), generator=generator)
    steps = math.ceil(len(order) / recipe.batch)
    total = torch.zeros((), device=device)
    network.train()
    for step, part in enumerate(torch.split(order, recipe.batch)):
        factor = rate_factor(epoch * steps + step, recipe.epochs * steps, recipe.warmup)
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * factor
        images = data.images.images(data.rows[part].tolist()).to(device)
        tokens, lengths = data.tokens[part].long().to(device), data.lengths[part].to(device)
        logits = network(jittered(images, recipe, generator), tokens, lengths)
        loss = F.cross_entropy(logits, data.answers[part].to(device))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(network.parameters(), recipe.clip)
        optimizer.step()
        total += loss.detach() * len(part)
    mean = total.item() / len(order)
    if not math.isfinite(mean):
        raise FloatingPointError(
            f"the loss became {mean} in epoch {epoch}; lower the learning rate {recipe.learning_rate}"
        )
    return mean


def jittered(images: Tensor, recipe: Published, generator: torch.Generator) -> Tensor:
    """``images`` ``(N, 3, S, S)``, each shifted by whole pixels and rotated at random; black comes in."""
    n, size = len(images), images.shape[-1]
    angle = (2 * torch.rand(n, generator=generator) - 1) * recipe.angle
    shift = torch.randint(-recipe.shift, recipe.shift + 1, (n, 2), generator=generator) * (2 / size)
    rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], dim=1).view(n, 2, 2)
    affine = torch.cat([rotation, shift[..., None]], dim=2).to(images)
    grid = F.affine_grid(affine, list(images.shape), align_corners=False)
    return F.grid_sample(images, grid, align_corners=False)


@torch.no_grad()
def clevr_accuracy(network: RelationNetwork, data: ClevrQuestions, *, chunk: int = 64) -> float:
    """Share of the questions of ``data`` answered rightly; the network is set to evaluation."""
    device = network.f1.weight.device
    network.eval()
    hits = 0
    for part in torch.split(torch.arange(len(data.rows)), chunk):
        images = data.images.images(data.rows[part].tolist()).to(device)
        tokens, lengths = data.tokens[part].long().to(device), data.lengths[part].to(device)
        hits += int((network(images, tokens, lengths).argmax(dim=1).cpu() == data.answers[part]).sum())
    return hits / len(data.rows)


def _load(path: Path | None, network: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    if path is None or not path.exists():
        return {"curve": [], "accuracy": -1.0, "best": {}}
    kept: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    network.load_state_dict(kept["network"])
    optimizer.load_state_dict(kept["optimizer"])
    state: dict[str, Any] = kept["state"]
    return state


def _save(
    path: Path | None, network: nn.Module, optimizer: torch.optim.Optimizer, state: dict[str, Any]
) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    kept = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "state": state}
    torch.save(kept, scratch)
    scratch.replace(path)
