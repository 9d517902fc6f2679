"""From scores per question to tables: accuracy of every method, with its best pooling and a common one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from heatcheck.attribution.registry import is_control as is_control
from heatcheck.benchmarks.clevr_xai import Results
from heatcheck.benchmarks.clevr_xai_questions import KINDS
from heatcheck.benchmarks.clevr_xai_scores import METRICS, RANK, TIES
from heatcheck.benchmarks.clevr_xai_settings import Settings, paper_method
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.metrics.pooling import POOLINGS
from heatcheck.metrics.resampling import mean_intervals, resampled_means
from heatcheck.metrics.statistics import average_ranks, summarize

Choice = Literal["best", "fixed"]
# A rank that equal pixels leave open by more than this is warned of.
WIDE_TIES = 0.05
_QUANTITIES = ("mean", "low", "high", "std", "median", "min", "max", "p20", "p80")


class Cut(NamedTuple):
    """One column of numbers to compare methods by: a kind of questions, their mask, and a metric."""

    kind: Kind
    ground_truth: str
    metric: str


def cuts(settings: Settings) -> list[Cut]:
    """All cuts of a run, simple questions first."""
    return [
        Cut(kind, truth, metric)
        for kind in KINDS
        if settings.n_questions(kind)
        for truth in settings.masks_of(kind)
        for metric in METRICS
    ]


def select(scores: pd.DataFrame, cut: Cut, *, metric: str | None = None) -> pd.DataFrame:
    """Rows of correctly answered questions of ``cut``, or of another metric on the same questions."""
    kind, truth, own = cut
    chosen = (scores["kind"] == kind) & (scores["ground_truth"] == truth) & scores["correct"]
    return scores[chosen & (scores["metric"] == (metric or own))]


def best_poolings(rows: pd.DataFrame) -> dict[str, str]:
    """Pooling with the highest mean for each method, as Arras et al. (2022) choose it; the first of equals.

    Only poolings that discard as few maps as any are compared: a mean over other questions is no better one.
    """
    return {
        str(method): best_pooling(part[list(POOLINGS)].to_numpy(dtype=float))
        for method, part in rows.groupby("method", sort=False, observed=True)
    }


def best_pooling(values: NDArray[np.float64]) -> str:
    """Name of the best column of ``values`` ``(N, 10)``, poolings in their order; see ``best_poolings``."""
    counts = (~np.isnan(values)).sum(0)
    sums = np.nan_to_num(values).sum(0)
    usable = (counts == counts.max(initial=0)) & (counts > 0)
    means = np.divide(sums, counts, out=np.full(len(counts), -np.inf), where=usable)
    # A method without any defined score keeps the first pooling.
    return list(POOLINGS)[int(np.argmax(means))]


def pooled_values(rows: pd.DataFrame, poolings: Mapping[str, str]) -> pd.DataFrame:
    """Values of questions by methods, each method with its pooling; NaN where undefined."""
    mine = dict(iter(rows.groupby("method", sort=False, observed=True)))
    columns = {
        method: mine[method].set_index("question")[name]
        for method, name in poolings.items()
        if method in mine
    }
    return pd.DataFrame(columns, dtype=float)


def chosen_poolings(results: Results, cut: Cut, choice: Choice) -> dict[str, str]:
    """Pooling of every method for ``cut``: its best one, or the one that all share."""
    if choice == "fixed":
        return dict.fromkeys(results.settings.methods, results.settings.fixed_pooling)
    return best_poolings(select(results.scores, cut))


def accuracy_table(results: Results, choice: Choice = "best", *, seed: int = 0) -> pd.DataFrame:
    """Accuracy of every method for every cut.

    Args:
        results: Of a run.
        choice: ``best`` pooling of each method and cut, or the ``fixed`` one that all share.
        seed: Seed of the bootstrap over questions.

    Returns:
        Columns ``kind, ground_truth, metric, method, paper_method, pooling, n, discarded, wide_ties, mean,
        low, high, std, median, min, max, p20, p80, rank, rank_low, rank_high, chance, is_control``. ``std``
        divides by ``n``. ``discarded`` maps have no score, being zero everywhere or not finite; ``wide_ties``
        ranks hang on the order of equal pixels. Ranks are among methods that look at the model. ``chance`` is
        the mean share of the image that the masks cover: what a uniform map scores.
    """
    parts = []
    for cut in cuts(results.settings):
        rows = select(results.scores, cut)
        if len(rows):
            poolings = chosen_poolings(results, cut, choice)
            parts.append(_summary(results, cut, pooled_values(rows, poolings), poolings, seed))
    return pd.concat(parts, ignore_index=True)


def paper_table(results: Results, table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """Rows of an ``accuracy_table``, one per method of the paper, its best variant; ranks among these."""
    parts = []
    for _, rows in table.groupby(["kind", "ground_truth", "metric"], sort=False):
        best = rows.loc[rows.groupby("paper_method", sort=False)["mean"].transform(_is_best)]
        parts.append(_ranked(results, best, seed))
    return pd.concat(parts, ignore_index=True)


def paper_values(results: Results, cut: Cut, choice: Choice = "best") -> pd.DataFrame:
    """Values of questions by the paper's methods, each with its best variant and pooling; no controls."""
    rows = select(results.scores, cut)
    poolings = chosen_poolings(results, cut, choice)
    values = pooled_values(rows, poolings)
    means = values.mean()
    named: dict[str, str] = {}
    for method in [name for name in values.columns if not is_control(name)]:
        group = paper_method(method)
        if group not in named or means[method] > means[named[group]]:
            named[group] = method
    return pd.DataFrame({group: values[method] for group, method in named.items()})


