"""Which method should be used, which benchmark be trusted for what: answers are computed, none is typed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.registry import METHODS, is_control
from heatcheck.benchmarks import comparison_tables as tables
from heatcheck.benchmarks.comparison_chance import control_ranks, smoothness_table
from heatcheck.benchmarks.comparison_columns import METRICS, Column, main_columns
from heatcheck.benchmarks.comparison_conflicts import decided_share
from heatcheck.benchmarks.comparison_published import published_numbers
from heatcheck.benchmarks.comparison_stability import ceiling, classifier_table, halves_table
from heatcheck.benchmarks.comparison_tables import HEADLINE, LEVEL, MEAN_RANK, scores_of
from heatcheck.metrics.resampling import quantiles

Array = NDArray[np.float64]
BOOK = "this book"
_ROAR, _SINGLE = "hooker2019benchmark", "hesse2024benchmarking"
_USES = (
    ("mass", "You want to see where the object is that decides the answer.", "arras2022clevr"),
    ("localization-error", "You want a box around the object.", "fong2017interpretable"),
    ("deletion", "You want the pixels without which this network changes its mind.", "petsiuk2018rise"),
    ("insertion", "You want few pixels that are enough for this network.", "petsiuk2018rise"),
    ("idsds", "You want image patches in the order of their importance.", _SINGLE),
    ("roar", "You want the pixels that hold the information, whatever the network.", _ROAR),
    ("kar", "You want few pixels that are enough to learn from.", _ROAR),
)
# Methods that take one forward and one backward pass, whatever their options; rules of LRP do too.
ONE_PASS = frozenset(
    {
        *("gradient", "gradient-squared", "input-x-gradient", "input-x-gradient-squared"),
        *("guided-backprop", "guided-backprop-squared", "deconvnet"),
        *("grad-cam", "grad-cam-signed", "grad-cam++", "grad-cam++-cubed", "layer-cam", "xgrad-cam"),
    }
)


class Decision(NamedTuple):
    """A question with its answer.

    Attributes:
        about: ``method`` or ``benchmark``.
        question: What a reader wants to know.
        answer: What to use, in words.
        evidence: The numbers behind it.
        source: Key of the benchmark's or the table's paper in the bibliography, or ``this book``.
    """

    about: str
    question: str
    answer: str
    evidence: str
    source: str


class Best(NamedTuple):
    """The best method by a column and what it cannot be told from.

    Attributes:
        method: With the best score; controls are no methods here.
        alike: Methods whose paired difference from it has an interval that holds 0, best first.
        control: The best control; None where there is none with a score.
        beaten: Methods that are surely better than that control.
    """

    method: str
    alike: tuple[str, ...]
    control: str | None
    beaten: tuple[str, ...]


def decision_table(
    columns: Sequence[Column], maps: pd.DataFrame, more: Sequence[Decision] = (), *, seed: int = 0
) -> pd.DataFrame:
    """Questions and their answers; those whose metrics or methods there are not are left out.

    Args:
        columns: Columns of the comparison.
        maps: Facts about the heatmaps, as ``comparison_chance.fact_columns`` takes them; may be empty.
        more: Further answers, listed before those of published tables.
        seed: Of the bootstrap.

    Returns:
        Columns ``about, question, answer, evidence, source``, questions about methods first.
    """
    main = [column for column in main_columns(columns) if _has_method(column)]
    numbers = published_numbers()
    rows = [
        *_uses(main, seed),
        *_general(main),
        *_resolution(main, seed),
        *_stability(columns, seed),
        *_smoothness(main, maps, seed),
        *_floors(main, seed),
        *_substitutes(main, numbers, seed),
        *more,
        *_published(numbers),
    ]
    return pd.DataFrame(rows, columns=list(Decision._fields))


def best_methods(column: Column, *, seed: int = 0) -> Best:
    """The best method of a column, the methods that are as good for all that is known, and the best control.

    Args:
        column: A column with a score of at least one method.
        seed: Seed of the bootstrap over images (and runs).

    Raises:
        ValueError: No method has a score.
    """
    if not _has_method(column):
        raise ValueError(f"no method has a score by {column.key}; score a method that is no control")
    names = [name for name, mean in zip(column.methods, column.means(), strict=True) if not np.isnan(mean)]
    goodness, draws = scores_of(column, names, seed)
    order = [int(place) for place in np.argsort(-goodness, kind="stable")]
    methods = [place for place in order if not is_control(names[place])]
    controls = [place for place in order if is_control(names[place])]
    low, _ = quantiles(draws[:, [methods[0]]] - draws, LEVEL)
    alike = tuple(names[place] for place in methods[1:] if low[place] <= 0)
    if not controls:
        return Best(names[methods[0]], alike, None, ())
    above, _ = quantiles(draws - draws[:, [controls[0]]], LEVEL)
    beaten = tuple(names[place] for place in methods if above[place] > 0)
    return Best(names[methods[0]], alike, names[controls[0]], beaten)


def _has_method(column: Column) -> bool:
    load_catalog()
    means = zip(column.methods, column.means(), strict=True)
    return any(not np.isnan(mean) and not is_control(name) for name, mean in means)


def _interval(column: Column, method: str, seed: int) -> str:
    """Score of a method in the metric's own direction, with its interval."""
    goodness, draws = scores_of(column, [method], seed)
    low, high = quantiles(draws, LEVEL)
    sign = column.metric.sign
    ends = sorted((sign * float(low[0]), sign * float(high[0])))
    return f"{sign * float(goodness[0]):z.3f} [{ends[0]:z.3f}, {ends[1]:z.3f}]"


