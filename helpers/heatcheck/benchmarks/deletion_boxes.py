"""Ways from a heatmap to a box compared on the same images: four thresholds, with and without components."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from heatcheck.benchmarks.deletion import Job, Results, heatmap_cell, make_jobs, pooling_of
from heatcheck.benchmarks.deletion_settings import MEAN_ALPHAS, Settings
from heatcheck.benchmarks.deletion_tables import MIN_IOU, is_control
from heatcheck.benchmarks.heatmaps import Explained, cell_heatmaps
from heatcheck.benchmarks.shared_settings import fill_cells
from heatcheck.metrics.boxes import ALPHAS, THRESHOLDS, Region, Threshold, boxes_from_heatmaps
from heatcheck.metrics.localization import choose_alpha, localization_error
from heatcheck.metrics.pooling import pool, resize_heatmaps
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task
from heatcheck.runtime.store import ResultsStore, cell_key


class Rule(NamedTuple):
    """How a heatmap becomes a box; see ``metrics.boxes.boxes_from_heatmaps``."""

    threshold: Threshold
    region: Region

    @property
    def alphas(self) -> tuple[float, ...]:
        """The grid of thresholds."""
        return MEAN_ALPHAS if self.threshold == "mean" else ALPHAS

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.threshold if self.region == "tight" else f"{self.threshold}, component"


_REGIONS: tuple[Region, ...] = ("tight", "component")
RULES = tuple(Rule(threshold, region) for threshold, region in product(THRESHOLDS, _REGIONS))


def rule_table(results: Results, store: ResultsStore, *, seed: int = 0) -> pd.DataFrame:
    """Localization error of every method under every rule, with the threshold chosen on held-out images.

    Args:
        results: Of a run; its heatmaps are read from ``store``.
        store: Results store of the run.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``method, threshold, region, rule, alpha, error, low, high, n``; ``alpha`` is NaN and nothing
        is chosen without held-out images. Empty for a data set without boxes.
    """
    columns = ["method", "threshold", "region", "rule", "alpha", "error", "low", "high", "n"]
    if results.counted.data.boxes is None or results.held is None:
        return pd.DataFrame(columns=columns)
    held, counted = (
        dict(iter(_errors(results, explained, store).groupby(["rule", "method"], sort=False)))
        for explained in (results.held, results.counted)
    )
    rows = []
    for rule, method in product(RULES, results.settings.methods):
        alphas, key = list(rule.alphas), (rule.label, method)
        means = held[key].groupby("alpha")["error"].mean().reindex(alphas)
        # A method without any finite map gets the first threshold; its error is undefined whatever it is.
        alpha = choose_alpha(alphas, means.tolist()).alpha if means.notna().any() else alphas[0]
        own = counted[key]
        values = own.loc[own["alpha"] == alpha, "error"].to_numpy(dtype=float)
        mean, low, high = (float(part[0]) for part in mean_intervals(values[:, None], seed=seed))
        n = int((~np.isnan(values)).sum())
        rows.append((method, rule.threshold, rule.region, rule.label, alpha, mean, low, high, n))
    return pd.DataFrame(rows, columns=columns)


def wide_rules(table: pd.DataFrame) -> pd.DataFrame:
    """One row per method and one column per rule: the error in percent and, in brackets, the threshold.

    Args:
        table: Of ``rule_table``.
    """
    if table.empty:
        return pd.DataFrame({"method": ["not measured: no boxes, or no held-out images"]})
    texts = [
        "" if np.isnan(error) else f"{error:.0%} ({alpha:g})".replace("%", "")
        for error, alpha in table[["error", "alpha"]].to_numpy(dtype=float)
    ]
    wide = table.assign(text=texts).pivot(index="method", columns="rule", values="text")
    order = [rule.label for rule in RULES]
    return wide.loc[list(dict.fromkeys(table["method"])), order].rename_axis(columns=None).reset_index()


def best_rule(table: pd.DataFrame) -> str:
    """The rule under which most methods have their smallest error; the first in ``RULES`` of equals.

    Controls do not count.

    Args:
        table: Of ``rule_table``.
    """
    table = table[~table["method"].map(is_control).astype(bool)]
    if table["error"].isna().all():
        return "no rule (not measured)"
    smallest = table.groupby("method")["error"].transform("min")
    counts = table[table["error"] == smallest]["rule"].value_counts()
    return max((rule.label for rule in RULES), key=lambda label: int(counts.get(label, 0)))


def _errors(results: Results, explained: Explained, store: ResultsStore) -> pd.DataFrame:
    """Errors of all methods, rules and thresholds on ``explained``, a row per image."""
    settings = results.settings
    jobs = make_jobs(settings, explained)
    return fill_cells(store, [_task(job, settings) for job in jobs], settings, label="boxes")


def _task(job: Job, settings: Settings) -> Task:
    maps, pooling = heatmap_cell(job, settings), pooling_of(settings, job.request.name)
    choices = {"pooling": pooling, "ground_truth": settings.ground_truth, "strict": settings.strict}
    cell = {
        "kind": "deletion-box-rules",
        "code": code_fingerprint(__name__),
        "heatmaps": cell_key(maps),
        "rules": [list(rule) for rule in RULES],
        **choices,
    }
    return Task(cell, partial(_compute, job, settings, maps))


def _compute(job: Job, settings: Settings, cell: Mapping[str, Any], store: ResultsStore) -> pd.DataFrame:
    data = job.explained.data
    raw = cell_heatmaps(store, job.explained, job.request, cell)
    maps = pool(raw.to(job.explained.device), pooling_of(settings, job.request.name))
    maps = resize_heatmaps(maps, (int(job.explained.images.shape[2]), int(job.explained.images.shape[3])))
    tables = []
    for rule in RULES:
        boxes = boxes_from_heatmaps(maps, rule.alphas, threshold=rule.threshold, region=rule.region)
        found = localization_error(
            boxes, data.boxes or (), mode=settings.ground_truth, min_iou=MIN_IOU, strict=settings.strict
        )
        tables.append(_rows(data.ids, rule, found.errors))
    return pd.concat(tables, ignore_index=True).assign(method=job.request.name)


def _rows(ids: Sequence[str], rule: Rule, errors: torch.Tensor) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "image": np.tile(np.asarray(ids), len(rule.alphas)),
            "rule": rule.label,
            "alpha": np.repeat(rule.alphas, len(ids)),
            "error": errors.cpu().numpy().reshape(-1),
        }
    )
