"""A Ray cluster of two machines that are processes of this one."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

MACHINE = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}


@contextmanager
def two_machines(**second: Any) -> Iterator[Any]:
    """A head of one core, and a machine of one core with ``second``; ``on="ray"`` means this cluster."""
    import ray  # noqa: PLC0415
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    with pytest.MonkeyPatch.context() as patch:
        # The file that tells other programs of this machine where their cluster is stays as it was.
        patch.setattr("ray._private.utils.write_ray_address", lambda *_: None)
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        # A machine that is gone counts as dead after some seconds instead of half a minute.
        health = {"health_check_period_ms": 1000, "health_check_failure_threshold": 4}
        found = Cluster(initialize_head=True, head_node_args={**MACHINE, "_system_config": health})
        found.add_node(**MACHINE, **second)
        patch.setenv("RAY_ADDRESS", found.address)
        yield found
        ray.shutdown()
        found.shutdown()
