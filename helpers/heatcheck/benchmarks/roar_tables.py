"""Tables of a remove-and-retrain run: accuracies with their spread, areas over random, ranks, agreement."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from heatcheck.benchmarks.image_changes import Mode
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import INTACT, Condition, is_model_based, label, needs_network
from heatcheck.benchmarks.roar_published import published_agreement, published_summary
from heatcheck.benchmarks.roar_settings import KNOWING
from heatcheck.metrics.agreement import RankAgreement, agreement_of_draws
from heatcheck.metrics.paired_runs import resampled_run_means, summarize_runs, two_level_variance
from heatcheck.metrics.rank_stability import RankStability
from heatcheck.metrics.retraining_summary import (
    EstimatorSummary,
    Retrained,
    estimator_summaries,
    racu_stability,
    roar_kar_agreement,
    run_scores,
)

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]

RANDOM = "random"
# What the run is called beside published data sets.
HERE = "this run"
_SPREAD = ("mean", "std", "t_low", "t_high", "low", "high")
_AGREEMENT = ["first", "second", "data", "percent", *RankAgreement._fields]


def bits_of(results: Results, ranking: str, mode: Mode, percent: int, **asked: Any) -> Bits:
    """Which test images are right, ``(S, N)``, under one condition of a run.

    Args:
        results: Of a run.
        ranking: Estimator, or a control made from its maps.
        mode: ``roar`` or ``kar``.
        percent: Percent of the units.
        asked: Other fields of ``Condition``; rankings that ignore the explained network have one checkpoint.

    Raises:
        KeyError: The run has no such condition.
    """
    if not needs_network(ranking) and asked.get("way") not in ("none", "finetune"):
        asked["checkpoint"] = 0
    return results.bits(ranking=ranking, mode=mode, percent=percent, **asked)


def majority(results: Results) -> Bits:
    """Whether each test image, ``(N,)``, is of the class that most training images have."""
    images = results.data.images
    common = torch.bincount(images.train.targets, minlength=len(images.classes)).argmax()
    return np.asarray((images.test.targets == common).numpy(), dtype=np.bool_)


def condition_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Accuracy of every condition over its runs and test images; a row per condition.

    Returns:
        Columns ``ranking, label, mode, percent, fill, way, checkpoint``; ``mean``; ``std`` over runs
        (``ddof=1``) and Student's interval ``t_low, t_high``, missing for one run; bootstrap interval
        ``low, high`` over runs and images, the same draws for all; ``n_runs, n_images``.
    """
    groups: dict[Condition, list[Bits]] = defaultdict(list)
    for condition, found in results.outcomes.items():
        groups[condition._replace(run=0)].append(found.correct)
    frames = []
    for n_runs in dict.fromkeys(map(len, groups.values())):
        keys = [key for key, runs in groups.items() if len(runs) == n_runs]
        spread = summarize_runs(np.stack([np.stack(groups[key]) for key in keys]), seed=seed)
        table = pd.DataFrame(keys, columns=list(Condition._fields)).drop(columns="run")
        frames.append(table.assign(**spread._asdict(), n_runs=n_runs))
    found_all = pd.concat(frames, ignore_index=True)
    found_all.insert(1, "label", found_all["ranking"].map(label))
    return found_all.assign(n_images=len(majority(results)))


def main_curves(results: Results, table: pd.DataFrame, *, way: str = "scratch") -> pd.DataFrame:
    """Curves of all estimators from 0 to 100 %, rows as in ``condition_table``.

    Retrained curves begin and end at the accuracy without removal, trained through the same pipeline, and at
    that of the majority class. Those of the explained network itself have one end: its accuracy on unchanged
    images, without an interval.

    Args:
        results: Of a run.
        table: Its ``condition_table``.
        way: ``scratch``, ``none``, ``finetune`` or ``evaluator``.
    """
    own = (table["way"] == way) & (table["fill"] == results.settings.fill) & (table["checkpoint"] == 0)
    plain = (table["ranking"] != INTACT) & ~table["ranking"].str.contains("/")
    rows = table[own & plain]
    ends = list(_ends(results, table, way))
    frames = [
        start.assign(ranking=ranking, label=label(ranking), mode=mode, percent=percent, way=way)
        for ranking, mode in dict.fromkeys(zip(rows["ranking"], rows["mode"], strict=True))
        for whole, start in ends
        for percent in [0 if whole == (mode == "roar") else 100]
    ]
    joined = pd.concat([rows, *frames], ignore_index=True)
    order = {name: place for place, name in enumerate(results.settings.estimators)}
    joined["place"] = joined["ranking"].map(order)
    return joined.sort_values(["place", "mode", "percent"], ignore_index=True).drop(columns="place")


def _ends(results: Results, table: pd.DataFrame, way: str) -> Iterator[tuple[bool, pd.DataFrame]]:
    """Rows for the ends of a curve, with everything there (true) or nothing."""
    intact = table[table["ranking"] == INTACT].iloc[:1]
    if way == "scratch":
        yield True, intact
        n_runs = int(intact["n_runs"].iloc[0])
        chance = summarize_runs(np.tile(majority(results), (n_runs, 1)))
        yield False, intact.assign(**chance._asdict())
    elif way == "none":
        unknown = dict.fromkeys(_SPREAD, np.nan) | {"mean": results.accuracies[0]}
        yield True, intact.assign(**unknown, n_runs=1)


