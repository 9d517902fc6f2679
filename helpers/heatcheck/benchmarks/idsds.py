"""In-domain single deletion: does a map rank patches as the drops of the model's logit do?

Protocol of Hesse, Schaub-Meyer and Roth (2024), with incremental deletion beside it. What a model answers
without each patch is computed once and serves every method.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, prepare
from heatcheck.benchmarks.idsds_images import load_sample
from heatcheck.benchmarks.idsds_maps import (
    Conditions,
    Steps,
    incremental_tasks,
    shared_work,
    sum_tasks,
)
from heatcheck.benchmarks.idsds_methods import probability_request
from heatcheck.benchmarks.idsds_settings import Settings as Settings
from heatcheck.benchmarks.idsds_settings import check as check
from heatcheck.benchmarks.idsds_settings import explaining, main_model, request_of
from heatcheck.benchmarks.patch_table import PatchTable, Sets, TableKey, load_table, table_tasks
from heatcheck.benchmarks.shared_settings import fill_cells
from heatcheck.models.catalog import get_classifier
from heatcheck.models.registry import Classifier
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.store import ResultsStore

Stage = Literal["original", "tuned"]
Output = Literal["logit", "probability"]


class Studied(NamedTuple):
    """A classifier of the run with the images it is shown.

    Attributes:
        model: Name of the model, the same before and after fine-tuning.
        stage: ``original``, or ``tuned`` with patch deletion.
        explained: Images and classifier.
        train: Training images, for accuracy under deletion; None where there are none.
        methods: Methods that explain it.
        detailed: Whether it is scored by everything.
    """

    model: str
    stage: Stage
    explained: Explained
    train: Explained | None
    methods: tuple[str, ...]
    detailed: bool


class SumsKey(NamedTuple):
    """Whose patch sums: a method's, explaining the ``logit`` or the ``probability``."""

    method: str
    output: Output
    grid: int
    transform: str


