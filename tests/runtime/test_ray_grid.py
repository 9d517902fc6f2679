"""Cells computed on a Ray cluster of two nodes, whose workers and machines die."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'heatcheck[cluster]'")

from tests.ray_cluster import two_machines  # noqa: E402

from heatcheck.runtime import plugins, ray_grid  # noqa: E402
from heatcheck.runtime.grid import Task, fill_store  # noqa: E402
from heatcheck.runtime.ray_worker import WorkerError  # noqa: E402
from heatcheck.runtime.store import ResultsStore, cell_key  # noqa: E402

pytestmark = pytest.mark.ray
PATIENCE = 300.0  # seconds


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two machines, one with a (pretended) GPU."""
    with two_machines(num_gpus=1) as found:
        yield found


def computing(seed: int, log: Path) -> Callable[[ResultsStore], pd.DataFrame]:
    # Nested, so that it travels to a worker by value: test modules cannot be imported there.
    def compute(store: ResultsStore) -> pd.DataFrame:
        with log.open("a") as file:
            file.write(f"{seed}\n")
        if seed == 13:
            raise ValueError("13 is no seed")
        return pd.DataFrame({"seed": [seed], "gpu": [os.environ.get("CUDA_VISIBLE_DEVICES")]})

    return compute


def computed(log: Path) -> list[int]:
    return sorted(int(line) for line in log.read_text().splitlines())


