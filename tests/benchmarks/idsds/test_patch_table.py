"""Which patches a table deletes, and what its cells depend on."""

import dataclasses

import pytest
import torch

from heatcheck.benchmarks.idsds import Results
from heatcheck.benchmarks.patch_table import (
    Sets,
    TableKey,
    deleted_sets,
    deletion_value,
    load_table,
    table_cell,
    table_tasks,
)
from heatcheck.models.registry import Normalization
from heatcheck.runtime.store import ResultsStore, cell_key


def test_single_deletions_lack_one_patch_each() -> None:
    found = deleted_sets(TableKey(2, "zero"))
    assert found.tolist() == [[False] * 4, *(torch.eye(4) > 0).tolist()]


def test_sets_have_their_sizes_and_are_the_same_every_time() -> None:
    key = TableKey(4, "zero", Sets((1, 3, 16), 5, 7))
    found = deleted_sets(key)
    assert found.sum(1).tolist() == [0, *[1] * 5, *[3] * 5, *[16] * 5]
    assert torch.equal(found, deleted_sets(key))
    assert not torch.equal(found, deleted_sets(key._replace(sets=Sets((1, 3, 16), 5, 8))))


def test_sets_larger_than_the_grid_are_refused() -> None:
    with pytest.raises(ValueError, match="1 to 4 patches"):
        deleted_sets(TableKey(2, "zero", Sets((5,), 1, 0)))


def test_anything_that_changes_answers_changes_the_cell(results: Results) -> None:
    (shard,) = results.subjects[0].studied.explained.shards()
    (other,) = results.subjects[1].studied.explained.shards()
    key = TableKey(4, "zero")
    classifier = dataclasses.replace(shard.classifier, normalization=Normalization((0.4,) * 3, (0.25,) * 3))
    cells = [
        table_cell(shard, key, 0),
        table_cell(shard, key, 1),
        table_cell(shard, key._replace(grid=2), 0),
        table_cell(shard, key._replace(fill="random"), 0),
        table_cell(shard, key._replace(sets=Sets((2,), 3, 0)), 0),
        table_cell(other, key, 0),
        table_cell(shard._replace(images=shard.images + 1), key, 0),
        table_cell(shard._replace(images=shard.images.double()), key, 0),
        table_cell(
            shard._replace(data=dataclasses.replace(shard.data, targets=shard.data.targets * 0)), key, 0
        ),
        table_cell(shard._replace(classifier=classifier), key, 0),
    ]
    assert len({cell_key(cell) for cell in cells}) == len(cells)


def test_a_table_that_was_not_filled_is_refused(results: Results, tmp_path: str) -> None:
    explained = results.subjects[0].studied.explained
    with pytest.raises(LookupError, match="run its tasks"):
        load_table(ResultsStore(tmp_path), explained, TableKey(4, "zero"), 0)


def test_random_values_are_uniform_in_the_space_of_the_inputs(results: Results) -> None:
    explained = results.subjects[0].studied.explained
    values = deletion_value(explained, "random", 3).substrate(explained.images)
    assert -1 <= float(values.min()) < -0.99
    assert 0.99 < float(values.max()) < 1
    assert abs(float(values.mean())) < 0.01
    other = deletion_value(explained, "random", 4).substrate(explained.images)
    assert not torch.equal(values, other)


def test_random_values_are_seeded_per_image(results: Results, tmp_path: str) -> None:
    explained = results.subjects[0].studied.explained
    key, store = TableKey(4, "random"), ResultsStore(tmp_path)
    expected = results.subjects[0].tables[key].responses.logits
    rows = [7, 2]
    some = explained._replace(data=explained.data.take(rows), images=explained.images[rows])
    for task in table_tasks(some, key, seed=0, memory=None):
        store.put(task.cell, task.compute(store))
    found = load_table(store, some, key, 0)
    torch.testing.assert_close(found.responses.logits, expected[rows], rtol=0, atol=1e-5)
    assert found.ids == tuple(explained.data.ids[row] for row in rows)
