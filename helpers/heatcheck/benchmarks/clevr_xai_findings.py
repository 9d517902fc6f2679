"""What the CLEVR-XAI chapter says about published findings, computed from its scores."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from heatcheck.benchmarks.clevr_xai import Results
from heatcheck.benchmarks.clevr_xai_comparisons import control_values
from heatcheck.benchmarks.clevr_xai_scores import MASS, METRICS, RANK
from heatcheck.benchmarks.clevr_xai_tables import best_poolings, cuts, paper_values, pooled_values, select
from heatcheck.benchmarks.findings import Finding, agree, compare, decide
from heatcheck.metrics.resampling import resampled_means

PAPER = "arras2022clevr"
# Much noise and few samples, as the paper says it: from a tenth of the range, at most a hundred.
_MUCH, _FEW = 0.1, 100
LRP_CRITICS = "sixt2022rigorous"
TOP = ("LRP", "Integrated Gradients", "Guided Backprop")
LAST = ("Deconvnet", "Grad-CAM")
BEATEN = ("Gradient", *LAST)
_N_RESAMPLES = 1000


def clevr_xai_findings(results: Results) -> list[Finding]:
    """Findings of the run; those whose methods, variants or controls were not run are left out.

    Where a statement names no mask it is about the first one: the object that a simple question asks for.
    """
    every = cuts(results.settings)
    first = {cut.metric: paper_values(results, cut) for cut in every if cut[:2] == every[0][:2]}
    return [
        *_orders(first),
        *_agreements(first),
        *_settings(results),
        *_difficulty(results, first),
        *_sensitivity(results),
    ]


def _orders(scores: dict[str, pd.DataFrame]) -> Iterator[Finding]:
    mass = scores[MASS]
    for one in TOP:
        for other in BEATEN:
            if {one, other} <= set(mass.columns):
                key = f"{one}_beats_{other}".lower().replace(" ", "_").replace("-", "_")
                statement = f"{one} puts more of its relevance on the object than {other}."
                yield compare(
                    key, statement, mass, one, other, less=False, source=PAPER, quantity="relevance mass"
                )
    for metric, values in scores.items():
        name = metric.replace("relevance-", "")
        others = [method for method in values.columns if method not in (*TOP, *LAST)]
        top, last = ([method for method in group if method in values.columns] for group in (TOP, LAST))
        if len(top) == len(TOP) and len(others) > 1:
            rest = [*others, *last]
            statement = f"LRP, Integrated Gradients and Guided Backprop are the three best by {name}."
            yield separate(f"top_{name}", statement, values, top, rest, source=PAPER, quantity=metric)
        if len(last) == len(LAST) and len(others) > 1:
            rest = [*top, *others]
            statement = f"Deconvnet and Grad-CAM are the two worst by {name}."
            yield separate(f"last_{name}", statement, values, rest, last, source=PAPER, quantity=metric)
        if {"Guided Grad-CAM", "Grad-CAM"} <= set(values.columns):
            statement = f"Guided Grad-CAM does better than Grad-CAM by {name}."
            pair = ("Guided Grad-CAM", "Grad-CAM")
            yield compare(
                f"guided_cam_{name}", statement, values, *pair, less=False, source=PAPER, quantity=metric
            )
    if {"LRP", "Guided Backprop"} <= set(mass.columns):
        statement = "LRP is better than Guided Backprop, which costs as much."
        pair = ("LRP", "Guided Backprop")
        yield compare("lrp_beats_guided", statement, mass, *pair, less=False, source=PAPER, quantity=MASS)


def _agreements(scores: dict[str, pd.DataFrame]) -> Iterator[Finding]:
    if len(scores[MASS].columns) > 2:
        yield agree(
            "mass_and_rank",
            "Mass and rank accuracy order the methods alike.",
            scores[MASS],
            scores[RANK][scores[MASS].columns],
            same_direction=True,
            source=PAPER,
            quantity="mass and rank",
        )


def _settings(results: Results) -> Iterator[Finding]:
    """Findings about hyperparameters, on the questions that variants are compared on."""
    wanted: list[tuple[str, str, str, tuple[str, ...]]] = [
        ("ig-baselines", "integrated-gradients", "zero", ("mean channel", "mean image"))
    ]
    scales, counts = results.settings.noise_scales, results.settings.noise_samples
    few = [count for count in counts if count <= _FEW]
    if len(scales) > 1 and few and max(scales) >= _MUCH:
        low = f"noise {min(scales):g}, {max(counts)} samples"
        high = f"noise {max(scales):g}, {max(few)} samples"
        wanted += [("smoothing", method, high, (low,)) for method in ("smoothgrad", "vargrad")]
    for group, method, poor, good in wanted:
        for metric in METRICS:
            values = _variant_values(results, group, method, metric)
            for better in good:
                if {poor, better} <= set(values.columns):
                    key = f"{method}_{poor}_{better}_{metric}"
                    name = metric.replace("relevance-", "")
                    statement = f"{method} is worse by {name} with {poor} than with {better}."
                    plain = "".join(letter if letter.isalnum() else "_" for letter in key)
                    yield compare(
                        plain, statement, values, poor, better, less=True, source=PAPER, quantity=metric
                    )


def _variant_values(results: Results, group: str, method: str, metric: str) -> pd.DataFrame:
    """Values of questions by settings of ``method``, each with its best pooling."""
    table = results.variants
    mine = table[(table["group"] == group) & (table["method"] == method)]
    cut = next(item for item in cuts(results.settings) if item.metric == metric)
    columns = {}
    for label, part in mine.groupby("label", sort=False, observed=True):
        rows = select(part, cut)
        if len(rows):
            columns[str(label)] = pooled_values(rows, best_poolings(rows))[method]
    return pd.DataFrame(columns)


def _difficulty(results: Results, scores: dict[str, pd.DataFrame]) -> Iterator[Finding]:
    for metric, values in scores.items():
        facts = results.predictions.set_index("question").loc[values.index]
        mean = values.mean(axis=1)  # of all methods, for each question
        area = next(cut for cut in cuts(results.settings)).ground_truth
        cases = (
            (
                "confidence",
                "The more confident the answer, the more accurate the maps",
                PAPER,
                "confidence",
                1,
            ),
            ("length", "The longer the question's program, the less accurate the maps", PAPER, "length", -1),
            ("size", "The larger the target, the more accurate the maps", "this book", f"area {area}", 1),
        )
        name = metric.replace("relevance-", "")
        for key, statement, source, column, sign in cases:
            yield associate(
                f"{key}_{name}",
                f"{statement} ({name}, mean of all methods).",
                facts[column].to_numpy(dtype=float),
                mean.to_numpy(dtype=float),
                sign=sign,
                source=source,
                quantity=f"rank correlation of {key} and {name}",
            )


def _sensitivity(results: Results) -> Iterator[Finding]:
    """Findings from the control experiments."""
    for experiment, what in (("other question", "question"), ("other answer", "explained answer")):
        alike = control_values(results, experiment, "spearman")
        if {"lrp", "gradient"} <= set(alike.columns):
            yield compare(
                f"lrp_insensitive_to_{what.replace(' ', '_')}",
                f"LRP's map changes less with the {what} than the gradient's.",
                alike,
                "lrp",
                "gradient",
                less=False,
                source=LRP_CRITICS,
                quantity=f"rank correlation of the maps, {experiment}",
            )
        lost = control_values(results, experiment, MASS)
        if "lrp" in lost:
            columns = pd.DataFrame({"own map": lost["lrp"], "exchanged map": 0.0})
            yield compare(
                f"lrp_own_{what.replace(' ', '_')}",
                f"LRP puts more relevance on the object with the right {what} than with another.",
                columns,
                "own map",
                "exchanged map",
                less=False,
                source="this book",
                quantity="relevance mass of LRP",
            )
    apart = control_values(results, "other image", "difference")
    if "deconvnet" in apart:
        largest = float(apart["deconvnet"].max())
        yield Finding(
            "deconvnet_constant",
            "Deconvnet's map of an answer is the same for every image and question.",
            "this book",
            "yes" if largest < 1e-4 else "no",  # all of it is rounding, or it is not
            "largest difference of two maps, as a share of the largest value",
            largest,
            float(apart["deconvnet"].min()),
            largest,
            len(apart),
        )


def separate(
    key: str,
    statement: str,
    values: pd.DataFrame,
    better: Sequence[str],
    worse: Sequence[str],
    *,
    source: str,
    quantity: str,
) -> Finding:
    """Finding that every one of ``better`` has a larger mean than every one of ``worse``.

    What is measured is the least mean of the first group minus the largest of the second.

    Args:
        key: Short name.
        statement: The statement.
        values: Questions by methods.
        better: Columns.
        worse: Other columns.
        source: Where the statement comes from.
        quantity: What the values are.
    """
    means = resampled_means(values[[*better, *worse]].to_numpy(dtype=float), n_resamples=_N_RESAMPLES)
    gaps = means[:, : len(better)].min(1) - means[:, len(better) :].max(1)
    low, high = (float(end) for end in np.nanquantile(gaps, [0.025, 0.975]))
    gap = float(values[list(better)].mean().min() - values[list(worse)].mean().max())
    # The smaller group is named, the other is the rest.
    named = len(better) <= len(worse)
    least, largest = (", ".join(better), "the others") if named else ("the others", ", ".join(worse))
    name = f"{quantity}: least of {least} minus largest of {largest}"
    answer = decide(low, high, supports="positive")
    return Finding(key, statement, source, answer, name, gap, low, high, len(values))


def associate(
    key: str,
    statement: str,
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    *,
    sign: int,
    source: str,
    quantity: str,
) -> Finding:
    """Finding that two numbers per question go together: their rank correlation has the sign ``sign``.

    Undecided where one of them is the same for all questions.

    Args:
        key: Short name.
        statement: The statement.
        first: ``(N,)``.
        second: ``(N,)``; NaN does not count.
        sign: 1 or -1.
        source: Where the statement comes from.
        quantity: What is measured.
    """
    known = ~(np.isnan(first) | np.isnan(second))
    x, y = first[known], second[known]
    generator = np.random.Generator(np.random.Philox(0))
    draws = [generator.integers(len(x), size=len(x)) for _ in range(_N_RESAMPLES if len(x) > 2 else 0)]
    estimates = np.array([_spearman(x[draw], y[draw]) for draw in draws])
    low, high = (np.nan, np.nan)
    if len(estimates) and not np.isnan(estimates).all():
        low, high = (float(end) for end in np.nanquantile(estimates, [0.025, 0.975]))
    answer = decide(low, high, supports="positive" if sign > 0 else "negative")
    return Finding(key, statement, source, answer, quantity, _spearman(x, y), low, high, int(known.sum()))


def _spearman(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(stats.spearmanr(first, second).statistic)
