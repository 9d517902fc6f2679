"""Scores per image of every method, model and protocol, from patch sums and answers under deletion."""

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.idsds import Output, Results, Stage, Subject
from heatcheck.benchmarks.patch_table import PatchTable, TableKey
from heatcheck.metrics.patches import (
    PatchScores,
    linear_scores,
    positive_drop_scores,
    single_deletion_scores,
)
from heatcheck.metrics.resampling import Intervals, mean_intervals

# The single-deletion score is called so by the model's domain: fine-tuned with deletion, or not.
PROTOCOLS: dict[Stage, str] = {"original": "SDS", "tuned": "IDSDS"}
POSITIVE = "positive drops"
LINEAR = "linear"
SETS = "sets of"
INCREMENTAL = "IDS"
UPDATED = "updated"
# Both sides explain and drop the probability; ``drop`` alone takes maps of the logit.
Outputs = Literal["logit", "probability", "drop"]
Rule = Literal["rank", "positive", "linear"]
# What compares relevance with drops, and the name of that score; the headline is named by the stage.
_RULES: dict[Rule, tuple[Callable[[Tensor, Tensor], PatchScores], str]] = {
    "rank": (single_deletion_scores, ""),
    "positive": (positive_drop_scores, POSITIVE),
    "linear": (linear_scores, LINEAR),
}
N_RESAMPLES = 1000
METHOD = ["method", "transform"]


class Condition(NamedTuple):
    """What a score is of.

    Attributes:
        model: Name of the model.
        stage: ``original`` or ``tuned``.
        protocol: ``SDS`` or ``IDSDS``; ``sets of k``: patches deleted together; ``positive drops``;
            ``linear``; or ``IDS`` with its direction.
        output: ``logit``, ``probability`` on both sides, or ``drop`` of the probability for maps of the
            logit.
        grid: Patches per side.
        fill: What deleted patches become.
    """

    model: str
    stage: Stage
    protocol: str
    output: Outputs
    grid: int
    fill: str


