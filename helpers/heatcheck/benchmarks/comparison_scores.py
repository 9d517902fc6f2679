"""From the results of each benchmark to the columns of the comparison."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch

from heatcheck.attribution.registry import is_control
from heatcheck.benchmarks import clevr_xai, clevr_xai_tables, deletion, deletion_tables, idsds, roar
from heatcheck.benchmarks.clevr_xai_questions import KINDS
from heatcheck.benchmarks.clevr_xai_scores import MASS, RANK
from heatcheck.benchmarks.comparison_columns import METRICS, UNSIGNED, Array, Column
from heatcheck.benchmarks.deletion import make_jobs
from heatcheck.benchmarks.heatmaps import cell_heatmaps
from heatcheck.benchmarks.idsds_scores import PROTOCOLS, Score, all_scores, find_scores
from heatcheck.benchmarks.roar_settings import recipe_of
from heatcheck.benchmarks.roar_tables import RANDOM, retrained
from heatcheck.metrics.map_facts import centrality, concentration, roughness
from heatcheck.metrics.pooling import pool
from heatcheck.metrics.retraining_curves import area_between, whole_curves
from heatcheck.runtime.store import ResultsStore


class Asked(NamedTuple):
    """All methods of a comparison, and why a benchmark cannot take some of them."""

    methods: Sequence[str]
    refused: Mapping[str, str]


UNDEFINED = "no image gives it a score"
_CLEVR = {"mass": MASS, "rank": RANK}
_DELETION = {
    "deletion": "deletion",
    "insertion": "insertion",
    "localization-error": deletion_tables.LOCALIZATION,
    "saliency-metric": "saliency-metric",
}
_SINGLE = {"idsds": PROTOCOLS["tuned"], "sds": PROTOCOLS["original"], "ids": "IDS ascending"}
FACTS = {"roughness": roughness, "concentration": concentration, "centrality": centrality}


def clevr_columns(results: clevr_xai.Results, asked: Asked) -> Iterator[Column]:
    """Mass and rank accuracy on the first mask of each kind of questions; each method in its best pooling."""
    settings = results.settings
    for kind in (kind for kind in KINDS if settings.n_questions(kind)):
        truth = settings.masks_of(kind)[0]
        for key, metric in _CLEVR.items():
            cut = clevr_xai_tables.Cut(kind, truth, metric)
            rows = clevr_xai_tables.select(results.scores, cut)
            values = clevr_xai_tables.pooled_values(rows, clevr_xai_tables.best_poolings(rows))
            yield _column(key, settings.model_of(kind), values, asked, settings.seed)


def deletion_columns(results: deletion.Results, asked: Asked) -> Iterator[Column]:
    """Deletion and insertion with the first fill, box error and saliency metric."""
    settings = results.settings
    scores = deletion_tables.all_scores(results)
    for key, name in _DELETION.items():
        if any(score.metric == name for score in scores):
            # In the order of the heatmaps, whose facts are resampled with the scores.
            values = deletion_tables.find_score(scores, settings.counted, name).values
            values = values.reindex(list(results.counted.data.ids))
            yield _column(key, settings.counted_model, values, asked, settings.seed)


def idsds_columns(results: idsds.Results, asked: Asked) -> Iterator[Column]:
    """IDSDS of the tuned classifier, SDS and IDS of the original one: of raw maps, then of absolute ones."""
    settings = results.settings
    (model,) = settings.models
    scores = all_scores(results)
    for key, protocol in _SINGLE.items():
        found = find_scores(scores, protocol=protocol)
        headline = [score for score in found if key == "ids" or score.condition.output == "logit"]
        if headline:
            column = _column(key, model, _values(headline[0], "raw"), asked, settings.seed)
            absolute = _column(key, model, _values(headline[0], "abs"), asked, settings.seed)
            yield from (column, dataclasses.replace(absolute, metric=UNSIGNED[key]))


def roar_columns(results: roar.Results, asked: Asked) -> Iterator[Column]:
    """Areas over the random ranking of ROAR and KAR, image by image and run by run."""
    settings = results.settings
    tables = retrained(results)
    for key, curves in (("roar", tables.roar), ("kar", tables.kar)):
        if not curves:
            continue
        names = list(curves)
        # (M, P, S, N) -> (S, N, M, P)
        bits = np.stack(list(curves.values())).transpose(2, 3, 0, 1).astype(np.float64)
        whole = tables.whole[..., None].astype(np.float64)  # (S, N, 1)
        nothing = np.broadcast_to(tables.majority[None, :, None], whole.shape).astype(np.float64)
        first, last = (whole, nothing) if key == "roar" else (nothing, whole)
        shape = bits.shape[:-1]
        places, drawn = whole_curves(
            bits, np.broadcast_to(first, shape), np.broadcast_to(last, shape), settings.percents
        )
        random = drawn[:, :, [names.index(RANDOM)]]
        pair = (random, drawn) if key == "roar" else (drawn, random)
        areas = area_between(places, *np.broadcast_arrays(*pair))  # (S, N, M)
        values = np.full((*areas.shape[:2], len(asked.methods)), np.nan)
        for place, name in enumerate(names):
            values[..., list(asked.methods).index(name)] = areas[..., place]
        network, images = recipe_of(settings).network, tuple(results.data.images.test.ids)
        methods, refused = tuple(asked.methods), dict(asked.refused)
        yield Column(METRICS[key], network, methods, images, values, refused, settings.seed)


def map_facts(results: deletion.Results, store: ResultsStore) -> pd.DataFrame:
    """Facts about each method's heatmap of every counted image, pooled as for deletion.

    Returns:
        Columns ``method, is_control, image`` and those of ``FACTS``.
    """
    parts = []
    for job in make_jobs(results.settings, results.counted):
        cell = deletion.heatmap_cell(job, results.settings)
        maps = pool(
            cell_heatmaps(store, job.explained, job.request, cell),
            deletion.pooling_of(results.settings, job.request.name),
        )
        found = {name: fact(torch.as_tensor(maps)).numpy() for name, fact in FACTS.items()}
        fixed = {"method": job.request.name, "is_control": is_control(job.request.name)}
        parts.append(pd.DataFrame({**fixed, "image": list(job.explained.data.ids), **found}))
    return pd.concat(parts, ignore_index=True)


def _values(score: Score, transform: str) -> pd.DataFrame:
    """Images by methods, of maps transformed in one way."""
    chosen = [column for column in score.columns if column[1] == transform]
    return score.values[chosen].set_axis([method for method, _ in chosen], axis=1)


def _column(key: str, classifier: str, values: pd.DataFrame, asked: Asked, seed: int) -> Column:
    table: Array = values.reindex(columns=list(asked.methods)).to_numpy(dtype=np.float64)
    scored = np.logical_not(np.isnan(table).all(0))
    empty = {name: UNDEFINED for name, known in zip(asked.methods, scored, strict=True) if not known}
    images = tuple(map(str, values.index))
    why = {**empty, **asked.refused}
    return Column(METRICS[key], classifier, tuple(asked.methods), images, table[None], why, seed)
