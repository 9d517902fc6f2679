"""What a run of the CLEVR-XAI benchmark asks, and in which pieces its questions are explained."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd

from heatcheck.benchmarks.clevr_xai_jobs import Context, Shard, make_shard
from heatcheck.benchmarks.clevr_xai_questions import (
    KINDS,
    MaskSource,
    Sample,
    answer_questions,
    choose_rows,
    open_questions,
)
from heatcheck.benchmarks.clevr_xai_settings import Settings
from heatcheck.benchmarks.heatmaps import weights_hash
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.models.registry import MODELS
from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.plugins import plugins_behind
from heatcheck.runtime.progress import progress
from heatcheck.runtime.seeds import content_ids
from heatcheck.runtime.store import ResultsStore

# Questions per cell: small enough that two processes end at about the same time.
SHARD = 32
N_SHOWN = 3
# What answers depend on: the models, and how they are asked.
_ANSWERING = ("models.catalog", "benchmarks.clevr_xai_questions")


class Run(NamedTuple):
    """What a run works with."""

    settings: Settings
    contexts: Mapping[Kind, Context]
    store: ResultsStore


def ask(kind: Kind, here: Run) -> tuple[Sample, pd.DataFrame]:
    """The questions of one kind that were drawn, and the model's answers to them."""
    settings = here.settings
    rows = choose_rows(
        open_questions(settings.data, kind).questions,
        settings.n_asked,
        seed=settings.seed,
        drop_exist_no=settings.drop_exist_no and kind == "complex",
    )
    masks = MaskSource(settings.masks, settings.first)
    sample = Sample(settings.data, kind, here.contexts[kind].classifier.size, masks, tuple(rows))
    parts = [sample.take(part) for part in _parts(range(len(rows)))]
    weights = weights_hash(here.contexts[kind].classifier.module)
    tables = [_answers(part, weights, here) for part in progress(parts, label=f"{kind} questions")]
    return sample, pd.concat(tables, ignore_index=True)


def _answers(sample: Sample, weights: str, here: Run) -> pd.DataFrame:
    questions, (classifier, device, *_) = sample.load(), here.contexts[sample.kind]
    cell = {
        "kind": "clevr-xai-answers",
        "code": [code_fingerprint(f"heatcheck.{name}") for name in _ANSWERING],
        "libraries": library_versions(),
        "model": classifier.name,
        "weights": weights,
        "questions": questions.ids,
        "texts": questions.texts,
        "answers": questions.answers.tolist(),
        "images": content_ids(questions.images),
        "masks": {name: content_ids(mask) for name, mask in questions.masks.items()},
        "first": sample.masks.first,
        "plugins": plugins_behind(MODELS.get(classifier.name)),
    }
    table = here.store.get(cell)
    if table is None:
        table = answer_questions(questions, classifier, device, first=sample.masks.first)
        here.store.put(cell, table)
    return table


def make_shards(sample: Sample, answers: pd.DataFrame, here: Run) -> list[Shard]:
    """Questions in pieces: those that are shown and compared first, then the rest; last the wrong ones.

    The maps of the first and of the last are kept.
    """
    settings = here.settings
    right = np.flatnonzero(answers["correct"]).tolist()[: settings.n_questions(sample.kind)]
    wrong = np.flatnonzero(~answers["correct"]).tolist()[: settings.n_wrong]
    # Control experiments and variants are about questions of one kind.
    compared = sample.kind == next(kind for kind in KINDS if settings.n_questions(kind))
    n_kept = max(settings.n_controls, N_SHOWN) if compared else N_SHOWN
    edges = [0, n_kept, max(n_kept, settings.n_variants if compared else 0), len(right)]
    pieces = [(part, True, start == 0) for start, end in pairwise(edges) for part in _parts(right[start:end])]
    pieces += [(part, False, True) for part in _parts(wrong)]
    targets, masks = answers["target"].to_numpy(), settings.masks_of(sample.kind)
    context = here.contexts[sample.kind]
    return [
        make_shard(sample.take(part), targets[part], masks, context, correct=correct, keep=keep)
        for part, correct, keep in pieces
    ]


def _parts(places: Sequence[int]) -> list[list[int]]:
    return [list(places[start : start + SHARD]) for start in range(0, len(places), SHARD)]