def wait_for(met: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not met():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def test_tasks_on_a_gpu_have_one_each_and_others_see_none(cluster: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    store = ResultsStore(tmp_path / "store")
    tasks = [Task({"seed": seed}, computing(seed, log)) for seed in (2, 0, 1)]
    table = fill_store(store, tasks, label="test", on="ray", device="cuda")
    assert table["seed"].tolist() == [2, 0, 1]
    assert table["gpu"].tolist() == ["0", "0", "0"]
    more = [*tasks, Task({"seed": 3}, computing(3, log))]
    assert not fill_store(store, more, label="test", on="ray")["gpu"].tolist()[3]
    assert computed(log) == [0, 1, 2, 3]


def test_what_a_task_raises_is_raised_here_and_not_tried_again(cluster: Any, tmp_path: Path) -> None:
    log, store = tmp_path / "log", ResultsStore(tmp_path / "store")
    tasks = [Task({"seed": seed}, computing(seed, log)) for seed in (0, 13)]
    with pytest.raises(ValueError, match="13 is no seed") as raised:
        fill_store(store, tasks, label="test", on="ray")
    assert "raised on" in raised.value.__notes__[0]
    assert "in compute" in raised.value.__notes__[0]
    assert computed(log).count(13) == 1
    assert store.get({"seed": 13}) is None


def test_a_task_finds_finished_cells_and_leaves_those_it_finishes_on_the_way(
    cluster: Any, tmp_path: Path
) -> None:
    log, store = tmp_path / "log", ResultsStore(tmp_path / "store")
    store.put({"part": "old"}, pd.DataFrame({"value": [20]}))

    def compute(store: ResultsStore) -> pd.DataFrame:
        old, new = store.get({"part": "old"}), store.get({"part": "new"})
        assert old is not None
        if new is None:
            with log.open("a") as file:
                file.write("1\n")
            store.put({"part": "new"}, pd.DataFrame({"value": [22]}))
            new = store.get({"part": "new"})
        return old + new

    table = fill_store(store, [Task({"sum": 0}, compute)], label="test", on="ray")
    assert table["value"].tolist() == [42]
    new = store.get({"part": "new"})
    assert new is not None
    assert new["value"].tolist() == [22]
    assert fill_store(store, [Task({"sum": 1}, compute)], label="test", on="ray")["value"].tolist() == [42]
    assert computed(log) == [1]


def test_a_plug_in_works_where_its_file_is_not(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugins, "_SOURCES", {})
    monkeypatch.chdir(tmp_path)
    Path("own.py").write_text(
        "def double(store):\n    import pandas\n    return pandas.DataFrame({'own': [2]})\n"
    )
    plugins.load_plugins(["own.py"])
    double = sys.modules[plugins.plugin_module("own.py")].double
    Path("own.py").unlink()
    monkeypatch.chdir("/")

    def setup() -> None:
        from heatcheck.runtime.plugins import load_plugins  # noqa: PLC0415

        load_plugins(["own.py"])

    store = ResultsStore(tmp_path / "store")
    table = fill_store(store, [Task({"own": 0}, double)], label="test", on="ray", setup=setup)
    assert table["own"].tolist() == [2]


def test_a_worker_with_other_versions_is_refused(
    cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_grid, "made_with", lambda modules: {"torch": "0.1"})
    task = Task({"seed": 0}, computing(0, tmp_path / "log"))
    with pytest.raises(WorkerError, match=r"torch: .* on .*, '0\.1' where the run was started"):
        fill_store(ResultsStore(tmp_path / "store"), [task], label="test", on="ray")


def test_a_cluster_that_does_not_answer_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("nobody is there\nin several lines")

    monkeypatch.setattr(ray_grid, "_CONNECTED", [])
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", refuse)
    task = Task({"seed": 0}, computing(0, tmp_path / "log"))
    with pytest.raises(WorkerError, match="no Ray cluster for on='ray://gone:1': nobody is there; start one"):
        fill_store(ResultsStore(tmp_path / "store"), [task], label="test", on="ray://gone:1")
    # A connection that the user has made is left alone.
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(WorkerError, match="connected to a Ray cluster already, not to 'ray://gone:1'"):
        fill_store(ResultsStore(tmp_path / "store"), [task], label="test", on="ray://gone:1")


def test_a_cell_that_no_worker_survives_ends_the_run_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(_: object) -> None:
        raise ray.exceptions.WorkerCrashedError

    monkeypatch.setattr(ray, "get", lose)
    cell = {"seed": 0}
    with pytest.raises(WorkerError, match=f"no worker finished cell {cell_key(cell)}, begun up to 4 times"):
        ray_grid._receive(ResultsStore(tmp_path), None, ray_grid._Sent(cell, None, {}))


def test_a_stopped_run_keeps_finished_cells_and_leaves_nothing_running(cluster: Any, tmp_path: Path) -> None:
    store, begun = ResultsStore(tmp_path / "store"), tmp_path / "begun"
    first = Task({"seed": 0}, computing(0, tmp_path / "log"))

    def endless(_store: ResultsStore) -> pd.DataFrame:
        begun.write_text(str(os.getpid()))
        time.sleep(600)
        raise AssertionError

    def interrupt() -> None:
        wait_for(lambda: store.path(first.cell).exists() and begun.exists() and begun.read_text())
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        fill_store(store, [first, Task({"seed": 1}, endless)], label="test", on="ray")
    thread.join()
    assert store.get({"seed": 0}) is not None
    wait_for(lambda: not Path(f"/proc/{begun.read_text()}").exists())


def test_a_run_survives_its_workers_and_machines_and_ends_on_one_machine(
    cluster: Any, tmp_path: Path
) -> None:
    log, lost, killed = (tmp_path / name for name in ("log", "lost", "killed"))
    (other,) = cluster.worker_nodes
    home = cluster.head_node.node_id

    def computing(seed: int) -> Callable[[ResultsStore], pd.DataFrame]:
        def compute(store: ResultsStore) -> pd.DataFrame:
            import ray  # noqa: PLC0415

            at_home = not ray.is_initialized() or ray.get_runtime_context().get_node_id() == home
            if not at_home and not lost.exists():
                lost.write_text(str(seed))
                time.sleep(600)
            while at_home and ray.is_initialized() and not lost.exists():
                time.sleep(0.05)
            if seed == 1 and not killed.exists():
                killed.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            with log.open("a") as file:
                file.write(f"{seed}\n")
            return pd.DataFrame({"seed": [seed], "square": [seed**2]})

        return compute

    def unplug() -> None:
        wait_for(lambda: lost.exists() and lost.read_text())
        cluster.remove_node(other, allow_graceful=False)

    seeds = [4, 1, 3, 0, 2]
    tasks = [Task({"square": seed}, computing(seed)) for seed in seeds]
    store = ResultsStore(tmp_path / "store")
    thread = threading.Thread(target=unplug)
    thread.start()
    half = fill_store(store, tasks[:3], label="test", on="ray")
    thread.join()
    assert killed.exists()
    assert half["square"].tolist() == [16, 1, 9]
    wait_for(lambda: "GPU" not in ray.cluster_resources())
    with pytest.raises(WorkerError, match="the cluster has no GPU for tasks on device 'cuda'; it offers"):
        fill_store(store, tasks, label="test", on="ray", device="cuda")

    ray.shutdown()
    whole = fill_store(ResultsStore(store.root), tasks, label="test")
    assert computed(log) == sorted(seeds)
    pd.testing.assert_frame_equal(whole, fill_store(ResultsStore(tmp_path / "one"), tasks, label="test"))
