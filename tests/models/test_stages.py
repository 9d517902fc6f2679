"""Stages of training on a clock of their own, so that budgets are numbers of steps."""

from collections.abc import Iterator
from itertools import count, pairwise
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.stages import Run, Stage, run_stage

STAGE = Stage("lesson", 8.0, 0.05, warmup=2)


def ticking() -> Iterator[float]:
    """A clock that moves on by one second between every two looks at it."""
    return (float(tick) for tick in count())


def train(
    model: nn.Linear, stage: Stage = STAGE, folder: Path | None = None, stop_at: int | None = None
) -> tuple[Run, list[int]]:
    """What happened, and the numbers of the steps; the model learns to double."""
    steps: list[int] = []

    def step_loss(step: int, share: float) -> Tensor:
        if step == stop_at:
            raise KeyboardInterrupt
        assert share == step / stage.seconds
        steps.append(step)
        inputs = torch.randn(16, 3, generator=torch.Generator().manual_seed(step))
        loss: Tensor = (model(inputs) - 2 * inputs).square().mean()
        return loss

    clock = ticking()
    run = run_stage(
        stage,
        {"model": model},
        step_loss,
        folder=folder,
        measure=lambda: {"size": model.weight.abs().max().item()},
        every=3.0,
        clock=lambda: next(clock),
    )
    return run, steps


def linear() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 3)


def test_a_stage_takes_as_many_steps_as_its_budget_lasts() -> None:
    run, steps = train(linear())
    assert (run.steps, run.seconds) == (8, 8.0)
    assert steps == list(range(8))


def test_the_loss_falls_and_is_noted_with_what_is_measured() -> None:
    run, _ = train(linear(), Stage("long", 200.0, 0.05))
    assert [row["step"] for row in run.curve[:3]] == [3, 6, 9]
    assert run.curve[-1]["step"] == 200
    assert run.curve[-1]["loss"] < 0.2 * run.curve[0]["loss"]
    assert run.curve[-1].keys() == {"step", "seconds", "loss", "size"}


def test_an_interrupted_stage_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    whole, broken = linear(), linear()
    expected, _ = train(whole, folder=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(broken, folder=tmp_path / "broken", stop_at=7)
    resumed = linear()
    found, steps = train(resumed, folder=tmp_path / "broken")
    assert steps == [6, 7]  # the last measurement was after step 5
    assert found == expected
    torch.testing.assert_close(resumed.weight, whole.weight, rtol=0, atol=0)


def test_a_finished_stage_is_not_trained_again(tmp_path: Path) -> None:
    model = linear()
    first, _ = train(model, folder=tmp_path)
    again = nn.Linear(3, 3)
    second, steps = train(again, folder=tmp_path)
    assert steps == []
    assert second == first
    assert torch.equal(again.weight, model.weight)


def test_the_learning_rate_rises_and_then_falls_to_zero() -> None:
    model = linear()
    moves = []
    before = model.weight.detach().clone()

    def step_loss(_: int, __: float) -> Tensor:
        moves.append((model.weight.detach() - before).abs().max().item())
        before.copy_(model.weight.detach())
        return model.weight.sum()  # a gradient that stays the same

    clock = ticking()
    stage = Stage("rates", 50.0, 0.01, weight_decay=0.0, warmup=4)
    run_stage(stage, {"model": model}, step_loss, clock=lambda: next(clock))
    assert moves[1] == pytest.approx(0.01 / 5, rel=0.02)
    assert moves[5] == pytest.approx(0.01, rel=0.05)
    assert all(later < earlier for earlier, later in pairwise(moves[6:]))
    assert moves[-1] < 0.01 * moves[6]


def test_frozen_weights_stay() -> None:
    model = linear()
    model.bias.requires_grad_(False)
    bias, weight = model.bias.clone(), model.weight.detach().clone()
    train(model)
    assert torch.equal(model.bias, bias)
    assert not torch.equal(model.weight, weight)


def test_a_loss_that_is_no_number_stops_the_stage() -> None:
    model = linear()
    with pytest.raises(FloatingPointError, match=r"stage 'bad' became nan; lower the learning rate 0\.1"):
        run_stage(Stage("bad", 1e-9, 0.1), {"model": model}, lambda _, __: model.weight.sum() * float("nan"))
