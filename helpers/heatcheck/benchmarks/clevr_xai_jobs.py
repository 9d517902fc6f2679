"""Cells of the CLEVR-XAI benchmark: one pass over one shard of questions each, kept in the results store."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from heatcheck.attribution.registry import check_options
from heatcheck.benchmarks.clevr_xai_controls import Exchange, compare_maps
from heatcheck.benchmarks.clevr_xai_questions import Sample, explain
from heatcheck.benchmarks.clevr_xai_scores import score_heatmaps
from heatcheck.benchmarks.heatmaps import (
    Explained,
    MethodRequest,
    heatmap_cells,
    heatmap_plugins,
    plain_options,
)
from heatcheck.benchmarks.shared_passes import Pass, pass_heatmaps
from heatcheck.data.clevr.batch import VisualQuestions
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.models.registry import Classifier
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import content_ids
from heatcheck.runtime.store import ResultsStore, cell_key


class Context(NamedTuple):
    """What all cells about one kind of questions share.

    Attributes:
        classifier: What answers and is explained.
        device: Where it runs.
        seed: Seed of everything random.
        memory: Extra memory to use; None leaves it to the device.
        pooling: How channels are joined where two maps are compared.
    """

    classifier: Classifier
    device: torch.device
    seed: int
    memory: str | None
    pooling: str


class Shard(NamedTuple):
    """A few questions with the classes that are explained, and what names them in the store.

    Attributes:
        sample: The questions.
        targets: Explained class of each.
        ground_truths: Masks that are scored.
        correct: Whether they were answered correctly.
        keep: Keep the raw heatmaps in the store too, to show them or to compare with them.
        cell: What the heatmaps depend on besides the method.
        masks: Identities of the masks.
    """

    sample: Sample
    targets: tuple[int, ...]
    ground_truths: tuple[str, ...]
    correct: bool
    keep: bool
    cell: Mapping[str, Any]
    masks: tuple[tuple[int, ...], ...]

    def explained(self, context: Context) -> tuple[VisualQuestions, Explained]:
        """The questions, and what is explained about them."""
        questions = self.sample.load()
        targets = torch.tensor(self.targets)
        return questions, explain(questions, context.classifier, targets, context.device)


def make_shard(
    sample: Sample,
    targets: Iterable[int],
    ground_truths: tuple[str, ...],
    context: Context,
    *,
    correct: bool = True,
    keep: bool = False,
) -> Shard:
    """Shard of the questions of ``sample``, at most as many as a cell of heatmaps holds."""
    bare = Shard(sample, tuple(int(target) for target in targets), ground_truths, correct, keep, {}, ())
    questions, explained = bare.explained(context)
    masks = tuple(content_ids(questions.masks[name]) for name in ground_truths)
    return bare._replace(cell=_content(explained, context), masks=masks)


class Job(NamedTuple):
    """One pass over one shard."""

    shard: Shard
    work: Pass
    context: Context

    @property
    def cell(self) -> dict[str, Any]:
        """Cell of the raw heatmaps."""
        return _pass_cell(self.shard.cell, self.work, self.context.classifier)


def plan(shards: Sequence[Shard], passes: Sequence[Pass], contexts: Mapping[Kind, Context]) -> list[Job]:
    """All pairs, shard by shard so that one is loaded at a time; in each the costly passes first."""
    costly = sorted(passes, key=lambda work: -_cost(work))
    return [Job(shard, work, contexts[shard.sample.kind]) for shard in shards for work in costly]


def score_task(job: Job) -> Task:
    """Task whose table holds the scores of one pass on one shard."""
    cell = {
        "kind": "clevr-xai-scores",
        "code": code_fingerprint("heatcheck.benchmarks.clevr_xai_scores"),
        "heatmaps": cell_key(job.cell),
        "masks": job.shard.masks,
        "ground_truths": job.shard.ground_truths,
        "correct": job.shard.correct,
    }
    return Task(cell, partial(_score, job))


def control_tasks(jobs: Sequence[Job], exchange: Exchange) -> list[Task]:
    """Tasks whose tables compare the maps of each job with those of a control experiment."""
    content = _content(exchange.explained, jobs[0].context)
    return [_control_task(job, exchange, content) for job in jobs]


def _control_task(job: Job, exchange: Exchange, content: Mapping[str, Any]) -> Task:
    cell = {
        "kind": "clevr-xai-control",
        "code": code_fingerprint("heatcheck.benchmarks.clevr_xai_controls"),
        "own": cell_key(job.cell),
        "other": cell_key(_pass_cell(content, job.work, exchange.explained.classifier)),
        "experiment": exchange.experiment,
        "kept": exchange.kept,
        "masks": job.shard.masks,
        "ground_truths": job.shard.ground_truths,
        "pooling": job.context.pooling,
    }
    return Task(cell, partial(_compare, job, exchange))


def kept_heatmaps(store: ResultsStore, job: Job) -> dict[str, Tensor]:
    """Raw heatmaps ``(N, C or 1, H, W)`` float32 of each member of a pass; from ``store`` when finished."""
    table = store.get(job.cell)
    if table is None:
        table = _heatmap_table(job)
        store.put(job.cell, table)
    columns = zip(table["method"], table["maps"], table["shape"], strict=True)
    return {
        str(name): torch.from_numpy(np.frombuffer(maps, dtype=np.float32).reshape(shape).copy())
        for name, maps, shape in columns
    }


def setting_key(work: Pass) -> str:
    """Short name of a pass and all its options, equal for equal settings whatever the model."""
    options = check_options(work.method, work.options)
    return hashlib.sha256(f"{work.method} {sorted(options.items())}".encode()).hexdigest()[:12]


def _content(explained: Explained, context: Context) -> dict[str, Any]:
    # Any method would do: its name and options are replaced for each pass.
    request = MethodRequest("constant", {})
    (cell,) = heatmap_cells(explained, request, seed=context.seed)
    return cell


def _pass_cell(content: Mapping[str, Any], work: Pass, classifier: Classifier) -> dict[str, Any]:
    options = plain_options(work.request, classifier)
    return {
        **content,
        "kind": "clevr-xai-heatmaps",
        "code": [*content["code"], code_fingerprint("heatcheck.benchmarks.shared_passes")],
        "method": work.method,
        "options": options,
        "plugins": heatmap_plugins(work.method, options, classifier),
        "members": work.members,
    }


def _heatmap_table(job: Job) -> pd.DataFrame:
    rows = [
        (name, values.numpy().tobytes(), list(values.shape)) for name, values in _fresh_heatmaps(job).items()
    ]
    return pd.DataFrame(rows, columns=["method", "maps", "shape"])


def _fresh_heatmaps(job: Job) -> dict[str, Tensor]:
    _, explained = job.shard.explained(job.context)
    return _heatmaps(explained, job)


def _heatmaps(explained: Explained, job: Job) -> dict[str, Tensor]:
    memory = job.context.memory
    with memory_budget(memory) if memory else nullcontext():
        maps = pass_heatmaps(explained, job.work, seed=job.context.seed)
    # As they are kept: a score must not depend on whether its map was.
    return {name: values.to(device="cpu", dtype=torch.float32).contiguous() for name, values in maps.items()}


def _score(job: Job, store: ResultsStore) -> pd.DataFrame:
    maps = kept_heatmaps(store, job) if job.shard.keep else _fresh_heatmaps(job)
    questions, truths = job.shard.sample.load(), job.shard.ground_truths
    return _labelled({name: score_heatmaps(values, questions, truths) for name, values in maps.items()}, job)


def _compare(job: Job, exchange: Exchange, store: ResultsStore) -> pd.DataFrame:
    own, other = kept_heatmaps(store, job), _heatmaps(exchange.explained, job)
    kept, truths = list(exchange.kept), job.shard.ground_truths
    questions, pooling = job.shard.sample.load().take(kept), job.context.pooling
    tables = {
        name: compare_maps(own[name][kept], maps, questions, truths, pooling=pooling)
        for name, maps in other.items()
    }
    return _labelled(tables, job).assign(experiment=exchange.experiment)


def _labelled(tables: Mapping[str, pd.DataFrame], job: Job) -> pd.DataFrame:
    """Tables of the members below each other, with what they are of in every row."""
    table = pd.concat([part.assign(method=name) for name, part in tables.items()], ignore_index=True)
    return table.assign(
        data=job.shard.cell["data"],
        kind=job.shard.sample.kind,
        model=job.context.classifier.name,
        setting=setting_key(job.work),
        correct=job.shard.correct,
    )


def _cost(work: Pass) -> int:
    """Gradients per question, roughly."""
    counts = [value for name, value in work.options.items() if name in ("n_steps", "n_samples", "n_masks")]
    return max([1, *(int(count) for count in counts)])
