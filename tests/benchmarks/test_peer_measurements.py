"""The benchmarks' own instruments: what they report must be what happened."""

import platform
import time
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from tests.benchmarks.peers.case import Case, Sides, relative_difference, run_case
from tests.benchmarks.peers.fill_peers import FOUR, ROAD, Stencil, impute
from tests.benchmarks.peers.measure import Comparison, Effort, compare, extra_memory
from tests.benchmarks.peers.rate_cases import RateRow
from tests.benchmarks.peers.report import FILL_HEADER, SPEED_HEADER, fill_table, rate_table, speed_table
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


def test_what_four_images_cost_is_told_per_image_and_the_ratio_stays() -> None:
    row = run_case(case_of(torch.ones(1), torch.ones(1)), 1)
    row = row._replace(
        case=row.case._replace(n_images=4),
        comparison=Comparison(Effort(2.0, 2.0), Effort(6.0, 6.0), 3.0, 3.0, 3.0, 3.0),
    )
    per_image, per_call = fill_table([row])[1], speed_table([row])[1]
    found = [per_image[FILL_HEADER.index(f"{side}, CPU s per image")] for side in ("ours", "peer")]
    assert found == ["0.5000", "1.5000"]
    assert per_image[FILL_HEADER.index("ratio (CPU)")] == per_call[SPEED_HEADER.index("speedup (CPU)")]


@pytest.mark.parametrize("stencil", [FOUR, ROAD], ids=["four neighbors", "eight neighbors"])
def test_imputed_pixels_are_the_weighted_mean_of_the_neighbors_they_have(stencil: Stencil) -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand((2, 3, 7, 9), generator=generator, dtype=torch.float64)
    holes = torch.rand((2, 1, 7, 9), generator=generator) < 0.6
    holes[:, :, 0, 0], holes[:, :, 3, 3] = True, False
    found = impute(images, holes, stencil)
    kernel = torch.zeros(1, 1, 3, 3, dtype=torch.float64)
    for (down, across), weight in stencil.items():
        kernel[0, 0, 1 + down, 1 + across] = weight
    total = F.conv2d(found.flatten(0, 1)[:, None], kernel, padding=1).view_as(found)
    present = F.conv2d(torch.ones(1, 1, 7, 9, dtype=torch.float64), kernel, padding=1)
    torch.testing.assert_close(found, torch.where(holes, total / present, images))
    assert float(kernel.sum()) == pytest.approx(1)


def test_a_rate_is_told_per_second_of_cpu_with_its_memory() -> None:
    kept = RateRow("scores", "maps", 40_000, 8.0, 90.0, 150.0)
    unknown = RateRow("scenes", "scenes", 10, 4.0, None, 150.0)
    free = RateRow("methods", "questions", 4, 8.0, 700.0)
    assert (kept.per_second, kept.reached, unknown.reached, free.reached) == (5000, True, None, None)
    table = rate_table([kept, unknown, free])
    assert table[1] == ["scores", "maps", "40000", "8.00", "5e+03", "90.0", "<= 150", "yes"]
    assert table[2][5:] == ["not measured", "<= 150", ""]
    assert table[3][6:] == ["", ""]
