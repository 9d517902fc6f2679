"""Files of the published evaluation."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.data.clevr.tiny_release import write_release

from heatcheck.data.clevr.exchange import (
    read_heatmaps,
    read_masks,
    read_predictions,
    write_ground_truths,
    write_heatmaps,
    write_masks,
    write_predictions,
)
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.data.clevr.release import open_release
from heatcheck.data.clevr.stored_masks import list_masks, read_mask, read_target_counts


@pytest.mark.parametrize("shape", [(3, 3, 4, 5), (2, 1, 4, 4)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_heatmaps_are_one_array_per_question(
    tmp_path: Path, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    heatmaps = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=dtype)
    indices = [7, 100, 9][: shape[0]]
    write_heatmaps(tmp_path / "maps", indices, heatmaps)
    assert sorted(path.name for path in (tmp_path / "maps").iterdir()) == sorted(f"{n}.npy" for n in indices)
    assert torch.equal(read_heatmaps(tmp_path / "maps", indices), heatmaps)
    array = np.load(tmp_path / "maps" / "7.npy")
    assert array.shape == shape[1:]
    assert torch.equal(read_heatmaps(tmp_path / "maps", indices[::-1]), heatmaps.flip(0))


def test_half_precision_is_written_as_single(tmp_path: Path) -> None:
    heatmaps = torch.ones(1, 1, 2, 2, dtype=torch.bfloat16, requires_grad=True)
    write_heatmaps(tmp_path, [0], heatmaps)
    assert read_heatmaps(tmp_path, [0]).dtype == torch.float32
    assert read_heatmaps(tmp_path, []).shape[0] == 0


def test_masks_are_one_boolean_array_per_question_in_numerical_order(tmp_path: Path) -> None:
    masks = torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(1)) < 0.3
    write_masks(tmp_path, [10, 9, 100], masks)
    assert list_masks(tmp_path) == (9, 10, 100)
    assert torch.equal(read_masks(tmp_path, [10, 9, 100], size=8), masks)
    assert read_mask(tmp_path, 9, shape=None).dtype == np.bool_
    assert read_masks(tmp_path, []).shape == (0, 128, 128)


@pytest.mark.parametrize(
    ("indices", "heatmaps", "message"),
    [
        ([0], torch.zeros(1, 2, 2), "must be .* floating, got"),
        ([0], torch.zeros(1, 3, 2, 2, dtype=torch.int64), "must be .* floating, got"),
        ([0, 1], torch.zeros(1, 3, 2, 2), "1 arrays need as many different question_index, got 2"),
        ([4, 4], torch.zeros(2, 3, 2, 2), "got 1 different ones of 2"),
    ],
)
def test_heatmaps_that_no_reader_would_take_are_not_written(
    tmp_path: Path, indices: list[int], heatmaps: torch.Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        write_heatmaps(tmp_path / "maps", indices, heatmaps)
    assert not (tmp_path / "maps").exists()


def test_masks_must_be_boolean(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must be \(N, H, W\) bool"):
        write_masks(tmp_path, [0], torch.zeros(1, 4, 4))


def test_heatmaps_of_different_shapes_or_types_are_refused(tmp_path: Path) -> None:
    write_heatmaps(tmp_path, [0], torch.zeros(1, 3, 4, 4))
    write_heatmaps(tmp_path, [1], torch.zeros(1, 3, 5, 5))
    write_masks(tmp_path, [2], torch.zeros(1, 4, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"1.npy is \(3, 5, 5\) float32; .* \(3, 4, 4\)"):
        read_heatmaps(tmp_path, [0, 1])
    with pytest.raises(ValueError, match=r"2.npy is \(4, 4\) bool; needed are floating"):
        read_heatmaps(tmp_path, [2])
    with pytest.raises(FileNotFoundError, match=r"3.npy is missing"):
        read_heatmaps(tmp_path, [0, 3])
    with pytest.raises(ValueError, match=r"2.npy is \(4, 4\) bool; needed is \(128, 128\) bool"):
        read_masks(tmp_path, [2])


def test_predictions_are_written_as_question_files_write_answers(tmp_path: Path) -> None:
    answers = {100: "yes", 9: "no", 10: "1", 3: "cube"}
    write_predictions(tmp_path / "p.json", answers)
    written = json.loads((tmp_path / "p.json").read_text(encoding="utf-8"))
    assert [(entry["question_index"], type(entry["answer"])) for entry in written] == [
        (3, str),
        (9, bool),
        (10, int),
        (100, bool),
    ]
    assert read_predictions(tmp_path / "p.json") == answers
    assert list(read_predictions(tmp_path / "p.json")) == [3, 9, 10, 100]


def test_predictions_may_also_be_words(tmp_path: Path) -> None:
    entries = [{"question_index": 1, "answer": "yes"}, {"question_index": 0, "answer": "10"}]
    (tmp_path / "p.json").write_text(json.dumps(entries), encoding="utf-8")
    assert read_predictions(tmp_path / "p.json") == {0: "10", 1: "yes"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([{"question_index": 1, "answer": "wood"}], "'wood' is no answer"),
        ([{"question_index": 1}], "damaged"),
        ([1], "damaged"),
        ({"a": 1}, "damaged"),
        ([{"question_index": 1, "answer": "no"}] * 2, "answer 1 questions twice"),
    ],
)
def test_predictions_of_another_form_are_refused(tmp_path: Path, content: Any, message: str) -> None:
    (tmp_path / "p.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_predictions(tmp_path / "p.json")


def test_missing_predictions_and_unknown_answers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="are missing"):
        read_predictions(tmp_path / "p.json")
    with pytest.raises(ValueError, match="'wood' is no answer"):
        write_predictions(tmp_path / "p.json", {0: "wood"})


@pytest.mark.parametrize("kind", ["simple", "complex"])
def test_written_ground_truths_are_read_as_stored_ones(tmp_path: Path, kind: Kind) -> None:
    root = write_release(tmp_path / "release", stored=False)
    computed = open_release(root, kind=kind)
    assert computed.stored == {}
    write_ground_truths(computed, root)
    stored = open_release(root, kind=kind)
    assert set(stored.stored) == set(computed.ground_truths)
    for name in stored.ground_truths:
        defined = {item.index for item in computed.questions if computed.targets(name, item)}
        assert stored.stored[name] == defined
        for item in stored.questions:
            one, other = stored.ground_truth(name, item), computed.ground_truth(name, item)
            assert (one is None) == (other is None)
            assert one is None or other is None or torch.equal(one, other)


def test_counts_beside_the_masks_are_those_of_objects(tmp_path: Path) -> None:
    root = write_release(tmp_path / "release", stored=False)
    for workers in (1, 3):
        out = tmp_path / str(workers)
        write_ground_truths(open_release(root, kind="complex"), out, ["union"], workers=workers)
        folder = out / "ground_truth_complex_questions_union"
        assert read_target_counts(folder) == {2: (3, 6), 10: (4, 6), 100: (6, 6)}
        assert list_masks(folder) == (2, 10, 100)
    names = [path.relative_to(out) for path in sorted(out.rglob("*")) if path.is_file()]
    assert all((tmp_path / "1" / name).read_bytes() == (out / name).read_bytes() for name in names)