def pooling_table(results: Results) -> pd.DataFrame:
    """Mean of every method with every pooling.

    Returns:
        Columns ``kind, ground_truth, metric, method, pooling, mean, best``; ``best`` marks the pooling that
        ``accuracy_table`` chooses.
    """
    parts = []
    for cut in cuts(results.settings):
        rows = select(results.scores, cut)
        best = best_poolings(rows)
        means = rows.groupby("method", sort=False, observed=True)[list(POOLINGS)].mean()
        table = means.reset_index().melt("method", var_name="pooling", value_name="mean")
        marked = table.assign(best=table["pooling"] == table["method"].map(best), **cut._asdict())
        parts.append(marked[[*Cut._fields, "method", "pooling", "mean", "best"]])
    return pd.concat(parts, ignore_index=True)


def split_half_table(results: Results, *, seed: int = 0, n_splits: int = 50) -> pd.DataFrame:
    """How much is gained by choosing the pooling on the very questions that are reported.

    The pooling is chosen on a random half of the questions and scored on the other, both ways, many times.

    Returns:
        Columns ``kind, ground_truth, metric, method, pooling, mean, held_out, optimism, agreement``; the
        last is the share of halves that choose the pooling of the whole set.
    """
    generator = np.random.Generator(np.random.Philox(seed))
    rows = [
        {**cut._asdict(), "method": method, **_split(part, generator, n_splits)}
        for cut in cuts(results.settings)
        for method, part in select(results.scores, cut).groupby("method", sort=False, observed=True)
    ]
    return pd.DataFrame(rows)


def reference_table(fixed: pd.DataFrame) -> pd.DataFrame:
    """What maps score that know nothing, and one that knows everything.

    Args:
        fixed: Of ``accuracy_table(results, "fixed")``.

    Returns:
        Columns ``kind, ground_truth, metric, level, mean``: ``chance`` (the mean share of the image that
        masks cover, which a uniform map scores), the controls that were run, with the common pooling, and
        ``oracle``, the mask itself.
    """
    parts = []
    for cut, rows in fixed.groupby(list(Cut._fields), sort=False):
        levels = {"chance": rows["chance"].iloc[0]}
        controls = rows[rows["is_control"]]
        levels |= dict(zip(controls["method"], controls["mean"], strict=True))
        levels["oracle"] = 1.0
        place = dict(zip(Cut._fields, cut, strict=True))
        parts += [{**place, "level": level, "mean": mean} for level, mean in levels.items()]
    return pd.DataFrame(parts)


