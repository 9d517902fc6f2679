"""CLEVR-XAI: does the relevance of a heatmap lie on the objects that decide the answer?

Protocol of Arras, Osman and Samek (2022). Maps explain the predicted answer, only questions that were
answered correctly count, and raw maps become scores at once: no more than one shard of them is in memory.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import NamedTuple

import pandas as pd
import safetensors.torch
from torch import Tensor

from heatcheck.benchmarks.clevr_xai_controls import exchanges
from heatcheck.benchmarks.clevr_xai_jobs import (
    Context,
    Job,
    Shard,
    control_tasks,
    kept_heatmaps,
    plan,
    score_task,
    setting_key,
)
from heatcheck.benchmarks.clevr_xai_questions import KINDS
from heatcheck.benchmarks.clevr_xai_settings import Settings, check
from heatcheck.benchmarks.clevr_xai_shards import Run, ask, make_shards
from heatcheck.benchmarks.clevr_xai_variants import Grid, variants_of
from heatcheck.benchmarks.heatmaps import MethodRequest
from heatcheck.benchmarks.shared_passes import pass_of, plan_passes
from heatcheck.benchmarks.shared_settings import fill_cells
from heatcheck.data.clevr.batch import VisualQuestions
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.metrics.pooling import POOLINGS
from heatcheck.models.catalog import get_classifier
from heatcheck.models.registry import Classifier
from heatcheck.models.state_dict import load_by_name
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.store import ResultsStore, cell_key

__all__ = ["Results", "Settings", "Shown", "check", "classifier_of", "run"]


class Shown(NamedTuple):
    """Questions with their raw heatmaps, to look at.

    Attributes:
        questions: The questions with images and masks.
        answers: Rows of the predictions, in the same order.
        heatmaps: For each method ``(n, C or 1, H, W)``.
    """

    questions: VisualQuestions
    answers: pd.DataFrame
    heatmaps: Mapping[str, Tensor]


class Results(NamedTuple):
    """What a run gives.

    Attributes:
        settings: The settings of the run, the methods of its plug-ins included.
        predictions: A row per question that was asked; see ``answer_questions``, with ``kind``.
        scores: A row per method, question, ground truth and metric, a column per pooling, with ``kind,
            method, setting, correct``; see ``score_heatmaps``.
        variants: The same for the settings that are compared, with ``group`` and ``label``.
        controls: The same for the control experiments, with ``experiment``; see ``compare_maps``.
        right: Correctly answered questions to look at, by kind.
        wrong: Wrongly answered ones, by kind.
    """

    settings: Settings
    predictions: pd.DataFrame
    scores: pd.DataFrame
    variants: pd.DataFrame
    controls: pd.DataFrame
    right: Mapping[Kind, Shown]
    wrong: Mapping[Kind, Shown]


def run(settings: Settings, store: ResultsStore) -> Results:
    """Answers, heatmaps and scores; finished cells come from ``store``.

    Raises:
        ValueError: A name, option or size is unknown or not allowed; nothing has been computed then.
        FileNotFoundError: The data set is not there.
        PluginError: A plug-in cannot be used.
    """
    settings = check(settings)
    kinds = [kind for kind in KINDS if settings.n_questions(kind)]
    here = Run(settings, {kind: _context(settings, kind) for kind in kinds}, store)
    requests = [MethodRequest(name, settings.options.get(name, {})) for name in settings.methods]
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        asked = {kind: ask(kind, here) for kind in kinds}
        predictions = pd.concat([table.assign(kind=kind) for kind, (_, table) in asked.items()])
        shards = [shard for kind in asked for shard in make_shards(*asked[kind], here)]
        if not any(shard.correct for shard in shards):
            raise ValueError(
                f"model {settings.model!r} answers none of {len(predictions)} questions correctly; "
                "choose the model that was trained for them"
            )
        scores, variants = _score(shards, requests, here)
        controls = _control(shards, requests, here)
        shown = [(shard, _shown(shard, requests, predictions, here)) for shard in shards if shard.keep]
    right, wrong = (
        # The first of each kind stands.
        {shard.sample.kind: found for shard, found in reversed(shown) if shard.correct == correct}
        for correct in (True, False)
    )
    predictions = predictions.reset_index(drop=True)
    return Results(settings, predictions, scores, variants, controls, right, wrong)


def classifier_of(settings: Settings, kind: Kind, device: str) -> Classifier:
    """The model that answers questions of ``kind``, with the weights of the run."""
    classifier = get_classifier(settings.model_of(kind), device=device)
    if settings.weights is not None:
        state = safetensors.torch.load_file(settings.weights)
        load_by_name(classifier.module, state, name=classifier.name, source=settings.weights)
    return classifier


def _context(settings: Settings, kind: Kind) -> Context:
    """The model that answers questions of ``kind``, and where it runs."""
    device = choose_device(settings.device)
    classifier = classifier_of(settings, kind, str(device))
    return Context(classifier, device, settings.seed, settings.memory, settings.fixed_pooling)


def _score(
    shards: Sequence[Shard], requests: Sequence[MethodRequest], here: Run
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores of all questions with the main settings, and of some of them with the variants."""
    settings = here.settings
    grid = Grid(settings.options, settings.noise_scales, settings.noise_samples)
    variants = variants_of(settings.variants, grid)
    compared = [MethodRequest(item.method, item.options) for item in variants]
    some = _some(shards, settings.n_variants)
    jobs = [
        *plan(shards, plan_passes(requests), here.contexts),
        *plan(some, plan_passes(compared), here.contexts),
    ]
    table = _fill([score_task(job) for job in jobs], "heatmaps and scores", here)
    scores = [_rows(table, request) for request in requests]
    chosen = {question for shard in some for question in shard.sample.load().ids}
    few = table[table["question"].isin(chosen) & table["correct"]]
    more = [
        _rows(few, request).assign(group=item.group, label=item.label)
        for item, request in zip(variants, compared, strict=True)
    ]
    empty = table.head(0).assign(group="", label="")
    return _compact(scores), _compact([empty, *more])