def _uses(main: Sequence[Column], seed: int) -> Iterator[Decision]:
    by_key = {column.key: column for column in main}
    for key, question, paper in _USES:
        if key not in by_key:
            continue
        column = by_key[key]
        best = best_methods(column, seed=seed)
        answer = best.method
        if best.alike:
            answer = f"{answer}; not told apart from it: {', '.join(best.alike)}"
        if best.control and not best.beaten:
            answer = f"none surely: the control {best.control} is not beaten. Best: {answer}"
        elif best.control and best.method not in best.beaten:
            answer = f"{answer}; surely better than {best.control}: {', '.join(best.beaten)}"
        evidence = (
            f"{column.metric.label} {_interval(column, best.method, seed)} on {len(column.images)} images"
        )
        if best.control:
            evidence = f"{evidence}; best control: {best.control}, {_interval(column, best.control, seed)}"
        yield Decision("method", question, answer, evidence, paper)


def _general(main: Sequence[Column]) -> Iterator[Decision]:
    """The best mean rank over benchmarks: of all methods, of those of one backward pass, of each family."""
    if not main:
        return
    ranks = tables.rank_table(main)
    ranks = ranks[ranks[MEAN_RANK].notna()]
    cheap = ranks.loc[[name for name in ranks.index if _is_one_pass(str(name))]]
    questions = (("You want one method for everything.", ranks), ("You can afford one backward pass.", cheap))
    for question, table in questions:
        if len(table) > 1:
            name = str(table.index[0])
            own = table.loc[name].drop(MEAN_RANK).astype(float)
            worst = f"from place {own.min():.0f} ({own.idxmin()}) to place {own.max():.0f} ({own.idxmax()})"
            chosen = f"the best of {len(table)} such methods: mean rank {table[MEAN_RANK].iloc[0]:.1f}"
            yield Decision("method", question, name, f"{chosen} among {len(ranks)}; {worst}", BOOK)
    families = [METHODS[str(name)].family if name in METHODS else "" for name in ranks.index]
    first = ranks.assign(family=families).query("family != ''").groupby("family", sort=False).head(1)
    if len(first) > 1:
        answer = ", ".join(f"{family}: {name}" for name, family in first["family"].items())
        listed = ", ".join(f"{name} {rank:.1f}" for name, rank in first[MEAN_RANK].items())
        question = "You want a method of a certain family."
        yield Decision("method", question, answer, f"best mean rank of each family: {listed}", BOOK)


def _is_one_pass(name: str) -> bool:
    return name in ONE_PASS or (name in METHODS and METHODS[name].family == "lrp")


def _ordered(values: Mapping[str, float]) -> list[tuple[str, str]]:
    """Labels of metrics with their values as text, the largest first."""
    known = [(METRICS[key].label, value) for key, value in values.items() if not np.isnan(value)]
    ordered = sorted(known, key=lambda item: -item[1])
    return [(label, f"{value:.2f}") for label, value in ordered]


def _list(items: Sequence[tuple[str, str]]) -> str:
    return ", ".join(" ".join(item) for item in items)


def _resolution(main: Sequence[Column], seed: int) -> Iterator[Decision]:
    table = decided_share(main, seed=seed)
    found = _ordered(dict(zip(table["metric"], table["share"].astype(float), strict=True)))
    if found:
        question = "Which metric tells methods apart best?"
        evidence = f"share of pairs of methods with a sure difference: {_list(found)}"
        yield Decision("benchmark", question, found[0][0], evidence, BOOK)


