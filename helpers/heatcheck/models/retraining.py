"""Training that a seed decides, resumable by epochs, and evaluation on all images."""

import copy
import dataclasses
import io
import math
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypedDict

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.models.retrain_draws import derived_seed, fresh_randomness
from heatcheck.models.retrain_recipes import RetrainRecipe, autocast_dtype
from heatcheck.runtime.files import write_whole
from heatcheck.runtime.progress import progress

Batches = Iterable[tuple[Tensor, Tensor]]
Loss = Callable[[Tensor, Tensor], Tensor]
_NORMALIZATIONS = (nn.modules.batchnorm._BatchNorm, nn.GroupNorm, nn.LayerNorm)


class TrainingImages(Protocol):
    """What ``retrain`` learns from: a number of images, and the batches of any steps."""

    def __len__(self) -> int:
        """Number of images."""
        ...

    def training(self, steps: range, recipe: RetrainRecipe) -> Iterator[tuple[Tensor, Tensor]]:
        """Normalized images ``(n, C, H, W)`` and targets of ``steps``, in order.

        They must follow from the recipe's seed and a step's number alone: a resumed run asks for later steps
        only.
        """
        ...


class Trained(NamedTuple):
    """What training left behind.

    Attributes:
        module: The network after the last step, in evaluation mode.
        history: For each epoch its number, the learning rate of its last step and the mean ``loss``.
    """

    module: nn.Module
    history: list[dict[str, float]]


class Evaluation(NamedTuple):
    """What a network says about each of ``N`` images.

    Attributes:
        correct: ``(N,)`` bool, whether the largest logit is at the target.
        predictions: ``(N,)`` int64 classes of the largest logits.
        losses: ``(N,)`` float32 cross-entropies in nats, without label smoothing.
    """

    correct: Tensor
    predictions: Tensor
    losses: Tensor

    @property
    def accuracy(self) -> float:
        """Share of correct images."""
        return self.correct.double().mean().item()


class _State(TypedDict):
    step: int
    history: list[dict[str, float]]


class _Parts(NamedTuple):
    """What a checkpoint holds."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler


def retrain(
    build: Callable[[], nn.Module],
    source: TrainingImages,
    recipe: RetrainRecipe,
    *,
    device: torch.device | str = "cpu",
    checkpoint: Path | None = None,
    loss: Loss | None = None,
    label: str = "retrain",
) -> Trained:
    """Network after training; its weights are those of the last step, whichever epoch was best.

    With a ``checkpoint`` the state is kept there after each epoch, and a later call goes on from it: on one
    CPU the weights are those of a run that was not stopped, bit for bit. A call after the last step returns
    them at once; the file is the caller's to delete.

    Args:
        build: Makes the network; what it draws from torch's generator is decided by the recipe's seed.
        source: Training images.
        recipe: How to train.
        device: Where to train; the batches are moved there.
        checkpoint: A file of this training alone.
        loss: Mean loss of logits, in float32, and targets; by default the cross-entropy of the recipe.
        label: What the progress bar calls the work.

    Raises:
        ValueError: There are no images, the precision is not for this device, or the checkpoint is damaged
            or of another training.
        FloatingPointError: The loss is no longer finite.
    """
    device, count = torch.device(device), len(source)
    if not count:
        raise ValueError("there are no training images; give at least one")
    autocast_dtype(recipe, device)
    with fresh_randomness(derived_seed(recipe.seed, "weights"), device):
        module = build().to(device=device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(module, recipe)
    scaler = torch.amp.GradScaler(device.type, enabled=recipe.precision == "float16")
    parts = _Parts(module, optimizer, scaler)
    state = _load(checkpoint, parts, recipe, count)
    loss = loss or partial(F.cross_entropy, label_smoothing=recipe.label_smoothing)
    module.train()
    for steps in progress(_epochs(recipe, count, state["step"]), label=label):
        with fresh_randomness(derived_seed(recipe.seed, "steps", steps.start), device):
            mean = _train_steps(steps, source, recipe, parts, loss)
        rate = recipe.rate(steps[-1], count)
        state["history"].append({"epoch": len(state["history"]), "learning_rate": rate, "loss": mean})
        state["step"] = steps.stop
        _save(checkpoint, parts, recipe, count, state)
    optimizer.zero_grad()  # what is handed over has no gradients left
    return Trained(module.eval(), state["history"])


def continued(module: nn.Module) -> Callable[[], nn.Module]:
    """Function for ``retrain`` that copies ``module``, so that training goes on from its weights."""

    def build() -> nn.Module:
        return copy.deepcopy(module).requires_grad_(True)

    return build


@torch.no_grad()
def evaluate(module: nn.Module, batches: Batches) -> Evaluation:
    """What ``module`` says about all images of ``batches``, in their order, computed in evaluation mode.

    Args:
        module: Logits ``(n, K)`` of normalized images; its mode is afterwards what it was.
        batches: Normalized images and targets ``(n,)``; they are moved to the module's device.

    Raises:
        ValueError: There is no batch.
    """
    found: list[tuple[Tensor, Tensor, Tensor]] = []
    with evaluation_mode(module):
        device = next(module.parameters()).device
        for images, targets in batches:
            goal = targets.to(device)
            logits = module(images.to(device)).float()
            predictions = logits.argmax(dim=1)
            losses = F.cross_entropy(logits, goal, reduction="none")
            found.append((predictions == goal, predictions, losses))
    if not found:
        raise ValueError("there is no batch to evaluate; give at least one image")
    return Evaluation(*(torch.cat(parts).cpu() for parts in zip(*found, strict=True)))


@contextmanager
def evaluation_mode(module: nn.Module) -> Iterator[nn.Module]:
    """``module`` in evaluation mode; afterwards every part of it is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    try:
        yield module.eval()
    finally:
        for part, training in modes:
            part.training = training


