"""Meaningful perturbation on its way: what its mask does to the probability after so many iterations."""

from typing import Any

import pandas as pd
import torch

from heatcheck.attribution.registry import get_method
from heatcheck.benchmarks.deletion import Job, Results, Settings, heatmap_cell
from heatcheck.benchmarks.deletion_removal import (
    Array,
    keep_masks,
    see_through,
    target_probabilities,
)
from heatcheck.benchmarks.heatmaps import (
    Explained,
    MethodRequest,
    cell_heatmaps,
    method_options,
)
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.runtime.store import ResultsStore

BASE = "meaningful-perturbation"
# Name of each path, its method and what differs from it.
PATHS: dict[str, tuple[str, dict[str, Any]]] = {
    "MP": (BASE, {}),
    "MP-G": (f"{BASE}-g", {}),
    "MP-G, kept pixels exact": (f"{BASE}-g", {"kept": "exact"}),
    "MP-G, exact, from a mask of ones": (f"{BASE}-g", {"kept": "exact", "init": "ones"}),
}
_POINTS = (0, 1, 3, 10, 30, 100, 300, 1000)


def mask_paths(results: Results, store: ResultsStore, *, n_images: int = 12, seed: int = 0) -> pd.DataFrame:
    """Probability of the class seen through the mask, and share removed, along the iterations.

    Fewer iterations are the beginning of more, so each point is a search of its own, kept in ``store``.

    Args:
        results: Of a run; the first counted images and the options of its methods take part.
        store: Results store.
        n_images: How many images.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``path, method, iteration, probability, low, high, removed, n``, means over images. Without
        either method in the run, no rows.
    """
    columns = ["path", "method", "iteration", "probability", "low", "high", "removed", "n"]
    explained, rows = results.counted.take(0, n_images), []
    for path, (method, changes) in PATHS.items():
        if method not in results.settings.methods:
            continue
        options = {**results.settings.options.get(method, {}), **changes, "upsample": "nearest"}
        last = int(options.get("n_iterations", get_method(method).options().model_dump()["n_iterations"]))
        for iteration in [*(point for point in _POINTS if point < last), last]:
            request = MethodRequest(method, {**options, "n_iterations": iteration})
            probabilities, removed = _point(explained, request, results.settings, store)
            mean, low, high = (float(part[0]) for part in mean_intervals(probabilities[:, None], seed=seed))
            rows.append((path, method, iteration, mean, low, high, removed, len(probabilities)))
    return pd.DataFrame(rows, columns=columns)


def _point(
    explained: Explained, request: MethodRequest, settings: Settings, store: ResultsStore
) -> tuple[Array, float]:
    """Probabilities ``(N,)`` through the masks of one search, and the mean share they remove."""
    jobs = [Job(shard, request, None, False, settings.memory) for shard in explained.shards()]
    found = [cell_heatmaps(store, job.explained, request, heatmap_cell(job, settings)) for job in jobs]
    maps = torch.cat(found)[:, 0].to(explained.device)
    options = method_options(request, explained.classifier)
    keep = keep_masks(BASE, options, explained.images, maps, seed=settings.seed)
    seen = see_through(options, explained.images, keep)
    return target_probabilities(explained, seen), float((1 - keep.double()).mean())
