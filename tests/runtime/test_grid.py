"""Cells computed in one process or several."""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from heatcheck.runtime.grid import Task, check_place, fill_store
from heatcheck.runtime.store import ResultsStore


def tasks(log: Path, seeds: list[int]) -> list[Task]:
    return [Task({"seed": seed}, computing(seed, log)) for seed in seeds]


def computing(seed: int, log: Path) -> Callable[[ResultsStore], pd.DataFrame]:
    # Nested, so that it travels to a worker by value: test modules cannot be imported there.
    def compute(store: ResultsStore) -> pd.DataFrame:
        with log.open("a") as file:
            file.write(f"{seed} {os.getpid()}\n")
        if seed == 13:
            raise ValueError("13 is no seed")
        return pd.DataFrame({"seed": [seed], "prepared": [os.environ.get("PREPARED", "no")]})

    return compute


def computed(log: Path) -> list[int]:
    return [int(line.split()[0]) for line in log.read_text().splitlines()]


def test_a_finished_cell_is_never_computed_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    store = ResultsStore(tmp_path / "store")
    first = fill_store(store, tasks(log, [0, 1]), label="test")
    both = fill_store(ResultsStore(store.root), tasks(log, [2, 1, 0]), label="test")
    assert computed(log) == [0, 1, 2]
    assert first["seed"].tolist() == [0, 1]
    assert both["seed"].tolist() == [2, 1, 0]


def test_several_processes_give_the_same_table_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def prepare() -> None:
        os.environ["PREPARED"] = "yes"

    monkeypatch.setenv("PREPARED", "yes")
    seeds = [4, 1, 3, 0, 2]
    one = fill_store(ResultsStore(tmp_path / "one"), tasks(tmp_path / "a", seeds), label="test")
    log = tmp_path / "b"
    two = fill_store(
        ResultsStore(tmp_path / "two"), tasks(log, seeds), label="test", workers=2, setup=prepare
    )
    pd.testing.assert_frame_equal(one, two)
    assert sorted(computed(log)) == sorted(seeds)
    assert str(os.getpid()) not in log.read_text()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failing_task_raises_what_it_raised_and_finished_cells_stay(tmp_path: Path, workers: int) -> None:
    store = ResultsStore(tmp_path / "store")
    with pytest.raises(ValueError, match="13 is no seed"):
        fill_store(store, tasks(tmp_path / "log", [0, 1, 13]), label="test", workers=workers)
    assert store.get({"seed": 0}) is not None
    assert store.get({"seed": 13}) is None


def test_a_stopped_run_keeps_what_was_finished(tmp_path: Path) -> None:
    def stop(store: ResultsStore) -> pd.DataFrame:
        raise KeyboardInterrupt

    store = ResultsStore(tmp_path / "store")
    work = [*tasks(tmp_path / "log", [0, 1]), Task({"seed": 2}, stop)]
    with pytest.raises(KeyboardInterrupt):
        fill_store(store, work, label="test")
    assert [store.get({"seed": seed}) is not None for seed in range(3)] == [True, True, False]


def test_a_number_of_workers_below_zero_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="0 \\(one per core\\) or more, got -1"):
        fill_store(ResultsStore(tmp_path), [], label="test", workers=-1)
    assert fill_store(ResultsStore(tmp_path), [], label="test").empty


@pytest.mark.parametrize("on", ["cluster", "ray://", "ray://head", "ray:head:10001", "http://head:10001", ""])
def test_a_place_to_compute_that_does_not_exist_is_refused(tmp_path: Path, on: str) -> None:
    with pytest.raises(ValueError, match=f"on='{on}' is no place to compute; allowed: 'local'"):
        fill_store(ResultsStore(tmp_path), [], label="test", on=on)


@pytest.mark.parametrize("device", ["cuda:1", "mps", "tpu"])
def test_a_cluster_takes_a_gpu_per_task_or_none(device: str) -> None:
    with pytest.raises(ValueError, match=f"'cuda' for one GPU per task, not '{device}'"):
        check_place("ray", device)
    check_place("local", device)


@pytest.mark.parametrize(("on", "missing"), [("ray", "ray"), ("ray://head:10001", "ray and grpc")])
def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, on: str, missing: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=rf"needs {missing}, .* pip install 'heatcheck\[cluster\]'"):
        check_place(on, "cpu")
    check_place("local", "cpu")
