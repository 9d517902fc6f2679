"""A run that is begun on a cluster and finished on one machine."""

import threading
import time
from pathlib import Path

import pytest
from tests.benchmarks.roar.conftest import PLAIN, digits_settings
from tests.ray_cluster import two_machines

from heatcheck.benchmarks import roar, roar_training
from heatcheck.benchmarks.roar_conditions import Condition
from heatcheck.runtime.store import ResultsStore

pytest.importorskip("ray", reason="Ray is not installed: pip install 'heatcheck[cluster]'")
pytestmark = pytest.mark.ray
PATIENCE = 300.0  # seconds
TWO = {**PLAIN, "estimators": ["random", "sq-grad"]}


def test_a_run_begins_on_a_cluster_that_loses_a_machine_and_ends_on_one_machine(
    digits_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ResultsStore(tmp_path / "store")
    with two_machines() as cluster:
        (other,) = cluster.worker_nodes

        def unplug() -> None:
            end = time.monotonic() + PATIENCE
            # The explained network and the levels of both splits are there: networks are being retrained.
            while len(list(store.root.glob("*.parquet"))) < 5 and time.monotonic() < end:
                time.sleep(0.05)
            cluster.remove_node(other, allow_graceful=False)

        thread = threading.Thread(target=unplug)
        thread.start()
        remote = roar.run(digits_settings(**TWO, percents=[70], on="ray"), store)
        thread.join()
    trained: list[Condition] = []
    judge = roar_training._judge

    def counted(settings: roar.Settings, condition: Condition, *rest: object) -> object:
        trained.append(condition)
        return judge(settings, condition, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(roar_training, "_judge", counted)
    here = roar.run(digits_settings(**TWO, percents=[30, 70]), store)
    assert {condition.percent for condition in trained} == {30}
    alone = roar.run(digits_settings(**TWO, percents=[30, 70]), ResultsStore(tmp_path / "alone"))
    for condition, found in (*remote.outcomes.items(), *alone.outcomes.items()):
        assert (here.outcomes[condition].losses == found.losses).all(), condition
