"""What a remove-and-retrain run says about itself: leaks, matched controls, filters, recursive removal."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import Condition, derived, label
from heatcheck.benchmarks.roar_settings import MATCHED, PROBES
from heatcheck.benchmarks.roar_tables import RANDOM, bits_of, retrained
from heatcheck.metrics.leakage import leak_estimates
from heatcheck.metrics.paired_runs import summarize_runs
from heatcheck.metrics.retraining_summary import estimator_summaries

# What the difference of two accuracies of a matched control measures: more accurate minus less.
_QUESTIONS = (
    ("class in the mask", "shuffle-class", "shuffle"),
    ("shape of the mask", RANDOM, "shuffle"),
    ("place in the image", "shuffle", ""),
    ("against the rolled map", "roll", ""),
)


class _Pair(NamedTuple):
    """Two rankings whose accuracies are compared: ``first`` minus ``second``."""

    estimator: str
    question: str
    first: str
    second: str


def leak_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """What masks alone give away of the class: a network sees them and nothing else of the images.

    Returns:
        Columns ``ranking, label, mode, percent, quantity, estimate, low, high``; quantities ``accuracy``,
        ``leak_score``, ``variational`` and ``fano`` (in nats), and ``retrained``: the accuracy of networks
        that see the images through these masks.
    """
    n_classes = len(results.data.images.classes)
    rows: list[tuple[Any, ...]] = []
    for condition in _first_runs(results, "leak"):
        key = (condition.ranking, label(condition.ranking), condition.mode, condition.percent)
        answers = [results.outcomes[run] for run in _runs(results, condition)]
        correct, losses = (
            np.stack(part) for part in zip(*((one[0], one[1]) for one in answers), strict=True)
        )
        rows += [
            (*key, *found) for found in leak_estimates(correct, losses.astype(float), n_classes, seed=seed)
        ]
        seen = summarize_runs(bits_of(results, *key[:1], condition.mode, condition.percent), seed=seed)
        rows.append((*key, "retrained", float(seen.mean), float(seen.low), float(seen.high)))
    columns = ["ranking", "label", "mode", "percent", "quantity", "estimate", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def matched_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Estimators against controls made from their own maps: paired differences of accuracies.

    ``class in the mask`` is shuffled within predicted classes minus shuffled among all images: what the masks
    tell of the class when they no longer fit the image. ``shape of the mask`` is random minus shuffled: what
    their shape alone removes. ``place in the image`` is shuffled minus the estimator itself: what is left.

    Returns:
        Columns ``estimator, label, mode, percent, question, difference, low, high, std``.
    """
    pairs = [
        _Pair(name, question, *(_control_of(name, part) for part in parts))
        for name in results.settings.matched
        for question, *parts in _QUESTIONS
    ]
    return _differences(results, pairs, seed)


def probe_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Do filters that know nothing of the network improve a ranking? Filtered minus own accuracy.

    Returns:
        Columns as in ``matched_table``, the question is the filter, and ``gain``: the difference with the
        sign turned where a low accuracy is good.
    """
    pairs = [
        _Pair(name, probe, derived(name, probe), name) for name in results.settings.probes for probe in PROBES
    ]
    table = _differences(results, pairs, seed)
    return table.assign(gain=np.where(table["mode"] == "roar", -1.0, 1.0) * table["difference"])


def matched_accuracies(results: Results, table: pd.DataFrame) -> pd.DataFrame:
    """Accuracies of estimators and of the rankings made from their maps, at the last percentage of these.

    Args:
        results: Of a run.
        table: Its ``condition_table``.

    Returns:
        Columns ``estimator, label, control, mode, percent, mean, low, high``; ``control`` is ``itself``,
        ``random`` or what was made of the maps.
    """
    settings, frames = results.settings, []
    end = max(settings.extra_percents or settings.percents)
    own = (table["way"] == "scratch") & (table["fill"] == settings.fill) & (table["checkpoint"] == 0)
    rows = table[own & (table["percent"] == end)]
    for name in dict.fromkeys([*settings.matched, *settings.probes]):
        made = [*(MATCHED if name in settings.matched else ()), *(PROBES if name in settings.probes else ())]
        rankings = {name: "itself", RANDOM: RANDOM} | {derived(name, one): one for one in made}
        for ranking, control in rankings.items():
            found = rows[rows["ranking"] == ranking]
            frames.append(found.assign(estimator=name, label=label(name), control=control))
    columns = ["estimator", "label", "control", "mode", "percent", "mean", "low", "high"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def matched_racu(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """RACU of estimators against the random ranking, and against controls made from their own maps.

    Areas are over the percentages at which the controls were run.

    Returns:
        Columns ``estimator, label, reference, racu, low, high``.
    """
    settings, rows = results.settings, []
    percents = settings.extra_percents or settings.percents
    for name in settings.matched if "roar" in settings.modes else []:
        rankings = [RANDOM, name, *(derived(name, control) for control in MATCHED)]
        tables = retrained(results, rankings, percents=percents)
        for reference in (RANDOM, *rankings[2:]):
            found = estimator_summaries(tables, reference=reference, seed=seed)
            one = next(row for row in found if (row.estimator, row.quantity) == (name, "RACU"))
            rows.append((name, label(name), reference.partition("/")[2] or RANDOM, *one[2:5]))
    return pd.DataFrame(rows, columns=["estimator", "label", "reference", "racu", "low", "high"])


def recursive_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Removal in steps, maps made anew with each retrained network, beside removal at once.

    Returns:
        Columns ``estimator, label, percent, recursive, at_once, difference, low, high``; the difference is
        recursive minus at once, below zero where the new maps find what is left.
    """
    rows, settings = [], results.settings
    for name in settings.recursive if "roar" in settings.modes else []:
        for percent in settings.percents:
            again = np.stack(
                [results.recursive[name, percent, run].correct for run in range(settings.n_runs)]
            )
            once = bits_of(results, name, "roar", percent)
            found = summarize_runs(again.astype(np.int8) - once, seed=seed)
            spread = (float(found.mean), float(found.low), float(found.high))
            rows.append((name, label(name), percent, again.mean(), once.mean(), *spread))
    columns = ["estimator", "label", "percent", "recursive", "at_once", "difference", "low", "high"]
    return pd.DataFrame(rows, columns=columns)


def _control_of(estimator: str, part: str) -> str:
    if part == RANDOM:
        return RANDOM
    return derived(estimator, part) if part else estimator


def _differences(results: Results, pairs: Sequence[_Pair], seed: int) -> pd.DataFrame:
    settings, rows = results.settings, []
    for pair in pairs:
        for mode in settings.modes:
            for percent in settings.extra_percents or settings.percents:
                first, second = (bits_of(results, one, mode, percent) for one in (pair.first, pair.second))
                found = summarize_runs(first.astype(np.int8) - second, seed=seed)
                spread = [float(part) for part in (found.mean, found.low, found.high, found.std)]
                rows.append((pair.estimator, label(pair.estimator), mode, percent, pair.question, *spread))
    columns = ["estimator", "label", "mode", "percent", "question", "difference", "low", "high", "std"]
    return pd.DataFrame(rows, columns=columns)


def _first_runs(results: Results, way: str) -> Iterator[Condition]:
    yield from (key for key in results.outcomes if (key.way, key.run, key.checkpoint) == (way, 0, 0))


def _runs(results: Results, condition: Condition) -> list[Condition]:
    runs = (condition._replace(run=run) for run in range(results.settings.n_runs))
    return [run for run in runs if run in results.outcomes]
