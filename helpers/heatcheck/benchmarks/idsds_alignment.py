"""Does fine-tuning with deletion bring deletion into the domain, and does it leave the model what it was?"""

from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial

import pandas as pd

from heatcheck.benchmarks.heatmaps import Explained, weights_hash
from heatcheck.benchmarks.idsds import Results, Studied, Subject, fill_tasks
from heatcheck.benchmarks.idsds_tables import difference_interval
from heatcheck.benchmarks.patch_table import PatchTable
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.metrics.scoring import ask_all, softmax_of
from heatcheck.runtime.fingerprint import code_fingerprint, library_versions
from heatcheck.runtime.grid import Task
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import content_ids
from heatcheck.runtime.store import ResultsStore


def alignment_table(results: Results, *, seed: int = 0) -> pd.DataFrame:
    """Top-1 accuracy intact and with one random patch deleted, before and after fine-tuning.

    Deletion is in the domain where the gap is small, and as small on test as on training images.

    Returns:
        One row per model, stage and split: columns ``model, stage, split, intact, deleted`` (mean over all
        patches), ``gap, low, high`` (intact minus deleted with its 95 % interval over images) and ``n``.
    """
    rows = []
    for subject in results.subjects:
        for split, table in (("test", subject.tables[results.headline]), ("train", subject.train)):
            if table is not None:
                fixed = {"model": subject.studied.model, "stage": subject.studied.stage, "split": split}
                rows.append({**fixed, **_gap(table, seed)})
    return pd.DataFrame(rows)


def difference_table(results: Results, store: ResultsStore, *, seed: int = 0) -> pd.DataFrame:
    """How far fine-tuning moved the softmax outputs of each model, on intact images.

    Args:
        results: Of a run with fine-tuned models.
        store: Where finished cells are found and kept.
        seed: Seed of the bootstrap.

    Returns:
        One row per model: columns ``model, n``; ``mad_all, mad_all_low, mad_all_high``, the absolute
        difference averaged over all classes and images; the same for ``mad_target``, that of the target
        alone; ``intact_change, intact_low, intact_high``, accuracy after minus before; and ``agreement``, the
        share of images with the same prediction.
    """
    rows = []
    for subject in results.subjects:
        tuned = results.find(subject.studied.model, "tuned")
        if subject.studied.stage == "original" and tuned is not None:
            rows.append(_differences(results, store, subject, tuned, seed))
    return pd.DataFrame(rows)


def difference_tasks(before: Studied, after: Studied, memory: str | None) -> list[Task]:
    """Tasks that compare the softmax outputs of a model before and after fine-tuning, one per shard.

    Their tables have a row per image with columns ``image, mad_all, mad_target``.
    """
    pairs = zip(before.explained.shards(), after.explained.shards(), strict=True)
    return [Task(_cell(*pair), partial(_compare, *pair, memory)) for pair in pairs]


def _differences(
    results: Results, store: ResultsStore, before: Subject, after: Subject, seed: int
) -> dict[str, float | int | str]:
    tasks = difference_tasks(before.studied, after.studied, results.settings.memory)
    fill_tasks(store, tasks, results.settings, "softmax before and after fine-tuning")
    parts = [table for task in tasks if (table := store.get(task.cell)) is not None]
    table = pd.concat(parts, ignore_index=True)
    values = table[["mad_all", "mad_target"]].to_numpy(dtype=float)
    mean, low, high = mean_intervals(values, seed=seed)
    row: dict[str, float | int | str] = {"model": before.studied.model, "n": len(table)}
    for place, name in enumerate(("mad_all", "mad_target")):
        ends = (float(part[place]) for part in (mean, low, high))
        row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
    first, second = (one.tables[results.headline] for one in (before, after))
    right = [one.correct[:, 0].double().numpy() for one in (second, first)]
    change = difference_interval(right[0], right[1], seed=seed)
    row |= dict(zip(("intact_change", "intact_low", "intact_high"), change[:3], strict=True))
    same = first.responses.top[:, 0] == second.responses.top[:, 0]
    return row | {"agreement": float(same.double().mean())}


def _gap(table: PatchTable, seed: int) -> Mapping[str, float | int]:
    correct = table.correct.double().numpy()
    intact, deleted = correct[:, 0], correct[:, 1:].mean(1)
    gap, low, high, n = difference_interval(intact, deleted, seed=seed)
    means = {"intact": float(intact.mean()), "deleted": float(deleted.mean())}
    return {**means, "gap": gap, "low": low, "high": high, "n": n}


def _cell(before: Explained, after: Explained) -> dict[str, object]:
    return {
        "kind": "softmax-differences",
        "code": [code_fingerprint(name) for name in (__name__, "heatcheck.models.catalog")],
        "libraries": library_versions(),
        "models": [side.classifier.name for side in (before, after)],
        "weights": [weights_hash(side.classifier.module) for side in (before, after)],
        "normalizations": [side.classifier.normalization._asdict() for side in (before, after)],
        "images": [list(content_ids(side.images)) for side in (before, after)],
        "targets": before.data.targets.tolist(),
    }


def _compare(before: Explained, after: Explained, memory: str | None, _store: ResultsStore) -> pd.DataFrame:
    with memory_budget(memory) if memory else nullcontext():
        first, second = (ask_all(softmax_of(side.classifier.module), side.images) for side in (before, after))
    moved = (second - first).abs().cpu()
    target = moved.gather(1, before.data.targets[:, None])[:, 0]
    columns = {"mad_all": moved.mean(1).numpy(), "mad_target": target.numpy()}
    return pd.DataFrame({"image": list(before.data.ids), **columns})