def retrained(
    results: Results,
    names: Sequence[str] | None = None,
    *,
    percents: Sequence[int] | None = None,
    checkpoint: int = 0,
) -> Retrained:
    """Correct answers of networks retrained from random weights, as the summaries take them.

    Args:
        results: Of a run.
        names: Rankings; by default all estimators of the run.
        percents: By default all of the run.
        checkpoint: Number of the explained network.

    Raises:
        KeyError: The run has no such condition.
    """
    chosen = results.settings.estimators if names is None else names
    places = results.settings.percents if percents is None else percents

    def tables(mode: Mode) -> dict[str, Bits]:
        if mode not in results.settings.modes:
            return {}
        return {
            name: np.stack([bits_of(results, name, mode, place, checkpoint=checkpoint) for place in places])
            for name in chosen
        }

    return Retrained(results.bits(ranking=INTACT), majority(results), tables("roar"), tables("kar"), places)


def summary_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """RACU, areas over random and DiffROAR of every estimator; without ROAR or another estimator no row.

    Rankings that know the objects or classes are listed but not ranked.

    Returns:
        Columns of ``EstimatorSummary`` and ``label``.
    """
    names = results.settings.estimators
    ranked = [name for name in names if name not in KNOWING]
    knowing = [name for name in names if name in KNOWING]
    rows: list[EstimatorSummary] = []
    if "roar" in results.settings.modes:
        if len(ranked) > 1:
            rows += estimator_summaries(retrained(results, ranked), seed=seed)
        if knowing:
            nan = float("nan")
            rows += [
                row._replace(p_holm=nan, rank=nan, rank_low=nan, rank_high=nan)
                for row in estimator_summaries(retrained(results, [RANDOM, *knowing]), seed=seed)
            ]
    table = pd.DataFrame(rows, columns=list(EstimatorSummary._fields))
    table.insert(1, "label", table["estimator"].map(label).astype(object))
    return table


def model_based(results: Results) -> list[str]:
    """Estimators of a run that come from maps of the explained network."""
    return [name for name in results.settings.estimators if is_model_based(name)]


def agreement_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Do ROAR and KAR rank the model-based estimators alike? Over whole curves and at each percentage.

    Returns:
        Columns ``first, second, data, percent`` (missing for RACU against the KAR area) and those of
        ``RankAgreement``; no row where not both were run on two estimators.
    """
    names, data = model_based(results), results.data.images.name
    rows: list[tuple[Any, ...]] = []
    if set(results.settings.modes) == {"roar", "kar"} and len(names) > 1:
        whole = roar_kar_agreement(retrained(results, [RANDOM, *names]), names, seed=seed)
        rows.append(("roar", "kar", data, None, *whole))
        tables = retrained(results, names)
        for place, percent in enumerate(results.settings.percents):
            bits = [np.stack([mode[name][place] for name in names]) for mode in (tables.roar, tables.kar)]
            means = [table.mean((1, 2)) for table in bits]
            draws = [resampled_run_means(table, seed=seed) for table in bits]
            # A low accuracy is good where units are removed, a high one where they are kept.
            found = agreement_of_draws(-means[0], means[1], -draws[0], draws[1])
            rows.append(("roar", "kar", data, percent, *found))
    return pd.DataFrame(rows, columns=_AGREEMENT).astype({"percent": "Int64"})


def beside_published(results: Results, *, seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Areas and the agreement of ROAR and KAR, of this run and then of the published data sets.

    Returns:
        Table with columns ``data, method, racu, abc_kar, doubtful``, and ``agreement_table`` with the
        published rows, which have no intervals, below.
    """
    summary = summary_table(results, seed=seed)
    summary = summary[summary["rank"].notna()]
    wide = summary.pivot(index="estimator", columns="quantity", values="estimate")
    if {"RACU", "ABC KAR"} <= set(wide.columns):
        own = pd.DataFrame({"method": wide.index, "racu": wide["RACU"], "abc_kar": wide["ABC KAR"]})
        own = own.assign(data=HERE, doubtful=0)
    else:
        own = pd.DataFrame(columns=["method", "racu", "abc_kar", "data", "doubtful"])
    agreement = agreement_table(results, seed=seed)
    agreement["data"] = HERE
    columns = ["data", "method", "racu", "abc_kar", "doubtful"]
    parts = [part for part in (own[columns], published_summary()[columns]) if len(part)]
    published = published_agreement()
    both = [agreement, published[published["first"] == "roar"]]
    return pd.concat(parts, ignore_index=True), pd.concat([part for part in both if len(part)])


def stability(results: Results) -> RankStability | None:
    """Agreement of the RACU rankings of single runs; None for one run or fewer than two estimators."""
    names = model_based(results)
    if results.settings.n_runs < 2 or len(names) < 2 or "roar" not in results.settings.modes:
        return None
    return racu_stability(retrained(results, [RANDOM, *names]))


def variance_table(results: Results) -> pd.DataFrame:
    """Where the spread of RACU comes from: explained networks, or retrainings of one of them.

    Returns:
        Columns ``estimator, label, mean, between_networks, between_runs`` (standard deviations),
        ``std_error, t_low, t_high``; no row with fewer than two explained networks or runs.
    """
    columns = ["estimator", "label", "mean", "between_networks", "between_runs", "std_error"]
    names, settings = model_based(results), results.settings
    if min(settings.n_checkpoints, settings.n_runs) < 2 or not names or "roar" not in settings.modes:
        return pd.DataFrame(columns=[*columns, "t_low", "t_high"])
    scores = [
        run_scores(retrained(results, [RANDOM, *names], checkpoint=number))["RACU"]
        for number in range(settings.n_checkpoints)
    ]
    found = two_level_variance(np.stack(scores).transpose(2, 0, 1))
    return pd.DataFrame(
        {
            "estimator": names,
            "label": [label(name) for name in names],
            "mean": found.mean,
            "between_networks": np.sqrt(found.models),
            "between_runs": np.sqrt(found.runs),
            "std_error": found.std_error,
            "t_low": found.t_low,
            "t_high": found.t_high,
        }
    )