def _some(shards: Sequence[Shard], n_questions: int) -> list[Shard]:
    """The first shards, with ``n_questions`` correctly answered questions of one kind."""
    chosen: list[Shard] = []
    for shard in shards:
        enough = sum(len(item.targets) for item in chosen) >= n_questions
        if shard.correct and shard.sample.kind == shards[0].sample.kind and not enough:
            chosen.append(shard)
    return chosen


def _control(shards: Sequence[Shard], requests: Sequence[MethodRequest], here: Run) -> pd.DataFrame:
    """Control experiments on the first questions, whose own maps are kept."""
    settings, kind = here.settings, shards[0].sample.kind
    kept = [shard for shard in shards if shard.keep and shard.correct and shard.sample.kind == kind]
    if not settings.n_controls or not kept:
        return pd.DataFrame()
    classifier, device, seed, *_ = here.contexts[kind]
    tasks: list[Task] = []
    for shard in kept:
        jobs = plan([shard], plan_passes(requests), here.contexts)
        for exchange in exchanges(shard.sample, shard.targets, classifier, device, seed=seed):
            tasks += control_tasks(jobs, exchange)
    table = _fill(tasks, "control experiments", here)
    return _compact([_rows(table, request) for request in requests])


def _fill(tasks: Sequence[Task], label: str, here: Run) -> pd.DataFrame:
    """Tables of all tasks; a cell that is named twice is there once."""
    unique = {cell_key(task.cell): task for task in tasks}
    return fill_cells(here.store, list(unique.values()), here.settings, label=label)


def _rows(table: pd.DataFrame, request: MethodRequest) -> pd.DataFrame:
    """Rows of one method in one setting; a pass holds those of its other members too."""
    mine = (table["method"] == request.name) & (table["setting"] == setting_key(pass_of(*request)))
    return table[mine]


def _compact(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables below each other; what repeats in many rows is kept once."""
    table = pd.concat(tables, ignore_index=True)
    repeated = [name for name in table if name not in ("question", "correct", *POOLINGS)]
    return table.astype(dict.fromkeys(repeated, "category"))


def _shown(shard: Shard, requests: Sequence[MethodRequest], predictions: pd.DataFrame, here: Run) -> Shown:
    questions = shard.sample.load()
    answers = predictions.set_index("question", drop=False).loc[list(questions.ids)]
    heatmaps = {}
    for request in requests:
        job = Job(shard, pass_of(*request), here.contexts[shard.sample.kind])
        heatmaps[request.name] = kept_heatmaps(here.store, job)[request.name]
    return Shown(questions, answers.reset_index(drop=True), heatmaps)
