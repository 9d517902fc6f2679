"""Chunks from a budget, halved when memory runs out."""

import pytest
import torch
from torch import nn

from heatcheck.runtime.memory import (
    activation_bytes,
    chunk_size,
    map_chunks,
    memory_budget,
    model_chunk,
    parse_bytes,
)

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("text", "size"), [("150MB", 150_000_000), ("2 GiB", 2**31), ("1.5kb", 1500), (7, 7)]
)
def test_sizes_are_read_with_their_unit(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1", "0", "5 TB", "1e3"])
def test_other_sizes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_bytes(text)


def test_the_budget_sets_the_chunk_and_one_item_always_fits() -> None:
    with memory_budget(1000, chunk=64):
        assert chunk_size(100, CPU) == 10
        assert chunk_size(10**9, CPU) == 1
        assert chunk_size(1, CPU) == 64


def test_budgets_nest_and_come_back() -> None:
    with memory_budget(1000, chunk=9):
        with memory_budget(1000, chunk=2):
            assert chunk_size(1, CPU) == 2
        assert chunk_size(1, CPU) == 9
    with pytest.raises(ValueError, match="at least 1"), memory_budget(10, chunk=0):
        pass


def test_slices_cover_the_range_in_order() -> None:
    parts = [
        (part.start, part.stop, value)
        for part, value in map_chunks(lambda part: part.stop - part.start, 7, 3)
    ]
    assert parts == [(0, 3, 3), (3, 6, 3), (6, 7, 1)]
    assert list(map_chunks(lambda part: part, 0, 3)) == []


@pytest.mark.parametrize("fault", [MemoryError, torch.cuda.OutOfMemoryError])
def test_a_slice_that_does_not_fit_is_halved_and_tried_again(fault: type[Exception]) -> None:
    def work(part: slice) -> int:
        length: int = part.stop - part.start
        if length > 2:
            raise fault
        return length

    parts = [part for part, _ in map_chunks(work, 9, 8)]
    assert [part.start for part in parts] == [0, 2, 4, 6, 8]
    assert parts[-1].stop == 9


def test_one_item_that_does_not_fit_is_an_error_that_says_so() -> None:
    def work(part: slice) -> None:
        raise MemoryError

    with pytest.raises(MemoryError, match="one image alone"):
        list(map_chunks(work, 4, 4))


def test_activations_are_measured_and_the_model_stays_as_it_was() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5), nn.Flatten(), nn.Linear(5 * 64, 2)
    ).train()
    mean = model[1].running_mean
    assert isinstance(mean, torch.Tensor)
    before = mean.clone()
    size = activation_bytes(model, torch.rand(1, 3, 8, 8))
    assert size == 4 * (3 * 3 * 64 + 3 * 5 * 64 + 2)
    assert model.training
    assert torch.equal(before, mean)
    assert not any(module._forward_hooks for module in model.modules())


def test_a_gradient_needs_smaller_chunks() -> None:
    model = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 256, 2))
    images = torch.rand(4, 3, 16, 16)
    with memory_budget("1MB", chunk=1000):
        assert model_chunk(model, images, backward=True) < model_chunk(model, images)