class Score(NamedTuple):
    """One column of numbers to compare methods by.

    Attributes:
        condition: What it is of.
        values: Images by (method, transform); NaN where undefined.
        flags: The same, why a value is not an ordinary one.
        correct: For each image, whether the model is right about it.
        better: Which direction is better.
    """

    condition: Condition
    values: pd.DataFrame
    flags: pd.DataFrame
    correct: pd.Series
    better: Literal["lower", "higher"] = "higher"

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Method and transform of every column."""
        return [(str(column[0]), str(column[1])) for column in self.values.columns]

    def intervals(self, *, seed: int = 0) -> Intervals:
        """Mean of every column with its 95 % interval over images; all columns share the resamples."""
        return mean_intervals(self.values.to_numpy(dtype=float), n_resamples=N_RESAMPLES, seed=seed)


def all_scores(results: Results) -> list[Score]:
    """Every score of a run, the headline score of each classifier first."""
    return [score for subject in results.subjects for score in subject_scores(results, subject)]


def subject_scores(results: Results, subject: Subject) -> Iterator[Score]:
    """Every score of one classifier."""
    headline = results.headline
    yield single_score(subject, headline)
    yield single_score(subject, headline, rule="positive")
    yield single_score(subject, headline, rule="linear")
    for key in subject.tables:
        if key.sets is not None:
            yield from set_scores(subject, key)
        elif key != headline:
            yield single_score(subject, key)
    if any(key.output == "probability" for key in subject.sums):
        yield single_score(subject, headline, output="probability")
        yield single_score(subject, headline, output="drop")
    yield from incremental_scores(results, subject)


def headline_score(results: Results, model: str, stage: Stage = "tuned") -> Score:
    """Headline score of a model.

    Raises:
        ValueError: The model was not run at that stage.
    """
    subject = results.find(model, stage)
    if subject is None:
        known = ", ".join(f"{one.studied.model} ({one.studied.stage})" for one in results.subjects)
        raise ValueError(f"no scores of {model!r} ({stage}); there are: {known}")
    return single_score(subject, results.headline)


def find_scores(scores: list[Score], **wanted: object) -> list[Score]:
    """Those of ``scores`` whose condition has the given values, such as ``model="resnet8"``."""
    return [
        score
        for score in scores
        if all(getattr(score.condition, name) == value for name, value in wanted.items())
    ]


def single_score(subject: Subject, key: TableKey, *, output: Outputs = "logit", rule: Rule = "rank") -> Score:
    """Single-deletion score of every method of a classifier.

    Args:
        subject: The classifier.
        key: Grid and deletion value.
        output: What is explained and dropped; see ``Condition``.
        rule: ``rank`` correlation; ``positive``: the same over patches alone whose deletion lowers the score
            of the class; or ``linear`` correlation. The last two are extensions.
    """
    table = subject.tables[key]
    drops = table.responses.drops("logit" if output == "logit" else "probability")
    explained: Output = "probability" if output == "probability" else "logit"
    compare, name = _RULES[rule]
    columns = {
        (own.method, own.transform): compare(sums, drops)
        for own, sums in subject.sums.items()
        if (own.output, own.grid) == (explained, key.grid)
    }
    protocol = name or PROTOCOLS[subject.studied.stage]
    return make_score(subject, key, columns, protocol=protocol, output=output)


def set_scores(subject: Subject, key: TableKey) -> Iterator[Score]:
    """Scores by sets of patches that are deleted together, one per size of the sets.

    A method's forecast of a set's drop is the sum over its patches; the score is the rank correlation over
    sets. Only single deletions are in the domain of the fine-tuned model.
    """
    table = subject.tables[key]
    drops, deleted = table.responses.drops(), table.deleted[1:]
    for size in key.sets.sizes if key.sets else ():
        chosen = deleted.sum(1) == size
        members = deleted[chosen].double().T
        columns = {
            (own.method, own.transform): single_deletion_scores(sums @ members, drops[:, chosen])
            for own, sums in subject.sums.items()
            if (own.output, own.grid) == ("logit", key.grid)
        }
        yield make_score(subject, key, columns, protocol=f"{SETS} {size}", output="logit")


def incremental_scores(results: Results, subject: Subject) -> Iterator[Score]:
    """Scores by incremental deletion, one per direction and way of updating."""
    table = subject.incremental
    if table.empty:
        return
    correct = intact_correct(subject, results.headline)
    for (direction, updated), rows in table.groupby(["direction", "updated"], sort=False):
        values, flags = (
            rows.pivot(index="image", columns=METHOD, values=name).reindex(list(dict.fromkeys(rows["image"])))
            for name in ("value", "flag")
        )
        protocol = f"{INCREMENTAL} {direction}{f' {UPDATED}' if updated else ''}"
        condition = _condition(subject, results.headline, protocol, "probability")
        better: Literal["lower", "higher"] = "higher" if direction == "ascending" else "lower"
        yield Score(condition, values.astype(float), flags, correct.loc[values.index], better)


def without_twins(score: Score) -> Score:
    """``score`` without absolute maps that are the raw ones, for they would count twice."""
    values = score.values
    twins = [
        (method, transform)
        for method, transform in score.columns
        if transform == "abs" and (method, "raw") in values
        if values[method, "raw"].equals(values[method, "abs"])
    ]
    return score._replace(values=values.drop(columns=twins), flags=score.flags.drop(columns=twins))


def intact_correct(subject: Subject, key: TableKey) -> pd.Series:
    """For each image, whether the classifier is right about it while nothing is deleted."""
    return pd.Series(subject.tables[key].correct[:, 0].numpy(), index=list(subject.ids), name="correct")


def confidences(table: PatchTable) -> NDArray[np.float64]:
    """Probability ``(N,)`` of the target while nothing is deleted."""
    found: NDArray[np.float64] = table.responses.probabilities[:, 0].numpy()
    return found


def make_score(
    subject: Subject,
    key: TableKey,
    columns: dict[tuple[str, str], PatchScores],
    *,
    protocol: str,
    output: Outputs,
) -> Score:
    """Score with one column per method and transform."""
    names = pd.MultiIndex.from_tuples(list(columns), names=METHOD)
    values = torch.stack([column.values for column in columns.values()], 1) if columns else _nothing(subject)
    flags = np.stack([column.flags for column in columns.values()], 1) if columns else values.numpy()
    condition = _condition(subject, key, protocol, output)
    index = pd.Index(list(subject.ids), name="image")
    return Score(
        condition,
        pd.DataFrame(values.cpu().numpy(), index=index, columns=names),
        pd.DataFrame(flags, index=index, columns=names),
        intact_correct(subject, key),
    )


def tidy_scores(scores: list[Score], *, preset: str, profile: str, data: str) -> pd.DataFrame:
    """All scores, a row per image and score.

    Returns:
        Columns ``benchmark, preset, profile, data, model, stage, protocol, output, grid, fill, method,
        transform, image, metric, value, flag, correct``.
    """
    parts: list[pd.DataFrame] = []
    for score in scores:
        count = len(score.values)
        names = score.values.columns.to_frame(index=False)
        table = pd.DataFrame(
            {
                **{name: np.repeat(names[name].to_numpy(), count) for name in METHOD},
                "image": np.tile(score.values.index.to_numpy(), len(names)),
                "value": score.values.to_numpy(dtype=float).T.reshape(-1),
                "flag": score.flags.to_numpy().T.reshape(-1),
                "correct": np.tile(score.correct.loc[score.values.index].to_numpy(), len(names)),
            }
        )
        fixed = {**score.condition._asdict(), "metric": score.condition.protocol}
        parts.append(pd.concat([table, pd.DataFrame(fixed, index=table.index)], axis=1))
    return pd.concat(parts, ignore_index=True).assign(
        benchmark="idsds", preset=preset, profile=profile, data=data
    )


def _condition(subject: Subject, key: TableKey, protocol: str, output: Outputs) -> Condition:
    studied = subject.studied
    return Condition(studied.model, studied.stage, protocol, output, key.grid, key.fill)


def _nothing(subject: Subject) -> Tensor:
    return torch.empty((len(subject.ids), 0), dtype=torch.float64)