def _stability(columns: Sequence[Column], seed: int) -> Iterator[Decision]:
    kinds = (
        ("images", "halves of the images", halves_table(main_columns(columns), seed=seed)),
        ("classifiers", "two classifiers", classifier_table(columns, seed=seed)),
    )
    for what, between, table in kinds:
        if found := _ordered(ceiling(table)):
            question = f"Which metric ranks methods most alike on other {what}?"
            evidence = f"Kendall's tau between {between}: {_list(found)}"
            yield Decision("benchmark", question, found[0][0], evidence, BOOK)


def _smoothness(main: Sequence[Column], maps: pd.DataFrame, seed: int) -> Iterator[Decision]:
    if maps.empty or not main:
        return
    table = smoothness_table(main, maps, seed=seed).dropna(subset=["kendall"])
    rows = table[table["fact"] == "smoothness"].to_dict("records")
    if rows:
        rows.sort(key=lambda row: abs(row["kendall"]))
        beyond = [row["label"] for row in rows if row["beyond_chance"]]
        listed = ", ".join(f"{row['label']} {row['kendall']:+.2f}" for row in rows)
        evidence = f"Kendall's tau of score and smoothness: {listed}; beyond chance: "
        question = "Which metric is explained least by how smooth heatmaps are?"
        answer = str(rows[0]["label"])
        yield Decision("benchmark", question, answer, evidence + (", ".join(beyond) or "none"), BOOK)


def _floors(main: Sequence[Column], seed: int) -> Iterator[Decision]:
    table = control_ranks(main, seed=seed).dropna(subset=["rank"])
    table = table[table["metric"].isin(HEADLINE)].sort_values("rank", kind="stable")
    rows = table.drop_duplicates("metric").to_dict("records")
    rows.sort(key=lambda row: HEADLINE.index(row["metric"]))
    if rows:
        answer = ", ".join(f"{row['label']}: {row['control']}" for row in rows)
        counts = [f"{row['label']} {row['beats']} of {row['n_methods']}" for row in rows]
        evidence = f"methods with a worse score than that control: {', '.join(counts)}"
        yield Decision("benchmark", "Which control has to be beaten?", answer, evidence, BOOK)


def _substitutes(main: Sequence[Column], numbers: Mapping[str, Any], seed: int) -> Iterator[Decision]:
    """Whether one benchmark may stand for another, and whether removing and keeping are one question."""
    table = tables.agreement_table(main, seed=seed).dropna(subset=["kendall"])
    between = table[~table["same_benchmark"].astype(bool)].sort_values("kendall", kind="stable")
    rows = between.to_dict("records")
    if rows:
        sure = [row for row in rows if row["kendall_low"] > row["chance_high"]]
        pairs = [f"{row['first_label']} for {row['second_label']}" for row in reversed(sure)]
        answer = ", ".join(pairs) or "no: no two metrics of different benchmarks surely agree beyond chance"
        ends = [
            f"{r['first_label']} and {r['second_label']} {r['kendall']:+.2f}" for r in (rows[-1], rows[0])
        ]
        evidence = f"Kendall's tau between benchmarks, from {ends[0]} down to {ends[1]}"
        yield Decision(
            "benchmark", "May a metric stand for one of another benchmark?", answer, evidence, BOOK
        )
    both = table[(table["first"] == "roar") & (table["second"] == "kar")].to_dict("records")
    for row in both:
        low, high = row["kendall_low"], row["kendall_high"]
        verdict = "yes" if low > row["chance_high"] else "no" if high < row["chance_low"] else "not shown"
        here = f"{row['kendall']:+.2f} [{low:+.2f}, {high:+.2f}] here"
        evidence = (
            f"Kendall's tau of ROAR and KAR: {here}, {_span(numbers, 'question')} by the published table"
        )
        question = "Is what is worth removing also what is worth keeping?"
        yield Decision("benchmark", question, verdict, evidence, _ROAR)


def _span(numbers: Mapping[str, Any], relation: str) -> str:
    return f"{numbers[f'{relation}_low']:+.2f} to {numbers[f'{relation}_high']:+.2f}"


def _published(numbers: Mapping[str, Any]) -> Iterator[Decision]:
    """Whether a ranking carries over to other networks and data, from published tables alone."""
    kinds = (("network", "IDSDS", "network", _SINGLE), ("data", "ROAR or KAR", "data set", _ROAR))
    for relation, name, what, paper in kinds:
        beyond, n_pairs = numbers[f"{relation}_beyond"], numbers[f"{relation}_pairs"]
        verdict = "yes" if beyond == n_pairs else "not always" if beyond else "no"
        question = f"Does a ranking by {name} carry over to another {what}?"
        answer = f"{verdict}: beyond chance in {beyond} of {n_pairs} published pairs"
        evidence = f"Kendall's tau of published rankings, {_span(numbers, relation)}"
        yield Decision("benchmark", question, answer, evidence, paper)
