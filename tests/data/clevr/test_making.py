"""Own data sets in the release's layout: complete, repeatable, resumable, and opened by the loader."""

import hashlib
import json
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

from heatcheck.data.clevr import making, making_parts
from heatcheck.data.clevr.ground_truth import RELEASED, Kind
from heatcheck.data.clevr.making import make_clevr
from heatcheck.data.clevr.making_parts import KINDS, Recipe, mask_colors
from heatcheck.data.clevr.mask_images import BACKGROUND
from heatcheck.data.clevr.release import folder_name, open_release
from heatcheck.data.preprocessing import read_image
from heatcheck.data.raycaster import render
from heatcheck.data.scenes import sample_scene

N, SEED, FIRST = 5, 3, 70


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two pictures in a part and four scenes in a block, so that few scenes make several of both."""
    for module in (making, making_parts):
        monkeypatch.setattr(module, "PICTURES", 2)
        monkeypatch.setattr(module, "BLOCK", 4)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        for module in (making, making_parts):
            patch.setattr(module, "PICTURES", 2)
            patch.setattr(module, "BLOCK", 4)
        return make(tmp_path_factory.mktemp("made") / "set", ground_truths=True)


def make(folder: Path, *, n: int = N, ground_truths: bool = False, workers: int = 1) -> Path:
    return make_clevr(
        folder, n, SEED, image_size=32, first=FIRST, per_image=3, ground_truths=ground_truths, workers=workers
    )


def hashes(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.relative_to(folder).parts[0].startswith("ground_truth")
    }


def test_the_folder_is_laid_out_like_the_release(made: Path) -> None:
    names = [f"CLEVR_unique_{index:06d}.png" for index in range(FIRST, FIRST + N)]
    assert sorted(path.name for path in (made / "images").iterdir()) == names
    assert sorted(path.name for path in (made / "masks").iterdir()) == names
    assert {path.name for path in made.iterdir()} == {
        "images",
        "masks",
        "recipe.json",
        "CLEVR-XAI_scenes.json",
        "CLEVR-XAI_simple_questions.json",
        "CLEVR-XAI_complex_questions.json",
        *(folder_name(kind, name) for kind, names in RELEASED.items() for name in names),
    }


def test_question_files_have_the_fields_of_the_release(made: Path) -> None:
    for kind in ("simple", "complex"):
        document = json.loads((made / f"CLEVR-XAI_{kind}_questions.json").read_text())
        assert document["info"]["split"] == "unique"
        questions = document["questions"]
        assert [question["question_index"] for question in questions] == list(range(len(questions)))
        for question in questions:
            assert set(question) == {
                *("question_index", "split", "image_filename", "image_index", "image", "question", "answer"),
                *("program", "template_filename", "question_family_index"),
            }
            assert question["image_filename"] == f"CLEVR_unique_{question['image_index']:06d}.png"
            assert question["image"] == Path(question["image_filename"]).stem
            assert type(question["answer"]) is type(question["program"][-1]["_output"])
            assert question["answer"] == question["program"][-1]["_output"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_loader_opens_it_and_finds_images_masks_and_ground_truths(made: Path, kind: Kind) -> None:
    release = open_release(made, kind=kind)
    assert set(release.scenes) == set(range(FIRST, FIRST + N))
    index = FIRST + N - 1
    scene = sample_scene(SEED, index)
    assert np.array_equal(release.pixels(index, 32), render(scene, 32).image)
    assert np.array_equal(release.owners(index), render(scene, (320, 480)).owner)
    assert set(release.stored) == set(release.ground_truths)
    for question in release.questions:
        for name in release.ground_truths:
            stored = release.ground_truth(name, question)
            computed = release.ground_truth(name, question, source="computed")
            assert (stored is None) == (computed is None)
            assert stored is None or computed is None or torch.equal(stored, computed)


def test_files_do_not_depend_on_the_number_of_workers(made: Path, tmp_path: Path) -> None:
    # Threads stand for processes, which would take seconds to start.
    with joblib.parallel_config(backend="threading"):
        other = make(tmp_path / "set", workers=3)
    assert hashes(other) == hashes(made)


def test_a_stopped_call_goes_on_and_ends_with_the_same_files(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    real = making_parts.make_pictures

    def stop_at_the_third(recipe: Recipe, part: int) -> None:
        started.append(part)
        if len(started) == 3:
            raise KeyboardInterrupt
        real(recipe, part)

    monkeypatch.setattr(making, "make_pictures", stop_at_the_third)
    with pytest.raises(KeyboardInterrupt):
        make(tmp_path / "set")
    assert not (tmp_path / "set" / "CLEVR-XAI_scenes.json").exists()
    # What a killed process was writing.
    (tmp_path / "set" / "images" / ".CLEVR_unique_000074.png.1").write_bytes(b"half")
    make(tmp_path / "set")
    assert started == [0, 1, 2, 2]
    assert hashes(tmp_path / "set") == hashes(made)


def test_a_whole_data_set_is_not_made_again(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "make_pictures", lambda *_: pytest.fail("made again"))
    before = hashes(made)
    assert make(made) == made
    assert hashes(made) == before


def test_a_smaller_set_is_the_beginning_of_a_larger_one(made: Path, tmp_path: Path) -> None:
    small = make(tmp_path / "set", n=1)
    for kind in KINDS:
        few, many = (open_release(folder, kind=kind).questions for folder in (small, made))
        assert few == many[: len(few)]
        assert {question.image for question in few} == {FIRST}


def test_a_folder_of_something_else_is_left_alone(made: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"is not empty; name a new folder"):
        make(tmp_path)
    with pytest.raises(ValueError, match=r"holds a data set with other n_scenes; name a new folder"):
        make(made, n=N + 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"n_scenes": 0}, "need at least 1 scene"),
        ({"first": -1}, "first=-1"),
        ({"workers": -1}, "workers=-1"),
        ({"image_size": 0}, r"image_size=\(0, 0\)"),
        ({"per_image": 0}, "per_image must be 1 to 90, got 0"),
        ({"per_image": 91}, "per_image must be 1 to 90, got 91"),
        ({"split": "a/b"}, "split 'a/b' must be"),
    ],
)
def test_arguments_out_of_range_are_refused(arguments: dict[str, object], says: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=says):
        make_clevr(tmp_path / "set", **{"n_scenes": 1, "seed": 0, **arguments})  # type: ignore[arg-type]
    assert not (tmp_path / "set").exists()


def test_mask_images_have_flat_colors_well_apart(made: Path) -> None:
    for index in range(FIRST, FIRST + N):
        n_objects = len(sample_scene(SEED, index).objects)
        colors = mask_colors(SEED, index, n_objects)
        pixels = np.asarray(read_image(made / "masks" / f"CLEVR_unique_{index:06d}.png"))
        assert pixels.shape == (320, 480, 3)
        expected = np.unique([BACKGROUND, *colors.tolist()], axis=0)
        assert np.array_equal(np.unique(pixels.reshape(-1, 3), axis=0), expected)
        apart = np.abs(expected[:, None] - expected[None]).max(axis=-1)
        assert apart[~np.eye(len(expected), dtype=bool)].min() >= 24


def test_the_view_may_have_the_aspect_of_the_release(tmp_path: Path) -> None:
    folder = make_clevr(tmp_path / "set", 1, SEED, image_size=(32, 48), per_image=1, workers=1)
    assert read_image(folder / "images" / "CLEVR_unique_000000.png").size == (48, 32)
