"""What the comparison says about statements of its own and of the papers: yes, no or undecided.

A statement about several metrics is answered by the one that bears it out least.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS, is_control
from heatcheck.benchmarks import comparison_tables as tables
from heatcheck.benchmarks.comparison_chance import smoothness_table
from heatcheck.benchmarks.comparison_columns import METRICS, Column, main_columns
from heatcheck.benchmarks.comparison_stability import halves_table
from heatcheck.benchmarks.comparison_tables import HEADLINE, LEVEL, interval_of, kept_methods, scores_of
from heatcheck.benchmarks.findings import Finding, decide
from heatcheck.metrics.agreement import correlations_of_draws, rank_correlations
from heatcheck.metrics.resampling import defined_means, quantiles

Array = NDArray[np.float64]
BOOK = "this book"
_PAIRED = "paired difference, in standard deviations over methods"
_ONE = 0.5  # a count above it is at least one
_GROUPS = {
    tables.ONE_EACH: ("benchmarks_agree", "The four benchmarks, one metric of each, rank methods alike"),
    tables.BY_BENCHMARK: (
        "mean_ranks_agree",
        "The four benchmarks, by the mean rank of each, rank methods alike",
    ),
    tables.ALL: ("metrics_agree", "All metrics together rank methods alike"),
}
_AGREE = (
    ("mass", "rank", "arras2022clevr"),
    ("deletion", "insertion", BOOK),
    ("idsds", "sds", BOOK),
    ("idsds", "ids", BOOK),
    ("roar", "kar", BOOK),
    ("mass", "deletion", BOOK),
    ("mass", "idsds", BOOK),
    ("mass", "roar", BOOK),
    ("deletion", "idsds", BOOK),
    ("deletion", "roar", BOOK),
    ("idsds", "roar", BOOK),
)
_FACTS = (
    ("smooth_roar", "smooth", "roar", "smoothness", "song2023pitfalls"),
    ("smooth_idsds", "smooth", "idsds", "smoothness", BOOK),
    ("smooth_deletion", "smooth", "deletion", "smoothness", BOOK),
    ("concentrated_mass", "concentrated", "mass", "concentration", BOOK),
    ("central_box", "central", "localization-error", "centrality", BOOK),
)
# The first method does better than the second under one metric, as published.
_PUBLISHED = (
    ("squared_roar", "roar", "smoothgrad-squared", "smoothgrad", "hooker2019benchmark"),
    ("variance_roar", "roar", "vargrad", "smoothgrad", "hooker2019benchmark"),
    ("squared_roar_gradient", "roar", "smoothgrad-squared", "gradient", "hooker2019benchmark"),
    ("cam_idsds", "idsds", "grad-cam", "integrated-gradients", "hesse2024benchmarking"),
    ("ig_idsds", "idsds", "integrated-gradients", "input-x-gradient", "hesse2024benchmarking"),
    ("gradient_box", "localization-error", "gradient", "grad-cam", "fong2017interpretable"),
    ("masks_box", "localization-error", "meaningful-perturbation", "sliding-patch", "fong2017interpretable"),
)
# The first does better than the second under one metric of every benchmark.
_EVERYWHERE = (
    ("ig_everywhere", "integrated-gradients", "gradient"),
    ("smoothing_everywhere", "smoothgrad", "gradient"),
    ("cam_everywhere", "grad-cam", "gradient"),
)


def findings(columns: Sequence[Column], maps: pd.DataFrame, *, seed: int = 0) -> list[Finding]:
    """Answers to all statements whose metrics and methods there are.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        maps: Facts about the heatmaps, as ``comparison_chance.fact_columns`` takes them; without a row no
            statement about them is answered.
        seed: Seed of the bootstrap and of random rankings.
    """
    load_catalog()
    main = [column for column in main_columns(columns) if not np.isnan(column.means()).all()]
    return [
        *_concordances(main, seed),
        *_agreements(main, seed),
        *_inside(main, seed),
        *_facts(main, maps, seed),
        *_controls(main, seed),
        *_winners(main, seed),
        *_everywhere(main, seed),
        *_published(main, seed),
        *_families(main, seed),
    ]


class _Scored(NamedTuple):
    """Goodness ``(M,)`` of the same methods by one column, and its resamples ``(R, M)``."""

    column: Column
    goodness: Array
    draws: Array


def _headline(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.key in HEADLINE]


def _finding(
    words: tuple[str, str, str, str], numbers: Sequence[float], used: Sequence[Column], chance: float = 0.0
) -> Finding:
    """A finding with key, statement, source and quantity, and an estimate with its interval.

    ``yes`` if the whole interval lies above ``chance``, ``no`` if wholly below. The number of images is that
    of the column with fewest.
    """
    estimate, low, high = (float(number) for number in numbers)
    answer = decide(low - chance, high - chance, supports="positive")
    n_images = min(len(column.images) for column in used)
    return Finding(*words[:3], answer, words[3], estimate, low, high, n_images)


def _concordances(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    table = tables.concordance_table(main, seed=seed)
    for row in table[table["group"].isin(_GROUPS)].dropna(subset=["w"]).to_dict("records"):
        key, text = _GROUPS[row["group"]]
        used = _headline(main) if row["group"] == tables.ONE_EACH else main
        what = f"Kendall's W of {row['n_methods']} methods by {row['raters']} rankings"
        words = (key, f"{text}, more than by chance.", BOOK, f"{what}; chance reaches {row['chance']:.2f}")
        yield _finding(words, (row["w"], row["low"], row["high"]), used, row["chance"])


def _agreements(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    rows = {
        (row["first"], row["second"]): row
        for row in tables.agreement_table(main, seed=seed).to_dict("records")
    }
    for first, second, source in _AGREE:
        row = rows.get((first, second)) or rows.get((second, first))
        if row is None or np.isnan(row["kendall"]):
            continue
        key = f"agree_{first}_{second}"
        labels = METRICS[first].label, METRICS[second].label
        text = f"By {labels[0]} and by {labels[1]} methods rank more alike than by chance."
        words = (key, text, source, _tau("", row))
        numbers = (row["kendall"], row["kendall_low"], row["kendall_high"])
        used = [column for column in main if column.key in (first, second)]
        yield _finding(words, numbers, used, row["chance_high"])


def _tau(what: str, row: Mapping[Hashable, Any]) -> str:
    return f"Kendall's tau{what}, {row['n']} methods; chance reaches {row['chance_high']:+.2f}"


def _inside(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    """Agreement inside a benchmark, and of a metric with itself, against agreement between benchmarks."""
    methods = kept_methods(main)
    pairs = list(combinations((_Scored(column, *scores_of(column, methods, seed)) for column in main), 2))
    same = [one.column.metric.benchmark == other.column.metric.benchmark for one, other in pairs]
    inside = [pair for pair, alike in zip(pairs, same, strict=True) if alike]
    between = [pair for pair, alike in zip(pairs, same, strict=True) if not alike]
    if not between:
        return
    outer, outer_draws = _mean_taus(between)
    if inside:
        inner, inner_draws = _mean_taus(inside)
        text = "Metrics of one benchmark agree more than metrics of different benchmarks."
        what = "mean of Kendall's tau, pairs inside benchmarks minus pairs between them"
        words = ("inside_over_between", text, BOOK, what)
        yield _finding(words, (inner - outer, *interval_of(inner_draws - outer_draws)), main)
    itself = halves_table(main, seed=seed)[["kendall", "low", "high"]].mean()
    low, high = interval_of(outer_draws)
    text = "A metric agrees with itself on other images more than with metrics of other benchmarks."
    what = "mean of Kendall's tau, halves of the images minus pairs between benchmarks"
    # Both intervals at their worst.
    numbers = (itself["kendall"] - outer, itself["low"] - high, itself["high"] - low)
    yield _finding(("itself_over_between", text, BOOK, what), numbers, main)


def _mean_taus(pairs: Sequence[tuple[_Scored, _Scored]]) -> tuple[float, Array]:
    """Mean over pairs of columns of Kendall's tau over methods, and its resamples ``(R,)``."""
    points, drawn = [], []
    for first, second in pairs:
        known = ~(np.isnan(first.goodness) | np.isnan(second.goodness))
        points.append(rank_correlations(first.goodness[known], second.goodness[known])[1])
        drawn.append(correlations_of_draws(first.draws[:, known], second.draws[:, known])[:, 1])
    return float(defined_means(np.array(points))), defined_means(np.stack(drawn))