def make_optimizer(module: nn.Module, recipe: RetrainRecipe) -> torch.optim.Optimizer:
    """Optimizer of ``recipe``; parameters of normalization layers do not decay, biases of others do."""
    free = {
        id(weight)
        for layer in module.modules()
        if isinstance(layer, _NORMALIZATIONS)
        for weight in layer.parameters(recurse=False)
    }
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    groups: list[dict[str, Any]] = [
        {
            "params": [weight for weight in weights if id(weight) not in free],
            "weight_decay": recipe.weight_decay,
        },
        {"params": [weight for weight in weights if id(weight) in free], "weight_decay": 0.0},
    ]
    if recipe.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=recipe.learning_rate)
    return torch.optim.SGD(groups, lr=recipe.learning_rate, momentum=recipe.momentum, nesterov=True)


def _epochs(recipe: RetrainRecipe, count: int, step: int) -> list[range]:
    """Steps of each epoch from ``step`` on; the last may be shorter."""
    per_epoch, n_steps = math.ceil(count / recipe.batch_size), recipe.n_steps(count)
    return [range(start, min(start + per_epoch, n_steps)) for start in range(step, n_steps, per_epoch)]


def _train_steps(
    steps: range, source: TrainingImages, recipe: RetrainRecipe, parts: _Parts, loss: Loss
) -> float:
    """Mean loss of ``steps``."""
    values: list[Tensor] = []
    for step, (images, targets) in zip(steps, source.training(steps, recipe), strict=True):
        for group in parts.optimizer.param_groups:
            group["lr"] = recipe.rate(step, len(source))
        parts.optimizer.zero_grad()
        size = recipe.images_per_pass or len(images)
        for some, goal in zip(torch.split(images, size), torch.split(targets, size), strict=True):
            value = _loss_of(some, goal, recipe, parts.module, loss) * (len(some) / len(images))
            parts.scaler.scale(value).backward()  # type: ignore[no-untyped-call]
            values.append(value.detach())
        parts.scaler.step(parts.optimizer)
        parts.scaler.update()
    mean = torch.stack(values).sum().item() / len(steps)
    if not math.isfinite(mean):
        raise FloatingPointError(f"the loss became {mean}; lower the learning rate {recipe.learning_rate}")
    return mean


def _loss_of(images: Tensor, targets: Tensor, recipe: RetrainRecipe, module: nn.Module, loss: Loss) -> Tensor:
    device = next(module.parameters()).device
    dtype = autocast_dtype(recipe, device)
    with torch.autocast(device.type, dtype, enabled=dtype is not None):
        logits = module(images.to(device))
    return loss(logits.float(), targets.to(device))


def _load(path: Path | None, parts: _Parts, recipe: RetrainRecipe, count: int) -> _State:
    if path is None or not path.exists():
        return {"step": 0, "history": []}
    advice = f"delete {path} to train from the start, or name another file"
    try:
        kept = torch.load(path, map_location="cpu", weights_only=True)
        told, state = kept["told"], kept["state"]
    except (pickle.UnpicklingError, RuntimeError, EOFError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"checkpoint {path} is damaged ({error}); {advice}") from error
    if told != _told(recipe, count):
        raise ValueError(f"checkpoint {path} is of another recipe or number of images; {advice}")
    for name, part in parts._asdict().items():
        part.load_state_dict(kept[name])
    result: _State = state
    return result


def _save(path: Path | None, parts: _Parts, recipe: RetrainRecipe, count: int, state: _State) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    kept = {name: part.state_dict() for name, part in parts._asdict().items()}
    buffer = io.BytesIO()
    torch.save({"told": _told(recipe, count), "state": state, **kept}, buffer)
    write_whole(path, buffer.getvalue())


def _told(recipe: RetrainRecipe, count: int) -> dict[str, Any]:
    return {"n_images": count, **dataclasses.asdict(recipe)}
