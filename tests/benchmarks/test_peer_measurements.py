"""The benchmarks' own instruments: what they report must be what happened."""

import platform
import time
from functools import partial

import pytest
import torch
from tests.benchmarks.peers.case import Case, Sides, relative_difference, run_case
from tests.benchmarks.peers.measure import compare, extra_memory
from torch import Tensor

GLIBC = platform.libc_ver()[0] == "glibc"


def test_the_speedup_is_the_peers_time_over_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "process_time", lambda: now[0])
    monkeypatch.setattr(time, "perf_counter", lambda: 2 * now[0])
    calls = []

    def spend(name: str, seconds: float) -> None:
        calls.append(name)
        now[0] += seconds

    found = compare(partial(spend, "ours", 0.25), partial(spend, "theirs", 0.75), 3)
    assert found.ours == (0.25, 0.5)
    assert found.theirs == (0.75, 1.5)
    assert (found.lowest, found.speedup, found.highest, found.wall_speedup) == (3, 3, 3, 3)
    assert calls[2:] == ["ours", "theirs"] * 3


@pytest.mark.skipif(not GLIBC, reason="memory is measured with glibc only")
def test_the_highest_point_of_memory_is_found_again_after_a_higher_one() -> None:
    def call(megabytes: int) -> Tensor:
        block = torch.ones(megabytes * 250_000)
        return block[:1].clone()

    found = [extra_memory(partial(call, megabytes)) for megabytes in (40, 160, 40)]
    assert found == pytest.approx([40, 160, 40], abs=8)


def test_memory_that_is_held_already_is_not_counted() -> None:
    block = torch.ones(10_000_000)
    found = extra_memory(lambda: block.add_(1))
    assert found is None or found < 8


def case_of(ours: Tensor, theirs: Tensor) -> Case:
    return Case("case", "peer", lambda: Sides(lambda: ours, lambda: theirs), 1e-3, 1e9)


def test_answers_that_differ_are_reported_beside_a_target_that_is_missed() -> None:
    row = run_case(case_of(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])), 1)
    assert row.difference == pytest.approx(0.2)
    assert not row.agrees
    assert row.reached is False


@pytest.mark.parametrize(
    ("ours", "theirs", "message"),
    [
        ([1.0], [1.0, 1.0], "shapes"),
        ([float("nan")], [1.0], "NaN"),
        ([1.0], [float("inf")], "infinity"),
        ([0.0], [0.0], "0 everywhere"),
    ],
)
def test_answers_that_compare_nothing_are_refused(
    ours: list[float], theirs: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        relative_difference(torch.tensor(ours), torch.tensor(theirs))
