"""What the remove-and-retrain chapter quotes in prose."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import INTACT, conditions
from heatcheck.benchmarks.roar_settings import KNOWING, Settings, protocol_of
from heatcheck.benchmarks.roar_tables import RANDOM, majority, model_based, stability

_NAMES = {
    "color-material": "rendered images of one object, whose class is its color and material",
    "shape-material-size": "rendered images of one object, whose class is its shape, material and size",
    "digits": "scanned digits",
}


def last_extra(settings: Settings) -> int:
    """Largest percentage at which controls, leaks and cheaper ways were run."""
    return max(settings.extra_percents or settings.percents)


def quotable(results: Results, table: pd.DataFrame, summary: pd.DataFrame) -> dict[str, Any]:
    """Numbers and names that the chapter's prose quotes.

    Args:
        results: Of a run.
        table: Its ``condition_table``.
        summary: Its ``summary_table``.
    """
    settings, images = results.settings, results.data.images
    first = table[table["ranking"] == INTACT].iloc[0]
    steady = stability(results)
    racu = summary[(summary["quantity"] == "RACU") & summary["estimator"].isin(model_based(results))]
    every = summary[summary["quantity"] == "RACU"].set_index("estimator")["estimate"]
    behind = int((racu["estimate"] < every["sobel"]).sum()) if "sobel" in every else None
    best = racu.sort_values("estimate", ascending=False)["label"].tolist() or ["no estimator"]
    trained = [key for key in conditions(settings) if key.way in ("scratch", "finetune", "leak")]
    seconds = sum(one.seconds for one in [*results.outcomes.values(), *results.recursive.values()])
    last = max(settings.percents)
    return {
        "data": images.name,
        "data_name": _NAMES.get(images.name, f"images of {images.name}"),
        "n_classes": len(images.classes),
        "n_train": len(images.train),
        "n_test": len(images.test),
        "n_runs": settings.n_runs,
        "n_estimators": len([name for name in settings.estimators if name not in KNOWING]),
        "percents": _listed(settings.percents),
        "last": last,
        "extra": _listed(settings.extra_percents or settings.percents),
        "extra_last": last_extra(settings),
        "entropy": float(np.log(len(images.classes))),
        "granularity": protocol_of(settings).granularity,
        "n_samples": protocol_of(settings).n_samples,
        "explained_accuracy": results.accuracies[0],
        "intact_accuracy": float(first["mean"]),
        "chance": float(majority(results).mean()),
        "best": best[0],
        "worst": best[-1],
        "n_model_based": len(model_based(results)),
        "behind_sobel": behind,
        "random_last": _accuracy(table, RANDOM, "roar", last, "scratch"),
        "random_last_not_retrained": _accuracy(table, RANDOM, "roar", last, "none"),
        "kendall_w": None if steady is None or np.isnan(steady.concordance) else steady.concordance,
        "n_trained": len(trained),
        "cpu_seconds": float(seconds),
    }


def _accuracy(table: pd.DataFrame, ranking: str, mode: str, percent: int, way: str) -> float | None:
    rows = table[(table["ranking"] == ranking) & (table["mode"] == mode) & (table["percent"] == percent)]
    rows = rows[rows["way"] == way]
    return float(rows["mean"].iloc[0]) if len(rows) else None


def _listed(values: Sequence[int]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} and {last}" if first else last
