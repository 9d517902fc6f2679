"""What is said about a run in one line: the best methods, and which of them differ from a control."""

from typing import Any

import pandas as pd

from heatcheck.benchmarks.deletion import Results
from heatcheck.benchmarks.deletion_settings import default_alpha
from heatcheck.benchmarks.deletion_tables import BETTER, LOCALIZATION, Score, find_score, is_control
from heatcheck.metrics.statistics import paired_tests


def best_method(scores: list[Score], data: str, metric: str) -> str | None:
    """Method with the best mean of ``metric``, controls left out; None where it is nowhere defined."""
    known = [score for score in scores if (score.data, score.metric) == (data, metric)]
    means = known[0].means().dropna() if known else pd.Series(dtype=float)
    means = means[[method for method in means.index if not is_control(method)]]
    if means.empty:
        return None
    return str(means.idxmin() if BETTER[metric] == "lower" else means.idxmax())


def quotable(results: Results, scores: list[Score]) -> dict[str, Any]:
    """Numbers and names that the chapter's prose quotes, all of the counted images.

    Returns:
        Counts of images and methods, ``best`` method by metric, and ``beaten_by_control``: by metric, how
        many methods have a worse mean than the best control.
    """
    data, settings = results.settings.counted, results.settings
    counted = [score for score in scores if score.data == data]
    metrics = list(dict.fromkeys(score.metric for score in counted))
    methods = [method for method in settings.methods if not is_control(method)]
    best = {metric: best_method(counted, data, metric) or "no method (not measured)" for metric in BETTER}
    beaten = {metric: _beaten(find_score(counted, data, metric), methods) for metric in metrics}
    return {
        "n_images": len(find_score(counted, data, "deletion").values),
        "n_heldout": results.heldout["image"].nunique() if len(results.heldout) else 0,
        "n_wrong": results.n_wrong,
        "n_methods": len(methods),
        "default_alpha": default_alpha(settings),
        "best": best,
        "beaten_by_control": beaten,
        "counted_name": "rendered scenes" if data == "metal-color" else f"images of {data}",
        "selection": dict(results.selection),
        "best_localizer": best_localizer(scores, data),
    }


def best_localizer(scores: list[Score], data: str) -> str:
    """Method with the smallest localization error on ``data``; without boxes, the best one by deletion."""
    best = best_method(scores, data, LOCALIZATION) or best_method(scores, data, "deletion")
    return best or str(scores[0].values.columns[0])


def paired_table(score: Score, *, seed: int = 0) -> pd.DataFrame:
    """Paired sign-flip tests of every method against a reference, corrected for all of them by Holm (1979).

    The reference is ``random-blocks`` where it was run, else the first method.

    Returns:
        Columns ``method, reference, difference, p, p_holm, n``; ``difference`` is the method's mean minus the
        reference's.
    """
    methods = [str(method) for method in score.values.columns]
    reference = "random-blocks" if "random-blocks" in methods else methods[0]
    columns = {method: score.values[method].to_numpy(dtype=float) for method in methods}
    tests = paired_tests(columns, reference=reference, test="sign-flip", seed=seed)
    rows = [(test.second, reference, -test.difference, test.p_value, test.p_holm, test.n) for test in tests]
    return pd.DataFrame(rows, columns=["method", "reference", "difference", "p", "p_holm", "n"])


def _beaten(score: Score, methods: list[str]) -> int:
    """How many of ``methods`` have a worse mean than the best control; 0 without controls."""
    sign = 1 if BETTER[score.metric] == "lower" else -1
    means = sign * score.means()
    controls = [method for method in means.index if is_control(str(method))]
    return int((means[methods] > means[controls].min()).sum()) if controls else 0
