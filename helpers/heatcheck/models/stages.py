"""Training in stages, each within a budget of processor time and resumable."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypedDict

import torch
from torch import Tensor, nn

from heatcheck.models.training import rate_factor

Clock = Callable[[], float]
Measure = Callable[[], dict[str, float]]


@dataclass(frozen=True)
class Stage:
    """One stage of training.

    Attributes:
        name: Also the name of its checkpoint.
        seconds: Budget on the clock; the learning rate follows it.
        learning_rate: Largest learning rate of AdamW, reached after the warm-up; then a cosine to 0.
        weight_decay: On weights of more than one dimension.
        warmup: Steps during which the learning rate rises.
        clip: Largest norm of the gradient.
    """

    name: str
    seconds: float
    learning_rate: float
    weight_decay: float = 1e-4
    warmup: int = 100
    clip: float = 5.0


class Run(NamedTuple):
    """What happened in a stage.

    Attributes:
        steps: Steps taken.
        seconds: Time spent on them, without measurements.
        curve: What was measured on the way, with ``step``, ``seconds`` and the mean ``loss`` since the last.
    """

    steps: int
    seconds: float
    curve: list[dict[str, float]]


class _State(TypedDict):
    step: int
    spent: float
    curve: list[dict[str, float]]


def run_stage(
    stage: Stage,
    modules: Mapping[str, nn.Module],
    step_loss: Callable[[int, float], Tensor],
    *,
    folder: Path | None = None,
    measure: Measure | None = None,
    every: float = 120.0,
    clock: Clock = time.process_time,
) -> Run:
    """What happened; the parameters of ``modules`` are trained until the budget is spent.

    With a ``folder`` the state is kept there at each measurement, and a later call goes on from it.

    Args:
        stage: How long and how fast.
        modules: What is trained, by name.
        step_loss: Loss of a step, given its number and the share of the budget that is spent. What is drawn
            in it should follow from the number, so that a resumed run goes on with the next batches.
        folder: Where the checkpoint ``<stage>.pt`` lies.
        measure: Asked now and then, and at the end; its time does not count.
        every: Seconds on the clock between two measurements.
        clock: Time in seconds; processor time by default.

    Raises:
        FloatingPointError: The loss is no longer finite.
    """
    container = nn.ModuleDict(modules)
    parameters = [weight for weight in container.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(_groups(parameters, stage.weight_decay), lr=stage.learning_rate)
    path = None if folder is None else folder / f"{stage.name}.pt"
    state = _load(path, container, optimizer)
    losses: list[Tensor] = []
    measured = state["spent"]
    while state["spent"] < stage.seconds:
        begin, share = clock(), state["spent"] / stage.seconds
        _set_rate(optimizer, stage, state["step"], share)
        loss = step_loss(state["step"], share)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, stage.clip)
        optimizer.step()
        losses.append(loss.detach())
        state["step"] += 1
        state["spent"] += clock() - begin
        if state["spent"] - measured >= every or state["spent"] >= stage.seconds:
            _note(stage, state, losses, measure)
            _save(path, container, optimizer, state)
            losses, measured = [], state["spent"]
    return Run(state["step"], state["spent"], state["curve"])


def _groups(parameters: list[nn.Parameter], weight_decay: float) -> list[dict[str, object]]:
    """Parameters with and without weight decay; biases and normalization layers are not decayed."""
    return [
        {"params": [weight for weight in parameters if weight.ndim > 1], "weight_decay": weight_decay},
        {"params": [weight for weight in parameters if weight.ndim <= 1], "weight_decay": 0.0},
    ]


def _set_rate(optimizer: torch.optim.Optimizer, stage: Stage, step: int, share: float) -> None:
    rise = min(1.0, (step + 1) / (stage.warmup + 1))
    for group in optimizer.param_groups:
        group["lr"] = stage.learning_rate * rise * rate_factor(int(1e6 * share), 1_000_000, 0.0)


def _note(stage: Stage, state: _State, losses: list[Tensor], measure: Measure | None) -> None:
    mean = torch.stack(losses).mean().item()
    if not math.isfinite(mean):
        raise FloatingPointError(
            f"the loss of stage {stage.name!r} became {mean}; lower the learning rate {stage.learning_rate}"
        )
    row = {"step": float(state["step"]), "seconds": round(state["spent"], 1), "loss": round(mean, 4)}
    state["curve"].append(row | (measure() if measure else {}))


def _load(path: Path | None, container: nn.Module, optimizer: torch.optim.Optimizer) -> _State:
    if path is None or not path.exists():
        return {"step": 0, "spent": 0.0, "curve": []}
    kept = torch.load(path, map_location="cpu", weights_only=True)
    container.load_state_dict(kept["modules"])
    optimizer.load_state_dict(kept["optimizer"])
    state: _State = kept["state"]
    return state


def _save(path: Path | None, container: nn.Module, optimizer: torch.optim.Optimizer, state: _State) -> None:
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_suffix(".part")
    kept = {"modules": container.state_dict(), "optimizer": optimizer.state_dict(), "state": state}
    torch.save(kept, scratch)
    scratch.replace(path)