def _facts(main: Sequence[Column], maps: pd.DataFrame, seed: int) -> Iterator[Finding]:
    if maps.empty or not main:
        return
    table = smoothness_table(main, maps, seed=seed).dropna(subset=["kendall"])
    rows = {(row["metric"], row["fact"]): row for row in table.to_dict("records")}
    for key, adjective, metric, fact, source in _FACTS:
        if row := rows.get((metric, fact)):
            text = f"Methods with {adjective} maps do well by {METRICS[metric].label}, more than by chance."
            words = (key, text, source, _tau(f" of score and {fact}", row))
            used = [column for column in main if column.key == metric]
            yield _finding(words, (row["kendall"], row["low"], row["high"]), used, row["chance_high"])


def _controls(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    """How many methods the best control beats: by the mean, surely, and possibly."""
    counts = []
    for column in _headline(main):
        names = list(np.array(column.methods)[~np.isnan(column.means())])
        control = np.array([is_control(name) for name in names])
        if control.all() or not control.any():
            continue
        goodness, draws = scores_of(column, names, seed)
        best = int(np.flatnonzero(control)[goodness[control].argmax()])
        low, high = quantiles(draws[:, [best]] - draws[:, ~control], LEVEL)
        counts.append([(goodness[~control] < goodness[best]).sum(), (low > 0).sum(), (high >= 0).sum()])
    if len(counts) > 1:
        text = "In every benchmark some method does worse than a control, which never looks at the network."
        what = "methods beaten by the best control, in the benchmark with fewest"
        words = ("control_beats", text, BOOK, what)
        yield _finding(words, np.array(counts).min(0).tolist(), _headline(main), _ONE)


def _winners(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    """How many pairs of benchmarks have the same best method."""
    methods = kept_methods(main)
    every = [_Scored(column, *scores_of(column, methods, seed)) for column in _headline(main)]
    scored = [one for one in every if not np.isnan(one.goodness).all()]
    if len(scored) < 2:
        return
    winners = [
        np.where(np.isnan(table), -np.inf, table).argmax(1)
        for table in (np.concatenate([one.goodness[None], one.draws]) for one in scored)
    ]
    pairs = list(combinations(winners, 2))
    shared = np.sum([one == other for one, other in pairs], axis=0).astype(np.float64)
    text = "The best method of one benchmark is the best of another one too."
    what = f"of {len(pairs)} pairs of benchmarks, those with the same best method"
    numbers = (shared[0], *interval_of(shared[1:]))
    yield _finding(("winner_shared", text, BOOK, what), numbers, [one.column for one in scored], _ONE)


def _everywhere(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    for key, first, second in _EVERYWHERE:
        gaps = [(column, _gap(column, [first], [second], seed)) for column in _headline(main)]
        found = [(column, gap) for column, gap in gaps if gap]
        if len(found) > 1:
            # The benchmark that bears it out least answers.
            values = np.array([gap for _, gap in found])
            weakest = found[int(values[:, 0].argmin())][0].metric.label
            text = f"{first} does better than {second} in every benchmark."
            what = f"difference in standard deviations over methods; smallest by {weakest}"
            yield _finding((key, text, BOOK, what), values.min(0).tolist(), [column for column, _ in found])


def _published(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    by_key = {column.key: column for column in main}
    for key, metric, first, second, source in _PUBLISHED:
        if metric in by_key and (gap := _gap(by_key[metric], [first], [second], seed)):
            text = f"By {METRICS[metric].label}, {first} does better than {second}."
            yield _finding((key, text, source, _PAIRED), gap, [by_key[metric]])


def _families(main: Sequence[Column], seed: int) -> Iterator[Finding]:
    """What the paper of CLEVR-XAI says of the best and the worst methods."""
    for column in (column for column in main if column.key == "mass"):
        names, paper = kept_methods([column]), "arras2022clevr"
        lrp = [name for name in names if name in METHODS and METHODS[name].family == "lrp"]
        if gap := _gap(column, lrp, [name for name in names if name not in lrp], seed):
            text = "By mass, a rule of LRP is best of all methods."
            yield _finding(("lrp_first", text, paper, _PAIRED), gap, [column])
        strong = [*lrp, *(name for name in ("integrated-gradients", "guided-backprop") if name in names)]
        for key, name in (("cam_last", "grad-cam"), ("deconvnet_last", "deconvnet")):
            if gap := _gap(column, strong, [name], seed, weakest=True):
                text = f"By mass, {name} is worse than LRP, integrated gradients and guided backpropagation."
                yield _finding((key, text, paper, _PAIRED), gap, [column])


def _gap(
    column: Column, first: Sequence[str], second: Sequence[str], seed: int, *, weakest: bool = False
) -> tuple[float, float, float] | None:
    """Best of ``first`` (or its weakest) minus the best of ``second`` with its interval; None without scores.

    In standard deviations of the goodness over methods, so that metrics can be set against each other.
    """
    goodness, draws = scores_of(column, [*first, *second], seed)
    left, right = ~np.isnan(goodness[: len(first)]), ~np.isnan(goodness[len(first) :])
    every = scores_of(column, kept_methods([column]))[0]
    spread = float(np.nanstd(every)) if left.any() and right.any() else 0.0
    if spread == 0:
        return None
    table = np.concatenate([goodness[None], draws])
    one, other = table[:, : len(first)][:, left], table[:, len(first) :][:, right]
    gaps = ((one.min(1) if weakest else one.max(1)) - other.max(1)) / spread
    return float(gaps[0]), *interval_of(gaps[1:])
