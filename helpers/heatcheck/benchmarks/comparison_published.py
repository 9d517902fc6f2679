"""Do published tables of different benchmarks rank methods alike, where they hold the same methods?

Nothing here was run: values are those of the papers, their figures and their authors' notebooks, and what
``roar_published`` computes from a published table. They come from other networks, images and options.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any, Literal, NamedTuple

import pandas as pd
from scipy import stats

from heatcheck.benchmarks.comparison_columns import Benchmark
from heatcheck.benchmarks.idsds_published import BACKBONES
from heatcheck.benchmarks.published import published_scores
from heatcheck.benchmarks.roar_published import CONTROLS, published_summary
from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.chance import kendall_band

# Fewer methods have no rank agreement to speak of.
MIN_METHODS = 3
_PAPER_ROAR, _PAPER_SINGLE, _REPLICA = "hooker2019benchmark", "hesse2024benchmarking", "decaf2026"
_PATCHES = "single deletion"
_REPLICATED = ("ResNet-50", "VGG-16", "ViT-B/16")  # networks of the replication
_SQUARED, _VARIANCE = "ig-smoothgrad-squared", "ig-vargrad"
# Two markers of the published figure that cannot be told apart.
_UPPER, _LOWER = (f"{_SQUARED} or {_VARIANCE}, {place}" for place in ("upper", "lower"))
_SMOOTHED = "15 noisy copies, the strength of the noise unstated, against 4 with deviation 1"
_PATH = "25 steps from black against 50 Gauss-Legendre nodes from the mean color"
# Published name and ours, and what differs from the method of that name in another of the papers.
_ROAR_NAMES: Mapping[str, tuple[str, str]] = {
    "grad": ("gradient", "signed and ranked by channel value"),
    "ig": ("integrated-gradients", _PATH),
    "gb": ("guided-backprop", "signed and ranked by channel value"),
    "sg-grad": ("smoothgrad", "15 noisy copies, the strength of the noise unstated"),
    "sg-ig": ("ig-smoothgrad", f"{_SMOOTHED}; {_PATH}"),
    "sg-gb": ("guided-backprop-smoothgrad", "in no other table"),
    "sg-sq-grad": ("smoothgrad-squared", "in no other table"),
    "sg-sq-ig": (_SQUARED, f"IG-SG-SQ; {_SMOOTHED}; {_PATH}; one of two figure markers that look alike"),
    "sg-sq-gb": ("guided-backprop-smoothgrad-squared", "in no other table"),
    "var-grad": ("vargrad", "in no other table"),
    "var-ig": (_VARIANCE, f"IG-SG-VG; {_SMOOTHED}; {_PATH}; one of two figure markers that look alike"),
    "var-gb": ("guided-backprop-vargrad", "in no other table"),
}
_OTHER_NAMES = (
    (_PAPER_SINGLE, "Grad-CAM++", "grad-cam++", "the library cubed the gradients: grad-cam++-cubed here"),
    (_PAPER_SINGLE, "SG-CAM++", "smooth-grad-cam++", "activations of the last noisy copy, not of the image"),
    (_PAPER_SINGLE, "RISE", "rise", "1000 masks of 8 x 8 cells, a tenth kept"),
    (_REPLICA, "RISE", "rise", "512 masks"),
    (_REPLICA, "IG", "integrated-gradients", "16 or 32 steps; correctly classified images alone"),
    (_REPLICA, "SmoothGrad", "smoothgrad", "16 samples; the strength of the noise is not known here"),
    ("hesse2023funnybirds", "RISE", "rise", "6000 masks; parts of birds, not patches"),
    ("petsiuk2018rise", "RISE", "rise", "5000 masks of 10 x 10 cells, a tenth kept"),
    ("fong2017interpretable", "occlusion", "sliding-patch", "patches of 35 pixels, 28 positions per side"),
    ("arras2022clevr", "IG", "integrated-gradients", "from zero; a network of questions and images"),
)


class Source(NamedTuple):
    """Published scores of several methods by one protocol, on one network and data set.

    Attributes:
        label: Name of the protocol with what tells it from others.
        benchmark: Benchmark of this book it belongs to.
        metric: Protocol; sources of one metric differ in network, data or setting alone.
        paper: Key in the bibliography.
        model: Network.
        data: Images.
        better: Which direction is better.
        values: Score by method; absolute maps are ``METHOD abs``.
        provenance: Where each value was read.
        primary: Whether it stands for its metric where tables hardly overlap.
    """

    label: str
    benchmark: Benchmark
    metric: str
    paper: str
    model: str
    data: str
    better: Literal["higher", "lower"]
    values: Mapping[str, float]
    provenance: Mapping[str, str]
    primary: bool = False


def published_names() -> pd.DataFrame:
    """Which published row is taken for which method, and what differs between the papers.

    Returns:
        Columns ``paper`` (key in the bibliography), ``published, method, differs``.
    """
    roar = [(_PAPER_ROAR, name.upper(), *ours) for name, ours in _ROAR_NAMES.items()]
    return pd.DataFrame([*roar, *_OTHER_NAMES], columns=["paper", "published", "method", "differs"])


def published_sources() -> list[Source]:
    """All published rankings that are compared, without controls."""
    return [*_retrained(), *_single_deletion(), *_localized()]


def published_pairs() -> pd.DataFrame:
    """Rank agreement of published tables over the methods that both hold.

    Tables of different benchmarks are compared on the same network where three or more methods overlap, and
    one of each metric in any case, so that overlaps too small are seen too. Beside them stands how well a
    benchmark agrees with itself. Rows differ by their ``note`` alone where markers cannot be told apart.

    Returns:
        Columns ``first, second, relation, same_benchmark, data, methods, n, kendall, spearman, p_value``
        (two-sided), ``p_method, chance_low, chance_high`` (95 % band of tau of random rankings),
        ``provenance, papers, note``. Below three shared methods there is no tau.
    """
    pairs = [pair for pair in combinations(published_sources(), 2) if _is_compared(*pair)]
    return pd.DataFrame([row for pair in pairs for row in _compare(*pair)])


def published_overlap() -> pd.DataFrame:
    """Published score of every method (rows) in one table of each protocol (columns), NaN where it has none.

    Returns:
        Columns ``method``, one per source by its label, and ``benchmarks`` with a score, of four; most first.
    """
    sources = [source for source in published_sources() if source.primary]
    table = pd.DataFrame({source.label: pd.Series(source.values, dtype=float) for source in sources})
    benchmarks = [len({s.benchmark for s in sources if name in s.values}) for name in table.index]
    table = table.assign(benchmarks=benchmarks).rename_axis("method").sort_index()
    return table.sort_values("benchmarks", ascending=False, kind="stable").reset_index()


def published_numbers() -> dict[str, Any]:
    """Numbers that prose quotes of published tables.

    Returns:
        ``n_between`` pairs of different benchmarks, of them ``n_overlapping`` with three or more methods and
        ``n_outside`` with a tau outside the chance band by any reading, and ``most_methods`` they share. For
        another ``network``, ``data`` set and ``question`` of one benchmark: ``network_low`` and
        ``network_high``, the ends of tau, of ``network_pairs``, ``network_beyond`` of them above chance.
    """
    pairs = published_pairs()
    # Readings of one pair are one pair; an unreadable marker must not make a pair decided.
    between = pairs[~pairs["same_benchmark"]]
    between = between.assign(outside=between["kendall"].abs() > between["chance_high"])
    between = between.groupby(["first", "second"]).agg({"n": "first", "outside": "all"})
    found: dict[str, Any] = {
        "n_between": len(between),
        "n_overlapping": int((between["n"] >= MIN_METHODS).sum()),
        "n_outside": int(between["outside"].sum()),
        "most_methods": int(between["n"].max()),
    }
    for relation in ("network", "data", "question"):
        known = pairs[pairs["relation"] == f"other {relation}"].dropna(subset=["kendall"])
        low, high = float(known["kendall"].min()), float(known["kendall"].max())
        found |= {f"{relation}_low": low, f"{relation}_high": high, f"{relation}_pairs": len(known)}
        beyond = int((known["kendall"] > known["chance_high"]).sum())
        found[f"{relation}_beyond"] = beyond
    return found


def _retrained() -> Iterator[Source]:
    for data, part in published_summary().groupby("data", sort=False):
        rows = part[~part["method"].isin(CONTROLS)]
        rows = rows.assign(method=[_ROAR_NAMES[name][0] for name in rows["method"]])
        doubts = rows["doubtful"].to_numpy() > 0
        for metric, column in (("ROAR", "racu"), ("KAR", "abc_kar")):
            # Both doubtful cells are of what was kept.
            where = ["table, doubtful cell" if doubt and metric == "KAR" else "table" for doubt in doubts]
            table = rows.assign(value=rows[column], provenance=where, source=_PAPER_ROAR, model="ResNet-50")
            yield _source(f"{metric}, {data}", "roar", metric, table, primary=data == "ImageNet")


def _single_deletion() -> Iterator[Source]:
    """The study by network, its means over three networks beside those of a replication, and FunnyBirds."""
    table = published_scores("idsds")
    table["method"] = [
        name if transform == "raw" else f"{name} {transform}"
        for name, transform in zip(table["method"], table["transform"], strict=True)
    ]
    study = table[(table["source"] == _PAPER_SINGLE) & (table["metric"] == "IDSDS")]
    for model in BACKBONES:
        rows = study[study["model"] == model]
        yield _source(f"IDSDS, {model}", "idsds", _PATCHES, rows, primary=model == "ResNet-50")
    three = study[study["model"].isin(_REPLICATED)]
    whole = three[three.groupby("method")["model"].transform("nunique") == len(_REPLICATED)]
    means = whole.groupby("method", as_index=False)["value"].mean()
    means = means.assign(source=_PAPER_SINGLE, provenance="mean of published values")
    replica = table[(table["source"] == _REPLICA) & table["model"].str.startswith("mean of")]
    for label, rows in (("IDSDS, mean of 3 networks", means), ("IDSDS replicated, mean of 3", replica)):
        same = rows.assign(model="three networks", data="ImageNet validation")
        yield _source(label, "idsds", "mean over networks", same)
    birds = table[(table["source"] == "hesse2023funnybirds") & (table["model"] == "ResNet-50")]
    yield _source("single deletion of parts", "idsds", _PATCHES, birds)


def _localized() -> Iterator[Source]:
    """Box errors by rule for the threshold, and protocols of which one method's score is known here."""
    table = published_scores("deletion").assign(provenance="authors' notebook")
    boxes = table[(table["source"] == "fong2017interpretable") & (table["metric"] == "localization error")]
    for rule, rows in boxes.groupby(boxes["setting"].str.partition(",")[0], sort=False):
        yield _source(f"box error, {rule}", "deletion", "box error", rows, primary=rule == "energy")
    for metric, rows in table[table["source"] == "petsiuk2018rise"].groupby("metric", sort=False):
        # Two halves of one set of images.
        mean = rows.head(1).assign(value=rows["value"].mean(), data="ImageNet validation")
        yield _source(str(metric), "deletion", str(metric), mean, primary=True)
    table = published_scores("clevr_xai").assign(provenance="summary")
    for metric, rows in table.groupby("metric", sort=False):
        yield _source(str(metric).replace("-", " "), "clevr_xai", str(metric), rows, primary=True)


