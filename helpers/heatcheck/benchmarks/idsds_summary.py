"""Tables of the single-deletion chapter as a page shows them, and the numbers that its prose quotes."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from heatcheck.benchmarks.idsds import Results, Subject
from heatcheck.benchmarks.idsds_design import best_column, final_scores, general_methods, short_name
from heatcheck.benchmarks.idsds_extras import ORACLE, breakdown_table, degradation_table, drop_facts
from heatcheck.benchmarks.idsds_methods import ALIGNED, STUDY, column_name, study_row
from heatcheck.benchmarks.idsds_published import published_value
from heatcheck.benchmarks.idsds_scores import (
    INCREMENTAL,
    PROTOCOLS,
    UPDATED,
    Score,
    find_scores,
    without_twins,
)
from heatcheck.benchmarks.idsds_tables import is_control, score_table
from heatcheck.metrics.resampling import defined_means
from heatcheck.metrics.statistics import average_ranks

_STUDY, _BEYOND, _ALIGNED, _CONTROL = "in the study", "not in it", "asks for deletions", "control"
# Drops below this share of the image's largest one are called faint.
_FAINT = 0.01
_KINDS = (_STUDY, _BEYOND, _ALIGNED, _CONTROL)


def method_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """All methods of the run on one model each, with the published score of ResNet-50's kind beside.

    A method stands with the first detailed model, or, where it does not explain it, with the first model of
    the run that it does explain.

    Returns:
        Columns ``row, kind, method, transform, model, mean, low, high, n, n_excluded, published,
        published_model``: study rows first, then other methods, those that ask for deletions, and controls,
        the best on top within each kind. ``published`` is text; ours and theirs are not comparable.
    """
    scores = final_scores(results)
    main = [name for name in results.settings.extra_models if name in scores]
    order = [*main, *(name for name in scores if name not in main)]
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for model in order:
        table = score_table([scores[model]], profile=results.settings.profile, seed=seed)
        for row in table.to_dict("records"):
            key = (str(row["method"]), str(row["transform"]))
            if key in rows or not _is_shown(*key):
                continue
            names = ("mean", "low", "high", "n", "n_excluded")
            fixed = {"row": column_name(*key), "kind": _kind(*key), "method": key[0], "transform": key[1]}
            rows[key] = {**fixed, "model": short_name(model), **{name: row[name] for name in names}}
            rows[key] |= published_value(*key)
    table = pd.DataFrame(rows.values())
    place = table["kind"].map(_KINDS.index)
    ordered = table.assign(place=place).sort_values(
        ["place", "mean"], ascending=[True, False], na_position="last", kind="stable"
    )
    return ordered.drop(columns="place").reset_index(drop=True)


def condition_table(results: Results, scores: Sequence[Score]) -> pd.DataFrame:
    """Means of the detailed model's methods under every way of deleting one or several patches.

    Returns:
        Columns ``method, transform, row, condition, mean, is_control``, in the order of the headline score.
    """
    model = results.main
    stage = results.final(model).studied.stage
    rows = []
    for score in find_scores(list(scores), model=model, stage=stage, output="logit"):
        if incremental_only([score]):
            continue
        label = _condition_label(score, results)
        means = defined_means(score.values.to_numpy(dtype=float))
        for (method, transform), mean in zip(score.columns, means, strict=True):
            fixed = {"method": method, "transform": transform, "row": column_name(method, transform)}
            rows.append({**fixed, "condition": label, "mean": float(mean), "is_control": is_control(method)})
    table = pd.DataFrame(rows)
    first = table[table["condition"] == table["condition"].iloc[0]]
    order = first.sort_values(["is_control", "mean"], ascending=[True, False])["row"].drop_duplicates()
    # A map without any ranking would be an empty line.
    table = table[table.groupby("row")["mean"].transform("count") > 0]
    place = table["row"].map({row: number for number, row in enumerate(order)})
    return table.assign(place=place).sort_values("place", kind="stable").drop(columns="place")


def protocol_scores(results: Results, scores: Sequence[Score]) -> list[Score]:
    """Scores of the detailed model by incremental deletion, SDS and IDSDS, those that were run.

    Maps made anew at every step are left out, and absolute maps where they are the raw ones.
    """
    own = find_scores(list(scores), model=results.main)
    wanted = [score for score in incremental_only(own) if not score.condition.protocol.endswith(UPDATED)]
    for protocol in PROTOCOLS.values():
        found = find_scores(own, protocol=protocol, output="logit", grid=results.settings.grid)
        wanted += find_scores(found, fill=results.settings.fill)
    return [without_twins(score) for score in wanted if score.columns]


def incremental_only(scores: Sequence[Score]) -> list[Score]:
    """Those of ``scores`` that are by incremental deletion."""
    return [score for score in scores if score.condition.protocol.startswith(f"{INCREMENTAL} ")]


def protocol_table(results: Results, scores: Sequence[Score]) -> pd.DataFrame:
    """Ranks of the same methods of the detailed model under several protocols; controls do not count.

    Returns:
        Columns ``protocol, method, transform, row, mean, rank``; 1 is best. Methods that a protocol lacks
        are left out of all. The headline score comes last.
    """
    wanted = protocol_scores(results, scores)
    if len(wanted) < 2:
        return pd.DataFrame(columns=["protocol", "method", "transform", "row", "mean", "rank"])
    shared = [
        column
        for column in wanted[-1].columns
        if column[1] in ("raw", "abs")
        and not is_control(column[0])
        and all(column in score.values for score in wanted)
    ]
    parts = []
    for score in wanted:
        means = defined_means(score.values[shared].to_numpy(dtype=float))
        ranks = average_ranks(means, best="high" if score.better == "higher" else "low")
        names = {"method": [name for name, _ in shared], "transform": [name for _, name in shared]}
        rows = [column_name(*column) for column in shared]
        fixed = {"protocol": score.condition.protocol, **names, "row": rows}
        parts.append(pd.DataFrame({**fixed, "mean": means, "rank": ranks}))
    return pd.concat(parts, ignore_index=True)


def signed_only(table: pd.DataFrame, score: Score) -> pd.DataFrame:
    """Rows of a ``compare_transforms`` table of methods that absolute values change; no controls."""
    signed = {method for method, transform in without_twins(score).columns if transform == "abs"}
    known = table["method"].isin(signed) & ~table["method"].map(is_control).astype(bool)
    return table[known]


def leading_columns(score: Score, *, n: int) -> list[tuple[str, str]]:
    """The ``n`` general methods with the largest means, the best first; the better transform of each."""
    means = score.values[general_methods(score)].mean().dropna().sort_values(ascending=False, kind="stable")
    found: dict[str, tuple[str, str]] = {}
    for column in means.index:
        found.setdefault(str(column[0]), (str(column[0]), str(column[1])))
    return list(found.values())[:n]


def breakdown(
    results: Results,
    subject: Subject,
    score: Score,
    columns: Sequence[tuple[str, str]],
    by: Literal["class", "confidence"],
    *,
    seed: int = 0,
) -> pd.DataFrame:
    """A ``breakdown_table`` of some columns, with the column ``row`` and confidences as names of groups."""
    own = score._replace(values=score.values[list(columns)])
    n_bins = min(4, len(score.values))
    table = breakdown_table(results, subject, own, by=by, n_bins=n_bins, seed=seed)
    pairs = zip(table["method"], table["transform"], strict=True)
    table = table.assign(row=[column_name(*pair) for pair in pairs])
    if by == "class":
        return table
    # Parts of sure images may have the same rounded ends, so their number belongs to the name.
    parts = zip(pd.factorize(table["group"])[0], table["from"], table["to"], strict=True)
    return table.assign(group=[f"{part + 1}: {low:.2f}-{high:.2f}" for part, low, high in parts])


def degradations(
    results: Results, subject: Subject, columns: Sequence[tuple[str, str]], *, seed: int = 0
) -> pd.DataFrame:
    """A ``degradation_table`` of the true drops and of some columns, with the column ``row``."""
    parts = []
    for method, transform in ((ORACLE, "raw"), *columns):
        table = degradation_table(subject, results.headline, method, transform, seed=seed)
        name = ORACLE if method == ORACLE else column_name(method, transform)
        parts.append(table.assign(row=name))
    return pd.concat(parts, ignore_index=True)


def drawn_design(design: pd.DataFrame) -> pd.DataFrame:
    """Rows of a ``design_table`` that are drawn: raw maps of methods, in factors of two models at least."""
    kept = design[(design["transform"] == "raw") & ~design["method"].map(is_control).astype(bool)]
    models = kept.groupby("factor")["model"].transform("nunique")
    both = kept.groupby(["factor", "method"])["model"].transform("nunique")
    return kept[(models > 1) & ((both > 1) | kept["is_own"])]


def model_cells(results: Results) -> pd.DataFrame:
    """Mean scores, models by rows of the study; columns that every other model lacks come last."""
    columns: dict[str, dict[str, float]] = {}
    scores = final_scores(results)
    compared = results.settings.compared
    for model, score in scores.items():
        means = defined_means(score.values.to_numpy(dtype=float))
        for column, mean in zip(score.columns, means, strict=True):
            if not study_row(*column) or (compared is not None and column[0] not in compared):
                continue
            columns.setdefault(column_name(*column), {})[short_name(model)] = float(mean)
    table = pd.DataFrame(columns).reindex([short_name(model) for model in scores])
    order = table.notna().sum().sort_values(ascending=False, kind="stable").index
    return table[list(order)]


def quotable(results: Results, methods: pd.DataFrame, oracle: pd.DataFrame) -> dict[str, Any]:
    """Numbers and names that the chapter's prose quotes.

    Args:
        results: Of the run.
        methods: Its ``method_table``.
        oracle: The ``oracle_table`` of its detailed model.
    """
    settings, model = results.settings, results.main
    score = final_scores(results)[model]
    best = best_column(score, general_methods(score))
    subject = results.final(model)
    subjects = [one for one in results.subjects if one.studied.model == model]
    drops = subject.tables[results.headline].responses.drops().abs()
    faint = drops < _FAINT * drops.amax(1, keepdim=True)
    facts = {one.studied.stage: drop_facts(results, one) for one in subjects}
    known = methods[methods["model"] == short_name(model)]
    controls = known.loc[known["kind"] == _CONTROL, "mean"].max()
    general = known[known["kind"].isin([_STUDY, _BEYOND])]
    absolute = oracle[(oracle["oracle"] == ORACLE) & (oracle["transform"] == "abs")]["mean"]
    n_classes = len(subject.studied.explained.classifier.classes)
    return {
        "n_images": len(score.values),
        "n_models": len(settings.models),
        "n_rows": int((methods["kind"] == _STUDY).sum()),
        "model": short_name(model),
        "profile": settings.profile,
        "best": column_name(*best) if best else "no method",
        "best_mean": float(score.values[best].mean()) if best else None,
        "n_below_control": int((general["mean"] <= controls).sum()) if np.isfinite(controls) else 0,
        "n_general": len(general),
        "n_undefined": int(methods["n_excluded"].sum()),
        "negative_drops": {stage: found["negative_drops"] for stage, found in facts.items()},
        "oracle_abs": float(absolute.iloc[0]) if len(absolute) else None,
        "oracle_abs_text": f"{float(absolute.iloc[0]):.2f}" if len(absolute) else "an unknown score",
        "faint_drops": float(faint.double().mean()),
        "untuned": "original" if "original" in facts else subject.studied.stage,
        "n_classes": n_classes,
        "grid": settings.grid,
        "n_incremental": min(settings.n_incremental, settings.n_images),
        "std": float(np.mean(subject.studied.explained.classifier.normalization.std)),
    }


def _is_shown(method: str, transform: str) -> bool:
    """Study rows, and the raw maps of everything else."""
    return bool(study_row(method, transform)) or (method not in STUDY and transform == "raw")


def _kind(method: str, transform: str) -> str:
    if is_control(method):
        return _CONTROL
    if method in ALIGNED:
        return _ALIGNED
    return _STUDY if study_row(method, transform) else _BEYOND


def _condition_label(score: Score, results: Results) -> str:
    condition, headline = score.condition, results.headline
    if condition.protocol not in PROTOCOLS.values():
        return condition.protocol
    if condition.grid != headline.grid:
        return f"{condition.grid} x {condition.grid}"
    return f"fill {condition.fill}" if condition.fill != headline.fill else "headline"