class Subject(NamedTuple):
    """Everything measured about one classifier.

    Attributes:
        studied: The classifier.
        tables: Answers under deletion.
        train: Answers on training images; None where there are none.
        sums: Patch sums ``(N, P * P)`` float64, by method and setting.
        incremental: Scores by incremental deletion; columns ``method, transform, direction, updated, image,
            value, flag, curve``.
    """

    studied: Studied
    tables: Mapping[TableKey, PatchTable]
    train: PatchTable | None
    sums: Mapping[SumsKey, Tensor]
    incremental: pd.DataFrame

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the images."""
        return self.studied.explained.data.ids


class Results(NamedTuple):
    """What a run gives: its settings, the methods of plug-ins included, and one subject per classifier."""

    settings: Settings
    subjects: tuple[Subject, ...]

    @property
    def headline(self) -> TableKey:
        """The table of the headline score."""
        return TableKey(self.settings.grid, self.settings.fill)

    @property
    def main(self) -> str:
        """The model that is looked at closely: the first detailed one.

        Raises:
            ValueError: The run has none.
        """
        return main_model(self.settings)

    def find(self, model: str, stage: Stage) -> Subject | None:
        """Subject of a model at a stage; None where it was not run."""
        for subject in self.subjects:
            if (subject.studied.model, subject.studied.stage) == (model, stage):
                return subject
        return None

    def final(self, model: str) -> Subject:
        """Subject of a model after fine-tuning, or as it was trained where it was not fine-tuned.

        Raises:
            ValueError: The model was not run.
        """
        subject = self.find(model, "tuned") or self.find(model, "original")
        if subject is None:
            known = ", ".join(dict.fromkeys(one.studied.model for one in self.subjects))
            raise ValueError(f"model {model!r} was not run; there are: {known}")
        return subject


def run(settings: Settings, store: ResultsStore) -> Results:
    """Patch sums of every method and answers of every model; finished cells come from ``store``.

    Raises:
        ValueError: A method, option, model, data set or fill is unknown; nothing has been computed then.
        PluginError: A plug-in cannot be used.
    """
    settings = check(settings)
    device = choose_device(settings.device)
    with memory_budget(settings.memory) if settings.memory else nullcontext():
        studied = list(load_studied(settings, device))
        tasks = [task for one in studied for task in _table_tasks(one, settings)]
        fill_tasks(store, tasks, settings, "answers without patches")
        tasks = [task for one in studied for task in _sum_tasks(one, settings)]
        fill_tasks(store, tasks, settings, "relevance of patches")
        tasks = [task for one in studied for *_, part in _incremental_parts(one, settings) for task in part]
        fill_tasks(store, tasks, settings, "incremental deletion")
        return Results(settings, tuple(_subject(store, one, settings) for one in studied))


def load_studied(settings: Settings, device: torch.device) -> Iterator[Studied]:
    """Every classifier of the run with its images, the original before the tuned one."""
    for model in settings.models:
        names: list[tuple[Stage, str]] = [("original", model)]
        if model in settings.tuned:
            names.append(("tuned", settings.tuned[model]))
        for stage, name in names:
            classifier = _classifier(settings, name, device)
            data = load_sample(settings.data, classifier, settings.n_images)
            train = None
            if settings.n_train:
                sample = load_sample(settings.data, classifier, settings.n_train, split="train")
                train = prepare(sample, classifier, device)
            methods = tuple(explaining(settings, classifier, model, tuned=stage == "tuned"))
            detailed = model in settings.extra_models
            yield Studied(model, stage, prepare(data, classifier, device), train, methods, detailed)


def table_keys(studied: Studied, settings: Settings) -> list[TableKey]:
    """Tables of answers a classifier needs, the headline first."""
    headline = TableKey(settings.grid, settings.fill)
    if not studied.detailed:
        return [headline]
    grids = [TableKey(grid, settings.fill) for grid in settings.all_grids]
    fills = [TableKey(settings.grid, fill) for fill in settings.all_fills]
    sets = Sets(tuple(settings.set_sizes), settings.n_sets, settings.seed)
    several = [TableKey(settings.grid, settings.fill, sets)] if settings.set_sizes else []
    return list(dict.fromkeys([headline, *grids, *fills, *several]))


def requests_of(studied: Studied, settings: Settings) -> dict[tuple[str, Output], MethodRequest]:
    """Registered method and options behind every method of a classifier and explained output."""
    found: dict[tuple[str, Output], MethodRequest] = {}
    for name in studied.methods:
        request = request_of(settings, name)
        found[name, "logit"] = request
        other = probability_request(request) if settings.softmax and studied.detailed else None
        if other is not None:
            found[name, "probability"] = other
    return found


def fill_tasks(store: ResultsStore, tasks: Sequence[Task], settings: Settings, label: str) -> None:
    """Compute those of ``tasks`` that are not in ``store``; equal ones once."""
    unique = list({store.path(task.cell): task for task in tasks}.values())
    fill_cells(store, unique, settings, label=label)


def _classifier(settings: Settings, name: str, device: torch.device) -> Classifier:
    weights, count = settings.weights.get(name), settings.n_classes.get(name)
    return get_classifier(name, weights=weights, n_classes=count, device=str(device))


def _conditions(settings: Settings) -> Conditions:
    return Conditions(tuple(settings.transforms), settings.seed, settings.memory)


def _grids(studied: Studied, settings: Settings) -> list[int]:
    return settings.all_grids if studied.detailed else [settings.grid]


def _table_tasks(studied: Studied, settings: Settings) -> Iterator[Task]:
    seed, memory = settings.seed, settings.memory
    for key in table_keys(studied, settings):
        yield from table_tasks(studied.explained, key, seed=seed, memory=memory)
    if studied.train is not None:
        headline = TableKey(settings.grid, settings.fill)
        yield from table_tasks(studied.train, headline, seed=seed, memory=memory)


def _sum_tasks(studied: Studied, settings: Settings) -> Iterator[Task]:
    requests = list(requests_of(studied, settings).values())
    shards = studied.explained.shards()
    for work in shared_work(requests):
        yield from sum_tasks(shards, work, _grids(studied, settings), _conditions(settings))


def _incremental_parts(studied: Studied, settings: Settings) -> Iterator[tuple[str, Steps, list[Task]]]:
    """Method, way of deleting and tasks of every score by incremental deletion of the original model."""
    if not studied.detailed or studied.stage != "original":
        return
    shown = studied.explained.take(0, settings.n_incremental)
    requests = requests_of(studied, settings)
    for name in (one for one in settings.incremental if one in studied.methods):
        for direction in settings.directions:
            for updated in (False, True) if name in settings.updated else (False,):
                steps = Steps(settings.n_steps, direction, settings.fill, updated)
                request = requests[name, "logit"]
                yield name, steps, incremental_tasks(shown, request, steps, _conditions(settings))


def _subject(store: ResultsStore, studied: Studied, settings: Settings) -> Subject:
    seed = settings.seed
    tables = {key: load_table(store, studied.explained, key, seed) for key in table_keys(studied, settings)}
    headline = TableKey(settings.grid, settings.fill)
    train = None if studied.train is None else load_table(store, studied.train, headline, seed)
    return Subject(studied, tables, train, _sums(store, studied, settings), _curves(store, studied, settings))


def _sums(store: ResultsStore, studied: Studied, settings: Settings) -> dict[SumsKey, Tensor]:
    found: dict[SumsKey, Tensor] = {}
    shards = studied.explained.shards()
    for (name, output), request in requests_of(studied, settings).items():
        (work,) = shared_work([request])
        tasks = sum_tasks(shards, work, _grids(studied, settings), _conditions(settings))
        table = pd.concat([_finished(store, task) for task in tasks], ignore_index=True)
        own = table[table["member"] == request.name]
        for grid in _grids(studied, settings):
            for transform in settings.transforms:
                rows = own[(own["grid"] == grid) & (own["transform"] == transform)]
                values = torch.from_numpy(np.stack(rows["sums"].to_list()))
                found[SumsKey(name, output, grid, transform)] = values
    return found


def _curves(store: ResultsStore, studied: Studied, settings: Settings) -> pd.DataFrame:
    parts = []
    for name, steps, tasks in _incremental_parts(studied, settings):
        for task in tasks:
            table = _finished(store, task)
            parts.append(table.assign(method=name, direction=steps.direction, updated=steps.updated))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _finished(store: ResultsStore, task: Task) -> pd.DataFrame:
    table = store.get(task.cell)
    if table is None:
        raise LookupError(f"the store lost the cell {store.path(task.cell).name}; run again")
    return table