def rank_intervals(values: NDArray[np.float64], *, seed: int = 0) -> NDArray[np.float64]:
    """Rank of each column's mean with its 95 % bootstrap interval, ``(3, M)``: rank, low, high; 1 is best.

    Args:
        values: ``(N, M)``, a row per question; NaN does not count, a column without values ranks last.
        seed: Seed of the resamples, which all columns share.
    """
    means = np.nan_to_num(resampled_means(values, seed=seed), nan=-np.inf)  # (R, M)
    ranks = stats.rankdata(-means, axis=1)
    low, high = np.quantile(ranks, [0.025, 0.975], axis=0)
    return np.stack([average_ranks(mean_intervals(values, n_resamples=1).mean, best="high"), low, high])


def _summary(
    results: Results, cut: Cut, values: pd.DataFrame, poolings: Mapping[str, str], seed: int
) -> pd.DataFrame:
    mean, low, high = mean_intervals(values.to_numpy(), seed=seed)
    summaries = [summarize(values[method]) for method in values.columns]
    methods = list(values.columns)
    ties = pooled_values(select(results.scores, cut, metric=TIES), poolings)
    areas = results.predictions.set_index("question")[f"area {cut.ground_truth}"].loc[values.index]
    spread = pd.DataFrame(summaries)[
        ["std", "median", "minimum", "maximum", "percentile_20", "percentile_80"]
    ]
    table = pd.DataFrame(
        {
            **cut._asdict(),
            "method": methods,
            "paper_method": [paper_method(method) for method in methods],
            "pooling": [poolings[method] for method in methods],
            "n": values.notna().sum().to_numpy(),
            "discarded": values.isna().sum().to_numpy(),
            "wide_ties": (ties > WIDE_TIES).sum().to_numpy() if cut.metric == RANK else 0,
            "mean": mean,
            "low": low,
            "high": high,
            **dict(zip(_QUANTITIES[3:], spread.to_numpy().T, strict=True)),
            "chance": float(areas.mean()),
            "is_control": [is_control(method) for method in methods],
        }
    )
    return _with_ranks(table, values, seed)


def _with_ranks(table: pd.DataFrame, values: pd.DataFrame, seed: int) -> pd.DataFrame:
    """``table`` with the ranks of its methods that look at the model."""
    names = ["rank", "rank_low", "rank_high"]
    table = table.assign(**dict.fromkeys(names, np.nan))
    looking = ~table["is_control"]
    if looking.any():
        chosen = values[table.loc[looking, "method"]].to_numpy()
        table.loc[looking, names] = rank_intervals(chosen, seed=seed).T
    return table


def _ranked(results: Results, rows: pd.DataFrame, seed: int) -> pd.DataFrame:
    cut = Cut(*rows[list(Cut._fields)].iloc[0])
    poolings = dict(zip(rows["method"], rows["pooling"], strict=True))
    values = pooled_values(select(results.scores, cut), poolings)
    return _with_ranks(rows.reset_index(drop=True), values, seed)


def _is_best(means: pd.Series) -> pd.Series:
    best = np.zeros(len(means), dtype=bool)
    best[int(np.argmax(means.fillna(-np.inf).to_numpy()))] = True
    return pd.Series(best, index=means.index)


def _split(rows: pd.DataFrame, generator: np.random.Generator, n_splits: int) -> dict[str, object]:
    """Mean with the pooling that is best on all, and the mean over splits where it was chosen on others."""
    values = rows[list(POOLINGS)].to_numpy(dtype=float)
    known = values[~np.isnan(values).all(axis=1)]
    best = best_pooling(known)
    scores, picks = [], []
    for _ in range(n_splits if len(known) > 3 else 0):
        order = generator.permutation(len(known))
        for one, other in _halves(order):
            pick = best_pooling(known[one])
            picks.append(pick == best)
            scores.append(_mean_of(known[other, list(POOLINGS).index(pick)]))
    mean, held_out = _mean_of(known[:, list(POOLINGS).index(best)]), _mean_of(scores)
    return {
        "pooling": best,
        "mean": mean,
        "held_out": held_out,
        "optimism": mean - held_out,
        "agreement": _mean_of(picks),
    }


def _halves(order: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    middle = len(order) // 2
    yield order[:middle], order[middle:]
    yield order[middle:], order[:middle]


def _mean_of(values: Sequence[float] | NDArray[np.float64]) -> float:
    """Mean, NaN left out; NaN where nothing is left."""
    column = np.asarray(values, dtype=float)
    known = column[~np.isnan(column)]
    return float(known.mean()) if len(known) else float("nan")