def _source(
    label: str, benchmark: Benchmark, metric: str, rows: pd.DataFrame, *, primary: bool = False
) -> Source:
    names = [str(name) for name in rows["method"]]
    paper, model, data = (str(rows[column].iloc[0]) for column in ("source", "model", "data"))
    better: Literal["higher", "lower"] = "lower" if metric in ("deletion", "box error") else "higher"
    values = dict(zip(names, rows["value"].astype(float), strict=True))
    where = dict(zip(names, rows["provenance"].astype(str), strict=True))
    return Source(label, benchmark, metric, paper, model, data, better, values, where, primary)


def _is_compared(first: Source, second: Source) -> bool:
    if first.benchmark != second.benchmark:
        shared = [name for name in _readings(first)[0][1] if name in _readings(second)[0][1]]
        alike = first.model == second.model and len(shared) >= MIN_METHODS
        return alike or (first.primary and second.primary)
    if first.metric != second.metric:
        return first.model == second.model and first.data == second.data
    return first.primary or second.primary or first.model == second.model


def _relation(first: Source, second: Source) -> str:
    if first.benchmark != second.benchmark:
        return "other benchmark"
    if first.metric != second.metric:
        return "other question"
    if first.model != second.model:
        return "other network"
    if first.data != second.data:
        return "other data"
    return "replication" if first.paper != second.paper else "other setting"


