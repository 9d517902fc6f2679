"""Table 2 of Hooker et al. (2019) as data, and what it says once its curves are summarized.

Nothing here was trained: areas, DiffROAR and the agreement of ROAR and KAR are computed from the published
accuracies, with the original images' accuracy at 0 % and the majority class at 100 %.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import pandas as pd

from heatcheck.benchmarks.published import published_scores
from heatcheck.metrics.agreement import rank_correlations
from heatcheck.metrics.retraining_curves import GRID, area_between, diff_roar, racu, whole_curves

CONTROLS = ("random", "sobel")
BASES = ("grad", "ig", "gb")
# Differences between cells of two decimals that are no larger than their rounding are ties.
_ROUNDING = 1e-9


class Statement(NamedTuple):
    """A statement about the published table and whether its cells bear it out.

    Attributes:
        key: Short name, for substitutions.
        statement: The statement.
        claimed: ``paper`` where the paper says so, else ``this book``.
        holds: Whether all cells agree.
        agreeing: Number of cells or pairs that agree.
        cells: Number of cells or pairs that the statement is about.
        exceptions: Those that do not, as ``data percent method``; empty if all agree.
    """

    key: str
    statement: str
    claimed: str
    holds: bool
    agreeing: int
    cells: int
    exceptions: str


def published_curves() -> pd.DataFrame:
    """The published accuracies, one row per data set, mode, threshold and estimator.

    Returns:
        Columns ``data, mode, percent, method, value, doubtful``: accuracy as a fraction; ``mode`` is
        ``roar``, ``kar``, ``unmodified`` (at 0 %), ``chance`` (at 100 %) or ``deletion`` (not retrained);
        ``doubtful`` is true for cells that are out of line with their neighbors.
    """
    table = published_scores("roar")
    kept = table[["data", "mode", "percent", "method", "value"]]
    return kept.assign(doubtful=table["doubtful"] == "yes")


def published_summary() -> pd.DataFrame:
    """Areas, RACU and DiffROAR of every estimator and data set, computed from the published accuracies.

    Returns:
        Columns ``data, method, racu, abc_roar, abc_kar, diff_roar_10`` to ``diff_roar_90``, and ``doubtful``,
        the number of doubtful cells in the row. Areas and DiffROAR are fractions, positive is better than
        random or than the estimator's own bottom units.
    """
    table = published_curves()
    rows = []
    for data, cells in table.groupby("data", sort=False):
        whole, chance = (_value(cells, mode) for mode in ("unmodified", "chance"))
        roar, kar = (_wide(cells, mode) for mode in ("roar", "kar"))
        x, falling = whole_curves(roar.to_numpy(), whole, chance)
        _, rising = whole_curves(kar.loc[roar.index].to_numpy(), chance, whole)
        random = list(roar.index).index("random")
        found = {
            "data": data,
            "method": roar.index,
            "racu": racu(x, falling[random], falling, chance),
            "abc_roar": area_between(x, falling[random], falling),
            "abc_kar": area_between(x, rising, rising[random]),
        }
        differences = diff_roar(kar.loc[roar.index].to_numpy(), roar.to_numpy())
        found |= {f"diff_roar_{percent}": differences[:, place] for place, percent in enumerate(GRID)}
        doubtful = cells.groupby("method")["doubtful"].sum().loc[roar.index].to_numpy()
        rows.append(pd.DataFrame(found | {"doubtful": doubtful}))
    return pd.concat(rows, ignore_index=True)


def published_agreement() -> pd.DataFrame:
    """Do ROAR and KAR rank the 12 published estimators alike, and do the data sets?

    Returns:
        Columns ``first, second, data, percent, spearman, kendall, n``. Rows ``roar, kar``: by RACU and the
        KAR area (``percent`` missing), by the accuracies at one threshold (low is good under ROAR), and by
        the areas of the estimators without a doubtful cell (``data`` ends in ``, without doubtful cells``).
        In the other rows, by RACU on two data sets; ``data`` is ``RACU``.
    """
    summary = published_summary()
    summary = summary[~summary["method"].isin(CONTROLS)]
    rows = [row for data, part in summary.groupby("data", sort=False) for row in _between_modes(data, part)]
    wide = summary.pivot(index="method", columns="data", values="racu")
    for first, second in combinations(wide.columns, 2):
        rows.append((first, second, "RACU", None, *rank_correlations(wide[first], wide[second]), len(wide)))
    columns = ["first", "second", "data", "percent", "spearman", "kendall", "n"]
    return pd.DataFrame(rows, columns=columns).astype({"percent": "Int64"})


def published_statements() -> list[Statement]:
    """What is said about the table, checked cell by cell; cells that contradict a statement are named."""
    return [*_against_random(), *_smoothing(), *_both_ends()]


def _wide(cells: pd.DataFrame, mode: str) -> pd.DataFrame:
    """Accuracies of one data set and mode, estimators by thresholds, in the order of the table."""
    chosen = cells[cells["mode"] == mode]
    wide = chosen.pivot(index="method", columns="percent", values="value")
    return wide.loc[list(dict.fromkeys(chosen["method"])), list(GRID)]


def _value(cells: pd.DataFrame, mode: str) -> float:
    return float(cells.loc[cells["mode"] == mode, "value"].iloc[0])


def _between_modes(data: object, summary: pd.DataFrame) -> Iterator[tuple[object, ...]]:
    cells = published_curves()
    cells = cells[cells["data"] == data]
    roar, kar = (_wide(cells, mode).loc[summary["method"]] for mode in ("roar", "kar"))
    areas = (summary["racu"], summary["abc_kar"])
    yield "roar", "kar", data, None, *rank_correlations(*areas), len(summary)
    for percent in GRID:
        found = rank_correlations(-roar[percent], kar[percent])
        yield "roar", "kar", data, percent, *found, len(summary)
    sound = (summary["doubtful"] == 0).to_numpy()
    if not sound.all():
        found = rank_correlations(*(area[sound] for area in areas))
        yield "roar", "kar", f"{data}, without doubtful cells", None, *found, int(sound.sum())


def _cells(mode: str, methods: Sequence[str], percents: Sequence[int] = GRID) -> pd.Series:
    """Accuracies indexed by data set, threshold and method."""
    table = published_curves()
    chosen = table[(table["mode"] == mode) & table["method"].isin(methods) & table["percent"].isin(percents)]
    return chosen.set_index(["data", "percent", "method"])["value"]


def _over(cells: pd.Series, other: pd.Series) -> pd.Series:
    """``cells`` minus the value of ``other`` ``(data, percent)`` at the same data set and threshold."""
    base = other.reset_index("method", drop=True)
    places = cells.reset_index("method").index
    difference: pd.Series = cells - base.reindex(places).to_numpy()
    return difference


def _statement(key: str, text: str, claimed: str, agrees: pd.Series) -> Statement:
    failed = [" ".join(map(str, cell)) for cell in agrees.index[~agrees]]
    return Statement(key, text, claimed, not failed, int(agrees.sum()), len(agrees), "; ".join(failed))


def _against_random() -> Iterator[Statement]:
    random = _cells("roar", ["random"])
    base = _over(_cells("roar", BASES), random)
    text = "GRAD, IG and GB remove less than the random ranking at all thresholds: their accuracy is higher."
    yield _statement("bases_worse_than_random", text, "paper", base > _ROUNDING)
    classic = _over(_cells("roar", [f"sg-{name}" for name in BASES]), random)
    text = "Classic SmoothGrad removes less than the random ranking at all thresholds."
    yield _statement("smoothgrad_worse_than_random", text, "this book", classic > _ROUNDING)
    names = [f"{ensemble}-{name}" for ensemble in ("sg-sq", "var") for name in BASES]
    squared = _over(_cells("roar", names), random)
    text = "SmoothGrad-Squared and VarGrad remove more than the random ranking at all thresholds."
    yield _statement("squared_better_than_random", text, "this book", squared < -_ROUNDING)
    kept = _over(_cells("kar", names), _cells("kar", ["random"]))
    text = "What SmoothGrad-Squared and VarGrad keep is worth more than a random share, at all thresholds."
    yield _statement("squared_keep_more_than_random", text, "this book", kept > _ROUNDING)
    mirrored = _cells("kar", ["random"]).rename(lambda percent: 100 - percent, level="percent")
    gap = (mirrored.sort_index() - random.sort_index()).abs()
    text = "Keeping a random share and removing the rest at random are the same, within 0.9 points."
    yield _statement("random_mirrors_itself", text, "this book", gap <= 0.009 + _ROUNDING)


def _smoothing() -> Iterator[Statement]:
    for name, better in (("gb", True), ("grad", False), ("ig", False)):
        change = _over(_cells("roar", [f"sg-{name}"]), _cells("roar", [name]))
        word = "better" if better else "worse"
        text = f"Classic SmoothGrad of {name.upper()} is {word} than {name.upper()} at all thresholds."
        agrees = change < -_ROUNDING if better else change > _ROUNDING
        yield _statement(f"smoothgrad_{name}_{word}", text, "this book", agrees)


def _both_ends() -> Iterator[Statement]:
    summary = published_summary().set_index(["data", "method"])
    columns = {f"diff_roar_{percent}": percent for percent in GRID}
    long = summary[list(columns)].rename(columns=columns).reset_index()
    cells = long.melt(["data", "method"], var_name="percent").set_index(["data", "percent", "method"])
    bases = cells.loc[cells.index.isin(BASES, level="method"), "value"]
    text = "What GRAD, IG and GB rank first is worth more than what they rank last (DiffROAR is positive)."
    yield _statement("top_outweighs_bottom", text, "this book", bases > _ROUNDING)
    spearman = published_agreement()
    areas = spearman[(spearman["first"] == "roar") & spearman["percent"].isna()]
    areas = areas[~areas["data"].str.contains("without")]
    text = "ROAR and KAR rank the 12 estimators in opposite directions."
    agrees = (areas["spearman"] < 0).set_axis(pd.MultiIndex.from_arrays([areas["data"]]))
    yield _statement("roar_against_kar", text, "this book", agrees)
