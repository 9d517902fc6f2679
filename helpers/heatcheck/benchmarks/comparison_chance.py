"""What agreement of metrics may come from: smooth, concentrated or central maps, and where controls stand.

A benchmark that ranks methods as the smoothness of their maps does may measure smoothness; one under which a
control, which looks at no model, beats methods may reward what the control has.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import is_control
from heatcheck.benchmarks.comparison_columns import Column, Metric, main_columns
from heatcheck.benchmarks.comparison_tables import LEVEL, describe_pair, kept_methods, scores_of
from heatcheck.metrics.agreement import agreement_of_draws, correlations_of_draws, rank_correlations
from heatcheck.metrics.chance import kendall_band
from heatcheck.metrics.resampling import quantiles
from heatcheck.metrics.statistics import average_ranks

Array = NDArray[np.float64]
FACTS = ("smoothness", "concentration", "centrality")
_SOURCES = {"smoothness": "roughness", "concentration": "concentration", "centrality": "centrality"}


def fact_columns(maps: pd.DataFrame) -> list[Column]:
    """The facts about heatmaps as columns like those of a metric, more is more of it, in order of ``FACTS``.

    Their resamples are drawn together with those of metrics of the same images in the same order.

    Args:
        maps: Columns ``method, image, roughness, concentration, centrality``, one row per heatmap; NaN is no
            fact. ``smoothness`` is minus the roughness.

    Raises:
        ValueError: A column is missing or a heatmap comes twice.
    """
    if maps.empty:
        return []
    needed = ["method", "image", *_SOURCES.values()]
    if missing := [name for name in needed if name not in maps.columns]:
        raise ValueError(f"maps have no column {', '.join(missing)}; needed: {', '.join(needed)}")
    if maps.duplicated(["method", "image"]).any():
        raise ValueError("maps name a method and image twice; give one row per heatmap, of one classifier")
    methods, images = (tuple(dict.fromkeys(maps[name])) for name in ("method", "image"))
    return [_fact_column(maps, fact, methods, images) for fact in FACTS]


def smoothness_table(
    columns: Sequence[Column], maps: pd.DataFrame, *, with_controls: bool = False, seed: int = 0
) -> pd.DataFrame:
    """Kendall's tau between each metric's ranking of methods and their ranking by each fact about maps.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        maps: Facts, as ``fact_columns`` takes them.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``metric, label, benchmark, fact, kendall, low, high`` (95 % interval over images), ``n``
        (methods with both), ``chance_low, chance_high`` (95 % band of random rankings) and
        ``beyond_chance``. Positive where smooth, concentrated or central maps do well. No rows without maps.
    """
    main, facts = main_columns(columns), fact_columns(maps)
    names = kept_methods(main, with_controls=with_controls)
    by_fact = {fact.key: scores_of(fact, names, seed) for fact in facts}
    rows = []
    for column in main:
        scores = scores_of(column, names, seed)
        for fact, values in by_fact.items():
            rows.append(_named(column) | {"fact": fact} | tau_of_scores(scores, values))
    named = ["metric", "label", "benchmark", "fact", *_TAU, "beyond_chance"]
    return pd.DataFrame(rows, columns=named)


def partial_table(
    columns: Sequence[Column],
    maps: pd.DataFrame,
    *,
    fact: str = "smoothness",
    with_controls: bool = False,
    seed: int = 0,
) -> pd.DataFrame:
    """Kendall's tau of every two metrics, and what is left of it given a fact about maps.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        maps: Facts, as ``fact_columns`` takes them.
        fact: The fact that is held: ``smoothness``, ``concentration`` or ``centrality``.
        with_controls: Count the controls among the methods.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``first, second, first_label, second_label, same_benchmark, fact, kendall, low, high,
        partial, partial_low, partial_high, n``: both with 95 % intervals over images, of the ``n`` methods
        that have a score under both metrics and the fact. No rows without maps.

    Raises:
        ValueError: The fact is unknown.
    """
    if fact not in FACTS:
        raise ValueError(f"unknown fact {fact!r}; allowed: {', '.join(FACTS)}")
    main = main_columns(columns)
    names = kept_methods(main, with_controls=with_controls)
    scores = [scores_of(column, names, seed) for column in main]
    rows = [
        describe_pair(main[i], main[j]) | {"fact": fact} | _partial(scores[i], scores[j], held)
        for held in (scores_of(held, names, seed) for held in fact_columns(maps) if held.key == fact)
        for i, j in combinations(range(len(main)), 2)
    ]
    labels = ["first", "second", "first_label", "second_label", "same_benchmark", "fact"]
    values = ["kendall", "low", "high", "partial", "partial_low", "partial_high", "n"]
    return pd.DataFrame(rows, columns=[*labels, *values])


def partial_tau(both: Array, first: Array, second: Array) -> Array:
    """Kendall's partial rank correlation ``(...)`` of two rankings given a third.

    ``(t12 - t13 t23) / sqrt((1 - t13²) (1 - t23²))`` (Kendall 1942). NaN where the third ranking is one of
    the two or its reverse.

    Args:
        both: ``(...)`` tau of the two rankings.
        first: ``(...)`` tau of the first and the third.
        second: ``(...)`` tau of the second and the third.
    """
    # Rounding leaves a perfect tau a little off 1.
    left = np.clip((1 - first**2) * (1 - second**2), 0, None)
    defined = left > 1e-12
    partial: Array = np.divide(
        both - first * second, np.sqrt(left), out=np.full(np.shape(both), np.nan), where=defined
    )
    return partial


def control_ranks(columns: Sequence[Column], *, seed: int = 0) -> pd.DataFrame:
    """Where each control stands under each metric, among all methods with a score.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        seed: Seed of the bootstrap over images.

    Returns:
        Columns ``metric, label, benchmark, control, rank`` (1 is best, NaN without a score), ``n`` (methods
        and controls with a rank), ``n_methods`` (methods alone), ``beats`` (methods whose score is worse),
        ``beats_surely`` (those where the 95 % interval of the paired difference excludes 0), ``share``
        (``beats`` of ``n_methods``) and ``beaten`` (those surely beaten, as text).
    """
    load_catalog()
    rows = []
    for column in main_columns(columns):
        for control in filter(is_control, column.methods):
            rows.append(_named(column) | {"control": control} | _standing(column, control, seed))
    named = ["metric", "label", "benchmark", "control", "rank", "n", "n_methods", "beats", "beats_surely"]
    return pd.DataFrame(rows, columns=[*named, "share", "beaten"])


_TAU = ("kendall", "low", "high", "n", "chance_low", "chance_high")


def tau_of_scores(first: tuple[Array, Array], second: tuple[Array, Array]) -> dict[str, Any]:
    """Kendall's tau of two scores of methods, with its interval and the band of random rankings.

    Args:
        first: Scores ``(M,)`` and their resamples ``(R, M)``; NaN is no score.
        second: Another score of the same methods.

    Returns:
        ``kendall, low, high, n, chance_low, chance_high, beyond_chance``; NaN for fewer than two methods.
    """
    known = ~(np.isnan(first[0]) | np.isnan(second[0]))
    draws = [scores[1][:, known] for scores in (first, second)]
    found = agreement_of_draws(first[0][known], second[0][known], *draws, level=LEVEL)
    low, high = kendall_band(found.n, LEVEL) if found.n > 1 else (float("nan"),) * 2
    values = (found.kendall, found.kendall_low, found.kendall_high, found.n, low, high)
    return dict(zip(_TAU, values, strict=True)) | {
        "beyond_chance": found.kendall < low or found.kendall > high
    }


def _fact_column(maps: pd.DataFrame, fact: str, methods: tuple[str, ...], images: tuple[str, ...]) -> Column:
    square = maps.pivot(index="image", columns="method", values=_SOURCES[fact])
    values = square.reindex(index=list(images), columns=list(methods)).to_numpy(dtype=np.float64)
    metric = Metric(fact, fact, "deletion", "higher", f"{fact} of the map")
    sign = -1 if fact == "smoothness" else 1
    return Column(metric, "", methods, tuple(map(str, images)), sign * values[None], {})


def _named(column: Column) -> dict[str, Any]:
    metric = column.metric
    return {"metric": metric.key, "label": metric.label, "benchmark": metric.benchmark}


def _partial(
    first: tuple[Array, Array], second: tuple[Array, Array], held: tuple[Array, Array]
) -> dict[str, Any]:
    """Tau and partial tau of two scores given a third, over the methods that have all three."""
    every = (first, second, held)
    known = ~np.isnan(np.stack([scores for scores, _ in every])).any(0)
    pairs = ((0, 1), (0, 2), (1, 2))
    point = np.array([rank_correlations(every[i][0][known], every[j][0][known])[1] for i, j in pairs])
    drawn = np.stack(
        [correlations_of_draws(every[i][1][:, known], every[j][1][:, known])[:, 1] for i, j in pairs]
    )
    left = partial_tau(drawn[0], drawn[1], drawn[2])
    low, high = quantiles(np.stack([drawn[0], left], axis=1), LEVEL)
    return {
        "kendall": float(point[0]),
        "low": float(low[0]),
        "high": float(high[0]),
        "partial": float(partial_tau(*(np.array(value) for value in point))),
        "partial_low": float(low[1]),
        "partial_high": float(high[1]),
        "n": int(known.sum()),
    }


def _standing(column: Column, control: str, seed: int) -> dict[str, Any]:
    """Rank of a control and the methods it beats under one metric."""
    goodness, draws = column.goodness(), column.draws(seed=seed)
    ranks = average_ranks(goodness, best="high")
    place = column.methods.index(control)
    scored = ~np.isnan(goodness)
    looking = scored & ~np.array([is_control(name) for name in column.methods])
    low, _ = quantiles(draws[:, [place]] - draws, LEVEL)
    surely = looking & (low > 0) if scored[place] else np.zeros_like(looking)
    beats = int((looking & (goodness < goodness[place])).sum()) if scored[place] else 0
    return {
        "rank": float(ranks[place]),
        "n": int(scored.sum()),
        "n_methods": int(looking.sum()),
        "beats": beats,
        "beats_surely": int(surely.sum()),
        "share": beats / looking.sum() if looking.any() and scored[place] else float("nan"),
        "beaten": ", ".join(np.array(column.methods)[surely]),
    }