def _readings(source: Source) -> list[tuple[str, dict[str, str]]]:
    """Published row of each method, once per reading of the markers that cannot be told apart."""
    plain = {name: name for name in source.values if name not in (_UPPER, _LOWER)}
    if _UPPER not in source.values:
        return [("", plain)]
    return [
        (f"if the upper marker is {upper}", plain | {upper: _UPPER, lower: _LOWER})
        for upper, lower in ((_SQUARED, _VARIANCE), (_VARIANCE, _SQUARED))
    ]


def _compare(first: Source, second: Source) -> Iterator[dict[str, object]]:
    for one, other in product(_readings(first), _readings(second)):
        unclear = {_SQUARED, _VARIANCE} if first.benchmark == second.benchmark == "idsds" else set()
        shared = [name for name in one[1] if name in other[1] and name not in unclear]
        matters = bool({_SQUARED, _VARIANCE} & set(shared))
        reading = (one[0] or other[0]) if matters else ""
        yield _row(first, second, [(name, one[1][name], other[1][name]) for name in shared], reading)
        if not matters:
            return


def _row(
    first: Source, second: Source, shared: Sequence[tuple[str, str, str]], reading: str
) -> dict[str, object]:
    sides = ((1, first), (2, second))
    signs = {"higher": 1, "lower": -1}
    columns = [
        [signs[source.better] * source.values[names[side]] for names in shared] for side, source in sides
    ]
    where = sorted({source.provenance[names[side]] for side, source in sides for names in shared})
    rounded = "read from a figure, about 0.001" if any("figure" in text for text in where) else ""
    return {
        "first": first.label,
        "second": second.label,
        "relation": _relation(first, second),
        "same_benchmark": first.benchmark == second.benchmark,
        "data": " / ".join(dict.fromkeys((first.data, second.data))),
        "methods": ", ".join(names[0] for names in shared),
        "n": len(shared),
        **_agreement(*columns),
        "provenance": "; ".join(where),
        "papers": ", ".join(dict.fromkeys((first.paper, second.paper))),
        "note": "; ".join(filter(None, (reading, rounded))),
    }


def _agreement(left: Sequence[float], right: Sequence[float]) -> dict[str, object]:
    names = ("kendall", "spearman", "p_value", "p_method", "chance_low", "chance_high")
    if len(left) < MIN_METHODS:
        nan = float("nan")
        return dict(zip(names, (nan, nan, nan, "", nan, nan), strict=True))
    rho, tau = rank_correlations(left, right)
    tied = len(set(left)) < len(left) or len(set(right)) < len(right)
    found = stats.kendalltau(left, right, method="asymptotic" if tied else "exact")
    how = "normal approximation, for ties" if tied else "exact"
    return dict(zip(names, (tau, rho, float(found.pvalue), how, *kendall_band(len(left))), strict=True))
