"""Statistics of visual questions and their ground truths."""

from pathlib import Path

import numpy as np
import pytest
from tests.data.clevr.tiny_release import write_release

from heatcheck.benchmarks.clevr_statistics import MEASURES, clevr_statistics
from heatcheck.data.clevr.batch import load_questions
from heatcheck.data.clevr.release import Release, open_release


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return open_release(write_release(tmp_path_factory.mktemp("release"), stored=False), kind="complex")


def test_the_table_has_one_row_per_ground_truth_and_the_columns_of_the_paper(release: Release) -> None:
    table = clevr_statistics(release)
    assert table["ground_truth"].tolist() == list(release.ground_truths)
    assert set(table["data"]) == {"clevr-xai"}
    assert set(table["kind"]) == {"complex"}
    ends = ("min", "max", "mean", "std")
    expected = {f"{name}_{end}" for name in MEASURES for end in ends}
    assert set(table.columns) == {"data", "kind", "ground_truth", "questions"} | expected


def test_numbers_are_those_of_the_masks_objects_and_programs(release: Release) -> None:
    table = clevr_statistics(release, size=64).set_index("ground_truth")
    batch = load_questions(release, "complex", 4, 64)
    for name in release.ground_truths:
        known = batch.defined[name]
        rows = known.nonzero().flatten().tolist()
        values = {
            "pixels": batch.masks[name][known].sum(dim=(1, 2)).numpy(),
            "objects": np.array([len(release.targets(name, batch.questions[row]) or ()) for row in rows]),
            "length": np.array([len(batch.questions[row].program) for row in rows]),
        }
        found = table.loc[name]
        assert found["questions"] == len(rows)
        for measure, numbers in values.items():
            expected = [
                numbers.min(),
                numbers.max(),
                numbers.mean(),
                np.sqrt(np.mean((numbers - numbers.mean()) ** 2)),
            ]
            ends = ("min", "max", "mean", "std")
            assert [found[f"{measure}_{end}"] for end in ends] == pytest.approx(expected)


def test_pixels_of_recorded_programs_are_the_recorded_ones(release: Release) -> None:
    table = clevr_statistics(release, ["union"], [0, 2])
    # same_size has 640 pixels, compare_integer_both 1652.
    assert table[["questions", "pixels_min", "pixels_max", "pixels_mean"]].to_numpy().tolist() == [
        [2, 640, 1652, 1146]
    ]


def test_a_ground_truth_that_no_question_has_is_counted_as_such(release: Release) -> None:
    table = clevr_statistics(release, ["unique"], [1, 2])
    assert table["questions"].tolist() == [0]
    assert table[[f"{name}_mean" for name in MEASURES]].isna().all(axis=None)


def test_stored_masks_count_where_there_are_any(tmp_path: Path) -> None:
    release = open_release(write_release(tmp_path), kind="complex")
    stored = clevr_statistics(release, ["union"])
    computed = clevr_statistics(release, ["union"], source="computed")
    assert (stored["questions"].item(), computed["questions"].item()) == (1, 3)
