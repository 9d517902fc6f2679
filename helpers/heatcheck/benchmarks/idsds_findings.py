"""What the single-deletion chapter says about published findings, computed from its scores."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks.findings import Answer, Finding, agree, compare, decide
from heatcheck.benchmarks.idsds import Results, Subject
from heatcheck.benchmarks.idsds_design import best_column, general_methods
from heatcheck.benchmarks.idsds_extras import ORACLE
from heatcheck.benchmarks.idsds_methods import column_name
from heatcheck.benchmarks.idsds_scores import INCREMENTAL, Score, find_scores, single_score
from heatcheck.benchmarks.idsds_tables import is_control
from heatcheck.metrics.patch_responses import patch_responses
from heatcheck.metrics.patches import TRANSFORMS, patch_sums, single_deletion_scores
from heatcheck.metrics.resampling import mean_intervals

PAPER, OURS = "hesse2024benchmarking", "this book"
_LINEAR_IMAGES = 32
_PATH, _UNIFORM, _IXG = "integrated-gradients", "ig-uniform", "input-x-gradient"
# What is said about pairs of methods, each with its transform: the first one scores higher.
_PAIRS: tuple[tuple[str, str, str, str, str, str], ...] = (
    ("uniform_beats_zero", "IG from a uniform baseline (IG-U) beats IG.", _UNIFORM, "raw", _PATH, "raw"),
    ("ig_beats_ixg", "IG beats IxG.", _PATH, "raw", _IXG, "raw"),
    ("ig_raw_beats_abs", "IG is better raw than absolute.", _PATH, "raw", _PATH, "abs"),
    ("uniform_raw_beats_abs", "IG-U is better raw than absolute.", _UNIFORM, "raw", _UNIFORM, "abs"),
    ("ixg_abs_beats_raw", "IxG is better absolute than raw.", _IXG, "abs", _IXG, "raw"),
    ("smoothing_ixg", "SmoothGrad lowers the score of IxG.", _IXG, "raw", "ixg-smoothgrad", "raw"),
    ("smoothing_ig", "SmoothGrad lowers the score of IG.", _PATH, "raw", "ig-smoothgrad", "raw"),
    ("smoothing_ixg_abs", "SmoothGrad raises the score of IxG abs.", "ixg-smoothgrad", "abs", _IXG, "abs"),
    ("smoothing_ig_abs", "SmoothGrad lowers the score of IG abs.", _PATH, "abs", "ig-smoothgrad", "abs"),
    ("rise_beats_uniform", "RISE with zeros beats RISE with noise.", "rise", "raw", "rise-uniform", "raw"),
    ("cam_beats_ig", "Grad-CAM beats IG.", "grad-cam", "raw", _PATH, "raw"),
    ("cam_beats_plus", "Grad-CAM beats Grad-CAM++.", "grad-cam", "raw", "grad-cam++", "raw"),
)


def idsds_findings(results: Results, scores: Sequence[Score]) -> list[Finding]:
    """Findings about methods and the protocol; those whose methods or settings were not run are left out.

    They are about the first detailed model after fine-tuning, unless they say something else.

    Args:
        results: Of a run.
        scores: Its ``all_scores``.
    """
    subject = results.final(results.main)
    score = single_score(subject, results.headline)
    return [
        linear_finding(results, subject),
        *_floor(score),
        *pair_findings(score),
        *_signs(results, subject, score),
        *_aligned(score),
        *_protocols(results, list(scores), subject),
    ]


def named_columns(score: Score) -> pd.DataFrame:
    """Values of a score with one name per column, such as ``IG abs.``."""
    return score.values.set_axis([column_name(*column) for column in score.columns], axis=1)


def linear_finding(results: Results, subject: Subject) -> Finding:
    """Finding that a linear model's input times gradient scores exactly 1 on every image.

    Deleting a patch with zeros takes away from a linear logit what the patch's pixels contribute to it.
    """
    shown = subject.studied.explained.take(0, _LINEAR_IMAGES)
    grid, images = results.settings.grid, shown.images.double()
    model = _linear(images, len(shown.classifier.classes))
    targets = shown.data.targets.to(images.device)
    sums = patch_sums(attribute(_IXG, model, images, targets), grid)
    drops = patch_responses(model, images, targets, grid).drops()
    values = single_deletion_scores(sums, drops).values
    low, high = float(values.min()), float(values.max())
    answer: Answer = "yes" if low > 1 - 1e-9 else "no"  # rounding of float64 alone
    return Finding(
        "linear_is_perfect",
        "The map of a linear model (IxG) scores 1 on every image.",
        OURS,
        answer,
        "score of a random linear model, smallest to largest",
        float(values.mean()),
        low,
        high,
        len(values),
    )


def pair_findings(score: Score) -> Iterator[Finding]:
    """Findings about pairs of methods or transforms of one model."""
    table = named_columns(score)
    for key, statement, *names in _PAIRS:
        first, second = (names[0], names[1]), (names[2], names[3])
        if {first, second} <= set(score.columns):
            pair = (column_name(*first), column_name(*second))
            yield compare(key, statement, table, *pair, less=False, source=PAPER, quantity=_name(score))


def monotone_finding(table: pd.DataFrame) -> Finding:
    """Finding that noise lowers the score of one map at every step, from a ``degradation_table``."""
    steps = table.dropna(subset=["change"])
    # The weakest step decides: all must be below zero.
    weakest = steps.sort_values("change_high").to_dict("records")[-1]
    low, high = float(weakest["change_low"]), float(weakest["change_high"])
    return Finding(
        f"degradation_{_name_of(table)}".lower().replace("-", "_").replace(" ", "_").replace(".", ""),
        f"The more noise is added to {_name_of(table)}, the lower the score, step by step.",
        OURS,
        decide(low, high, supports="negative"),
        "score, weakest change from one noise level to the next",
        float(weakest["change"]),
        low,
        high,
        int(weakest["n"]),
    )


def degradation_findings(table: pd.DataFrame) -> list[Finding]:
    """Findings about noise on maps, one per map; the ``table`` is one or more of ``degradation_table``."""
    return [monotone_finding(part) for _, part in table.groupby("row", sort=False)]


def output_findings(outputs: pd.DataFrame) -> list[Finding]:
    """Finding that explaining and dropping probabilities lowers the score, from an ``output_table``."""
    own = outputs[(outputs["output"] == "probability") & (outputs["transform"] == "raw")]
    own = own[~own["method"].map(is_control).astype(bool)].dropna(subset=["difference"])
    if own.empty:
        return []
    best = own.sort_values("mean").to_dict("records")[-1]
    low, high = float(best["difference_low"]), float(best["difference_high"])
    name = column_name(str(best["method"]), "raw")
    return [
        Finding(
            "softmax_is_worse",
            "Scores of the probability are lower than scores of the logit.",
            PAPER,
            decide(low, high, supports="negative"),
            f"probability minus logit, {name}, the best method for probabilities",
            float(best["difference"]),
            low,
            high,
            int(best["n"]),
        )
    ]


def _floor(score: Score) -> Iterator[Finding]:
    if ("random", "raw") not in score.values:
        return
    values = score.values[[("random", "raw")]].to_numpy(dtype=float)
    mean, low, high = (float(part[0]) for part in mean_intervals(values))
    answer: Answer = "yes" if low <= 0 <= high else "no"
    statement = "A random map scores 0, within the error."
    yield Finding("random_is_zero", statement, OURS, answer, "random map", mean, low, high, len(values))


def _signs(results: Results, subject: Subject, score: Score) -> Iterator[Finding]:
    """How much of the score is the sign of an effect."""
    drops = subject.tables[results.headline].responses.drops()
    best = best_column(score, general_methods(score))
    if best is None:
        return
    table = named_columns(score)
    oracle = f"absolute {ORACLE}"
    table[oracle] = single_deletion_scores(TRANSFORMS["abs"](drops), drops).values.numpy()
    name = column_name(*best)
    statement = f"Even the {oracle} of the patches score less than the best general method: signs matter."
    yield compare(
        "sign_matters", statement, table, oracle, name, less=True, source=OURS, quantity=_name(score)
    )


def _aligned(score: Score) -> Iterator[Finding]:
    best = best_column(score, general_methods(score))
    asked = ("kernel-shap", "raw")
    if best is not None and asked in score.columns:
        table, name = named_columns(score), column_name(*best)
        statement = "KernelSHAP over the patches, which asks for deletions, beats every general method."
        yield compare("shap_is_high", statement, table, column_name(*asked), name,
                      less=False, source="decaf2026", quantity=_name(score))  # fmt: skip


def _protocols(results: Results, scores: list[Score], subject: Subject) -> Iterator[Finding]:
    """Whether protocols, grids and deletion values agree with the headline score."""
    model, settings = subject.studied.model, results.settings
    headline = single_score(subject, results.headline)
    own = find_scores(scores, model=model)
    sds = find_scores(own, protocol="SDS", output="logit", grid=settings.grid, fill=settings.fill)
    if subject.studied.stage == "tuned":
        for other in sds:
            yield from _agreement("sds", "before and after fine-tuning (SDS, IDSDS)", headline, other, OURS)
    for other in own:
        if other.condition.protocol == f"{INCREMENTAL} ascending":
            yield from _agreement(
                "ids", "by single and by incremental deletion (IDSDS, IDS)", headline, other, OURS
            )
            yield from _ids_prefers_absolute(other)
    for other in find_scores(own, stage=subject.studied.stage, output="logit"):
        condition = other.condition
        if condition.protocol != headline.condition.protocol:
            continue
        if condition.fill != settings.fill and condition.grid == settings.grid:
            pair = f"with the deletion values {settings.fill} and {condition.fill}"
            yield from _agreement(f"fill_{condition.fill}".replace("-", "_"), pair, headline, other, PAPER)
        if condition.grid > settings.grid and condition.fill == settings.fill:
            yield from _finer(headline, other)


def _ids_prefers_absolute(score: Score) -> Iterator[Finding]:
    if {(_PATH, "raw"), (_PATH, "abs")} <= set(score.columns):
        names = column_name(_PATH, "abs"), column_name(_PATH, "raw")
        statement = "Incremental deletion prefers the absolute map of IG to the raw one."
        yield compare("ids_prefers_abs", statement, named_columns(score), *names,
                      less=False, source=PAPER, quantity="IDS")  # fmt: skip


def _finer(headline: Score, finer: Score) -> Iterator[Finding]:
    """A finer grid lowers the mean of all general methods."""
    columns = [column for column in general_methods(headline, transforms=("raw",)) if column in finer.values]
    if columns:
        grids = headline.condition.grid, finer.condition.grid
        names = [f"{grid} x {grid} patches" for grid in grids]
        table = pd.DataFrame(
            {name: _row_means(one, columns) for name, one in zip(names, (headline, finer), strict=True)}
        )
        statement = f"Scores are lower on a grid of {names[1]} (mean of all raw general maps)."
        yield compare(f"grid_{grids[1]}", statement, table, names[1], names[0],
                      less=True, source=PAPER, quantity=_name(headline))  # fmt: skip


def _agreement(key: str, what: str, first: Score, second: Score, source: str) -> Iterator[Finding]:
    columns = [
        column
        for column in first.columns
        if column in second.values and not is_control(column[0]) and column[1] in ("raw", "abs")
    ]
    if len(columns) > 2:
        yield agree(
            f"agree_{key}",
            f"Methods rank alike {what}.",
            first.values[columns],
            second.values[columns],
            same_direction=first.better == second.better,
            source=source,
            quantity=f"{len(columns)} methods {what}",
        )


def _row_means(score: Score, columns: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Mean over ``columns`` for each image; NaN where one of them is undefined."""
    means: NDArray[np.float64] = score.values[list(columns)].to_numpy(dtype=float).mean(1)
    return means


def _linear(images: Tensor, n_classes: int) -> nn.Module:
    layer = nn.Linear(images[0].numel(), n_classes, dtype=images.dtype)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator, dtype=weight.dtype))
    return nn.Sequential(nn.Flatten(), layer).to(images.device).eval()


def _name(score: Score) -> str:
    return score.condition.protocol


def _name_of(table: pd.DataFrame) -> str:
    method = str(table["method"].iloc[0])
    return method if method == ORACLE else column_name(method, str(table["transform"].iloc[0]))
