"""Archives in the layout of CLEVR-XAI that are not whole or contradict themselves: all are refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data.clevr.tiny_release import (
    COMPLEX,
    COMPLEX_FILE,
    SCENES,
    SIMPLE,
    SIMPLE_FILE,
    by_number,
    question,
    rewrite,
    scene,
    write_json,
)

from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.data.clevr.release import open_release

UNION = "ground_truth_complex_questions_union"


def spoil_outputs(root: Path) -> None:
    program = question(*SIMPLE[0])["program"]
    program[1]["_output"] = [1, 3]
    rewrite(root / SIMPLE_FILE, "questions", 0, program=program)


def spoil_truth_value(root: Path) -> None:
    # As a number the output would equal the program's.
    program = question(*COMPLEX[1])["program"]
    program[-1]["_output"] = 0
    rewrite(root / COMPLEX_FILE, "questions", 1, program=program)


def not_unique(root: Path) -> None:
    program = question(*SIMPLE[0])["program"]
    program[2]["value_inputs"] = ["cyan"]
    rewrite(root / SIMPLE_FILE, "questions", 0, program=program)


def truncate(name: str) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        text = (root / name).read_text(encoding="utf-8")
        (root / name).write_text(text[: len(text) // 2], encoding="utf-8")

    return spoil


def change(name: str, key: str, **changes: Any) -> Callable[[Path], None]:
    return lambda root: rewrite(root / name, key, 0, **changes)


def remove(pattern: str) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()

    return spoil


def without(name: str, key: str, field: str) -> Callable[[Path], None]:
    def spoil(root: Path) -> None:
        content = json.loads((root / name).read_text(encoding="utf-8"))
        del content[key][0][field]
        (root / name).write_text(json.dumps(content), encoding="utf-8")

    return spoil


def misnamed_mask(root: Path) -> None:
    np.save(root / UNION / "one.npy", np.zeros((128, 128), dtype=np.bool_))


COLORLESS = [
    {key: value for key, value in item.items() if key != "mask_color"} for item in scene(0)["objects"]
]
OVERBRIGHT = [item | {"mask_color": [0, 2, 0]} for item in scene(0)["objects"]]
NO_PROGRAM = {"program": "scene"}
UNFIT = {"relationships": {key: rows[:2] for key, rows in scene(0)["relationships"].items()}}
SPOILED: list[tuple[str, Kind, Callable[[Path], None], type[Exception], str]] = [
    ("no scenes", "simple", remove(SCENES), FileNotFoundError, f"{SCENES} is missing under"),
    ("no questions", "simple", remove(SIMPLE_FILE), FileNotFoundError, f"{SIMPLE_FILE} is missing"),
    ("no masks", "simple", remove("masks"), FileNotFoundError, "folders images and masks are missing"),
    ("no image", "simple", remove("images/*7.png"), FileNotFoundError, "such as CLEVR_unique_000007.png"),
    ("no mask", "simple", remove("masks/*0.png"), FileNotFoundError, "1 of 2 files are missing in .*masks"),
    ("cut scenes", "simple", truncate(SCENES), ValueError, f"{SCENES} is damaged or cut short"),
    ("cut questions", "simple", truncate(SIMPLE_FILE), ValueError, f"{SIMPLE_FILE} is damaged or cut short"),
    ("cut counts", "complex", truncate(f"{UNION}/stats.json"), ValueError, "stats.json is damaged"),
    ("lost mask", "simple", remove("*single_object/2.npy"), ValueError, "names others, the first at 2"),
    ("misnamed mask", "complex", misnamed_mask, ValueError, "one.npy; files are named by question_index"),
    (
        "no such scene",
        "simple",
        change(SIMPLE_FILE, "questions", image_index=5),
        ValueError,
        "question_index 2: there is no scene with image_index 5",
    ),
    (
        "other file",
        "simple",
        change(SIMPLE_FILE, "questions", image_filename="x.png"),
        ValueError,
        "image_filename is 'x.png', but that of scene 0 is 'CLEVR_unique_000000.png'",
    ),
    (
        "same number",
        "simple",
        change(SIMPLE_FILE, "questions", question_index=10),
        ValueError,
        "question_index 10: there is another question",
    ),
    (
        "same scene",
        "simple",
        change(SCENES, "scenes", image_index=7),
        ValueError,
        "another scene with image_index 7",
    ),
    (
        "wrong output",
        "simple",
        spoil_outputs,
        ValueError,
        r"question_index 2: node 1, filter_size, records the output \(1, 3\), but returns \(1, 3, 4\)",
    ),
    ("number for truth", "complex", spoil_truth_value, ValueError, "records the output 0, but returns False"),
    ("not unique", "simple", not_unique, ValueError, "question_index 2: .*exactly one object"),
    (
        "wrong answer",
        "simple",
        change(SIMPLE_FILE, "questions", answer="rubber"),
        ValueError,
        "the answer is 'rubber', but the program returns 'metal'",
    ),
    (
        "unknown answer",
        "simple",
        change(SIMPLE_FILE, "questions", answer="wood"),
        ValueError,
        "'wood' is no answer",
    ),
    (
        "list as answer",
        "simple",
        change(SIMPLE_FILE, "questions", answer=[1]),
        ValueError,
        r"the answer is \[1\]",
    ),
    ("no answer", "simple", without(SIMPLE_FILE, "questions", "answer"), ValueError, "the answer is None"),
    (
        "no text",
        "simple",
        without(SIMPLE_FILE, "questions", "question"),
        ValueError,
        "field 'question' is missing",
    ),
    (
        "no program",
        "simple",
        change(SIMPLE_FILE, "questions", **NO_PROGRAM),
        ValueError,
        "program is 'scene'",
    ),
    (
        "truth as number",
        "simple",
        change(SIMPLE_FILE, "questions", image_index=True),
        ValueError,
        "image_index is True; needed is int",
    ),
    (
        "no color",
        "simple",
        change(SCENES, "scenes", objects=COLORLESS),
        ValueError,
        "scene 0, object 0: the field 'mask_color' is missing",
    ),
    (
        "bad color",
        "simple",
        change(SCENES, "scenes", objects=OVERBRIGHT),
        ValueError,
        r"mask_color is \[0, 2, 0\]",
    ),
    ("few relations", "simple", change(SCENES, "scenes", **UNFIT), ValueError, "scene 0: relation"),
]


@pytest.mark.parametrize(
    ("kind", "spoil", "error", "message"), [case[1:] for case in SPOILED], ids=[case[0] for case in SPOILED]
)
def test_archives_that_are_not_whole_are_refused(
    own: Path, kind: Kind, spoil: Callable[[Path], None], error: type[Exception], message: str
) -> None:
    spoil(own)
    with pytest.raises(error, match=message):
        open_release(own, kind=kind)


def test_a_folder_without_scenes_and_an_unknown_kind_are_refused(tmp_path: Path, archive: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"folder .* is missing"):
        open_release(tmp_path / "nowhere", kind="simple")
    with pytest.raises(ValueError, match="unknown kind of questions 'hard'; allowed: simple, complex"):
        open_release(archive, kind="hard")  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError, match=r"looked in .*; unpack CLEVR-XAI_v1.0_images_masks.zip"):
        open_release(archive, tmp_path, kind="simple")


def test_empty_scene_files_and_folders_are_refused(own: Path) -> None:
    write_json(own / SCENES, "scenes", [])
    with pytest.raises(ValueError, match="holds no scenes"):
        open_release(own, kind="simple")
    (own / SCENES).unlink()
    (own / "scenes").mkdir()
    with pytest.raises(FileNotFoundError, match="no scene files"):
        open_release(own, kind="simple")
    for content, message in (("[1]", "holds list; needed is one scene"), ("{", "damaged or cut short")):
        (own / "scenes" / "0.json").write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            open_release(own, kind="simple")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            np.zeros((128, 128), dtype=np.float32),
            r"2.npy is \(128, 128\) float32; needed is \(128, 128\) bool",
        ),
        (np.zeros((320, 480), dtype=np.bool_), r"2.npy is \(320, 480\) bool"),
        (np.array([None]), "2.npy cannot be read"),
    ],
)
def test_stored_masks_of_another_kind_are_refused(own: Path, array: Any, message: str) -> None:
    release = open_release(own, kind="simple")
    np.save(own / "ground_truth_simple_questions_single_object" / "2.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        release.ground_truth("single", by_number(release, 2))


def test_a_cut_stored_mask_is_refused(own: Path) -> None:
    release = open_release(own, kind="simple")
    path = own / "ground_truth_simple_questions_single_object" / "2.npy"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(ValueError, match=r"2.npy cannot be read .*; it must be a whole .npy file"):
        release.ground_truth("single", by_number(release, 2))


def test_pictures_of_the_wrong_size_or_content_are_refused(own: Path) -> None:
    release = open_release(own, kind="simple")
    image, mask = own / "images" / "CLEVR_unique_000000.png", own / "masks" / "CLEVR_unique_000000.png"
    Image.new("RGB", (480, 321)).save(image)
    with pytest.raises(ValueError, match=r"images.*000000.png has 480 x 321 pixels; needed are 480 x 320"):
        release.image(0)
    Image.new("RGB", (320, 480)).save(mask)
    with pytest.raises(ValueError, match=r"masks.*000000.png has 320 x 480 pixels; needed are 480 x 320"):
        release.owners(0)
    with Image.open(own / "masks" / "CLEVR_unique_000007.png") as other:
        painted = np.array(other)
    painted[0, 0] = (1, 2, 3, 255)
    Image.fromarray(painted).save(mask)
    with pytest.raises(
        ValueError, match=r"masks.*000000.png: 1 colors belong to no object, such as \(1, 2, 3\)"
    ):
        release.owners(0)
    mask.write_bytes(mask.read_bytes()[:400])
    with pytest.raises(ValueError, match=r"000000.png cannot be read"):
        release.owners(0)


def test_unknown_scenes_ground_truths_and_sources_are_refused(archive: Path) -> None:
    release = open_release(archive, kind="simple")
    first = release.questions[0]
    with pytest.raises(ValueError, match="clevr-xai has no scene with image_index 3"):
        release.image(3)
    with pytest.raises(ValueError, match="unknown ground truth 'first'"):
        release.ground_truth("first", first)
    with pytest.raises(ValueError, match="unknown source 'cached'; allowed: stored, computed"):
        release.ground_truth("all", first, source="cached")  # type: ignore[arg-type]
