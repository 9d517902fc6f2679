"""CLEVR v1.0 as it is downloaded."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data.clevr.tiny_release import COMPLEX, SIMPLE, rewrite, write_clevr

from heatcheck.data.clevr.clevr_v1 import open_clevr
from heatcheck.data.clevr.program import execute

QUESTIONS = Path("questions") / "CLEVR_train_questions.json"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_clevr(tmp_path / "CLEVR_v1.0")


def test_questions_are_read_without_executing_programs(root: Path) -> None:
    (root / "scenes" / "CLEVR_train_scenes.json").unlink()
    clevr = open_clevr(root)
    assert [(item.index, item.image, item.text) for item in clevr.questions] == [
        (number, *entry[1:3]) for number, entry in enumerate(SIMPLE + COMPLEX)
    ]
    assert [item.answer for item in clevr.questions] == ["metal", "metal", "0", "no", "yes", "sphere"]
    assert {item.outputs for item in clevr.questions} == {()}
    assert clevr.images == (0, 7)
    assert clevr.scenes == {}


def test_programs_are_executed_on_demand(root: Path) -> None:
    plain, executed = open_clevr(root), open_clevr(root, execute=True)
    assert [item.program for item in plain.questions] == [item.program for item in executed.questions]
    for item in executed.questions:
        assert item.outputs == execute(item.program, executed.scenes[item.image].facts)
    assert executed.scenes[0].mask_colors == ()


def test_the_folder_around_the_archive_will_do(root: Path) -> None:
    assert open_clevr(root.parent).questions == open_clevr(root).questions


def test_images_are_decoded_once_in_the_order_of_their_numbers(root: Path, tmp_path: Path) -> None:
    clevr = open_clevr(root)
    decoded = clevr.decoded(tmp_path / "decoded", 16, workers=1)
    assert decoded.ids == ("CLEVR_train_000000", "CLEVR_train_000007")
    for row, path in enumerate(clevr.paths):
        with Image.open(path) as image:
            np.testing.assert_array_equal(
                decoded.pixels[row], np.asarray(image.resize((16, 16), Image.Resampling.BILINEAR))
            )
    assert clevr.rows(range(6)) == [0, 1, 1, 0, 0, 1]
    assert [clevr.images[row] for row in clevr.rows([1, 0])] == [7, 0]
    assert clevr.decoded(tmp_path / "decoded", 16).path == decoded.path


def test_a_partial_archive_must_be_asked_for(root: Path) -> None:
    (root / "images" / "train" / "CLEVR_train_000007.png").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"1 of 2 images are missing .* such as CLEVR_train_000007.png"
    ):
        open_clevr(root)
    clevr = open_clevr(root, partial=True)
    assert clevr.images == (0,)
    assert {item.image for item in clevr.questions} == {0}
    (root / "images" / "train" / "CLEVR_train_000000.png").unlink()
    with pytest.raises(FileNotFoundError, match="2 of 2 images are missing"):
        open_clevr(root, partial=True)


def test_wrong_answers_are_found_when_programs_are_executed(root: Path) -> None:
    rewrite(root / QUESTIONS, "questions", 2, answer="5")
    assert open_clevr(root).questions[2].answer == "5"
    with pytest.raises(ValueError, match="question_index 2: the answer is '5', but the program returns 0"):
        open_clevr(root, execute=True)


def test_files_that_are_missing_or_damaged_are_named(root: Path) -> None:
    with pytest.raises(ValueError, match="unknown split 'test'; allowed: train, val"):
        open_clevr(root, "test")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match="folder images/val is missing"):
        open_clevr(root, "val")
    content = json.loads((root / QUESTIONS).read_text(encoding="utf-8"))
    del content["questions"][1]["program"]
    (root / QUESTIONS).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match="question_index 1: the field 'program' is missing"):
        open_clevr(root)
    (root / QUESTIONS).unlink()
    with pytest.raises(FileNotFoundError, match=r"CLEVR_train_questions.json is missing"):
        open_clevr(root)
    write_clevr(root.parent / "other", "val")
    assert len(open_clevr(root.parent / "other", "val").questions) == 6
