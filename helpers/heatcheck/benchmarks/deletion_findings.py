"""What the deletion chapter says about published findings, computed from its scores."""

from collections.abc import Iterator

from heatcheck.benchmarks.deletion_summary import best_method
from heatcheck.benchmarks.deletion_tables import BETTER, LOCALIZATION, Score, find_score, is_control
from heatcheck.benchmarks.findings import Finding, agree, compare


def deletion_findings(scores: list[Score], data: str) -> list[Finding]:
    """Findings on data set ``data``; those whose methods or fills were not run are left out."""
    return [*_comparisons(scores, data), *_localizers(scores, data), *_agreements(scores, data)]


def _comparisons(scores: list[Score], data: str) -> Iterator[Finding]:
    deletion = find_score(scores, data, "deletion")
    cases = [
        (
            "random_pixels",
            "Removing random pixels lowers the probability faster than removing random blocks, "
            "so random pixels are no floor for deletion.",
            deletion,
            ("random", "random-blocks"),
            "this book",
        ),
        (
            "center_beats_patch",
            "A blob in the center that knows nothing of the model beats occlusion by deletion.",
            deletion,
            ("centre", "sliding-patch"),
            "this book",
        ),
    ]
    if any(score.metric == LOCALIZATION and score.data == data for score in scores):
        found = find_score(scores, data, LOCALIZATION)
        for first, second in (("gradient", "grad-cam"), ("gradient", "sliding-patch")):
            statement = f"{first} localizes with a smaller error than {second}."
            key = f"{first}_{second}".replace("-", "_")
            cases.append((key, statement, found, (first, second), "fong2017interpretable"))
    for key, statement, score, pair, source in cases:
        if set(pair) <= set(score.values.columns):
            yield compare(
                key, statement, score.values, *pair, less=True, source=source, quantity=_name(score)
            )


def _localizers(scores: list[Score], data: str) -> Iterator[Finding]:
    """Which method localizes best, and does deletion pick it? Chosen and tested on the same images."""
    if not any((score.data, score.metric) == (data, LOCALIZATION) for score in scores):
        return
    errors = find_score(scores, data, LOCALIZATION)
    means = errors.means().dropna().sort_values(kind="stable")
    methods = [str(name) for name in means.index if not is_control(str(name))]
    controls = [str(name) for name in means.index if is_control(str(name))]
    if len(methods) < 2:
        return
    best, picked = methods[0], best_method(scores, data, "deletion")
    cases = [
        ("localizes_best", f"{best} localizes best: better than the runner-up, {methods[1]}.", methods[1])
    ]
    if controls:
        statement = f"{best}, which localizes best, is better at it than the best control, {controls[0]}."
        cases.append(("localizer_beats_control", statement, controls[0]))
    if picked not in (None, best, methods[1]):
        statement = f"{best}, which localizes best, is better at it than {picked}, which deletion prefers."
        cases.append(("deletion_picks_another", statement, str(picked)))
    for key, statement, other in cases:
        yield compare(
            key, statement, errors.values, best, other, less=True, source="this book", quantity=LOCALIZATION
        )


def _agreements(scores: list[Score], data: str) -> Iterator[Finding]:
    deletion = find_score(scores, data, "deletion")
    if len(deletion.values.columns) < 3:
        return
    for score in scores:
        if score.data != data or score is deletion:
            continue
        if score.metric == "deletion":
            fills = f"{deletion.fill} and {score.fill}"
            statement = f"Deletion with the fills {fills} agrees in part on the ranking of methods."
            yield _agreement(f"fill_{score.fill}", statement, deletion, score, "this book")
        if score.metric in ("insertion", LOCALIZATION):
            key = score.metric.replace(" ", "_")
            statement = f"Deletion and {score.metric} agree in part on the ranking of methods."
            yield _agreement(key, statement, deletion, score, "this book")


def _agreement(key: str, statement: str, first: Score, second: Score, source: str) -> Finding:
    same = BETTER[first.metric] == BETTER[second.metric]
    quantity = f"{_name(first)} and {_name(second)}"
    tables = (first.values, second.values)
    return agree(f"agree_{key}", statement, *tables, same_direction=same, source=source, quantity=quantity)


def _name(score: Score) -> str:
    return score.metric if score.fill is None else f"{score.metric} ({score.fill})"
