"""Tiny archives laid out exactly like the releases of CLEVR-XAI and CLEVR v1.0."""

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.data.clevr.recorded import GOLDEN, SHAPE, from_runs, recorded_owners

from heatcheck.data.clevr.mask_images import paint_masks
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.release import Release
from heatcheck.data.clevr.vocabulary import answer_text

COLORS: list[list[int]] = GOLDEN["mask_image"]["srgb8"]
SCENES = "CLEVR-XAI_scenes.json"
SIMPLE_FILE, COMPLEX_FILE = "CLEVR-XAI_simple_questions.json", "CLEVR-XAI_complex_questions.json"
INFO = {"date": "1/1/2022", "version": "1.0", "split": "unique", "license": "CC-BY 4.0"}
_CASES = {case["name"]: case for case in GOLDEN["ground_truth_programs"]}
# Number, scene and text of each question, with the recorded program that answers it.
SIMPLE = [
    (2, 0, "What is the small yellow thing made of?", "simple_material"),
    (10, 7, "What is the material of the tiny yellow object?", "simple_material"),
]
COMPLEX = [
    (9, 7, "How many cyan things are there?", "count_empty"),
    (10, 0, "Are there more cyan things than balls?", "compare_integer_both"),
    (2, 0, "Is anything else of the same size as the yellow thing?", "same_size"),
    (100, 7, "What shape is it?", "two_hop"),
]
STORED = {
    "simple": {"single_object": "single_object (last filter, intended)", "all_objects": "all_objects"},
    "complex": {
        "unique": "unique",
        "unique_firstnonempty": "unique_first_nonempty",
        "union": "union",
        "all_objects": "all_objects",
    },
}


def scene(index: int) -> dict[str, Any]:
    """The recorded scene under another number."""
    name = f"CLEVR_unique_{index:06d}.png"
    entry: dict[str, Any] = copy.deepcopy(GOLDEN["scene"]["scene"])
    return entry | {"image_index": index, "image_filename": name, "mask_filename": name}


def question(number: int, image: int, text: str, case: str) -> dict[str, Any]:
    """A question in the dialect of CLEVR-XAI."""
    program: list[dict[str, Any]] = copy.deepcopy(_CASES[case]["program"])
    name = f"CLEVR_unique_{image:06d}"
    return {
        "question_index": number,
        "split": "unique",
        "image_filename": f"{name}.png",
        "image_index": image,
        "image": name,
        "question": text,
        "answer": program[-1]["_output"],
        "program": program,
        "template_filename": "made_by_hand.json",
        "question_family_index": 3,
    }


def by_number(release: Release, number: int) -> Question:
    """The question of a release with ``question_index`` ``number``."""
    return next(item for item in release.questions if item.index == number)


def write_json(path: Path, key: str, entries: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"info": INFO, key: entries}), encoding="utf-8")


def rewrite(path: Path, key: str, place: int, **changes: Any) -> None:
    """Change fields of one entry of a list in a JSON file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content[key][place] |= changes
    path.write_text(json.dumps(content), encoding="utf-8")


def write_images(root: Path, index: int, size: tuple[int, int] = (480, 320)) -> None:
    """Image, of noise, and mask image of scene ``index``; ``size`` is the image's width and height."""
    for kind in ("images", "masks"):
        (root / kind).mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(index).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    name = f"CLEVR_unique_{index:06d}.png"
    Image.fromarray(noise).save(root / "images" / name, compress_level=1)
    owners = recorded_owners() if index == 0 else recorded_owners()[::-1]
    painted = paint_masks(owners, COLORS)
    opaque = np.full((*SHAPE, 1), 255, dtype=np.uint8)
    Image.fromarray(np.concatenate([painted, opaque], axis=2)).save(root / "masks" / name)


def write_stored(root: Path) -> None:
    """Ground truths of the questions about scene 0 as recorded, where they are recorded in full."""
    for kind, questions in (("simple", SIMPLE), ("complex", COMPLEX)):
        for folder_end, name in STORED[kind].items():
            folder = root / f"ground_truth_{kind}_questions_{folder_end}"
            folder.mkdir(parents=True, exist_ok=True)
            found = {
                n: _CASES[case]["ground_truths"].get(name, {}) for n, image, _, case in questions if not image
            }
            runs = {n: item["runs_128x128"] for n, item in found.items() if "runs_128x128" in item}
            for number, rows in runs.items():
                np.save(folder / f"{number}.npy", from_runs(rows))
            counts = {str(n): {"target_objects": len(found[n]["objects"]), "total_objects": 6} for n in runs}
            (folder / "stats.json").write_text(json.dumps(counts), encoding="utf-8")


def write_release(
    root: Path, images_root: Path | None = None, *, size: tuple[int, int] = (480, 320), stored: bool = True
) -> Path:
    """An archive of two scenes, two simple and four complex questions; returns ``root``."""
    write_json(root / SCENES, "scenes", [scene(0), scene(7)])
    write_json(root / SIMPLE_FILE, "questions", [question(*item) for item in SIMPLE])
    write_json(root / COMPLEX_FILE, "questions", [question(*item) for item in COMPLEX])
    for index in (0, 7):
        write_images(images_root or root, index, size)
    if stored:
        write_stored(root)
    return root


def write_clevr(root: Path, split: str = "train") -> Path:
    """CLEVR v1.0 with the same scenes and questions in its own dialect; returns ``root``."""
    write_json(
        root / "scenes" / f"CLEVR_{split}_scenes.json",
        "scenes",
        [_plain_scene(index, split) for index in (0, 7)],
    )
    entries = [_plain_question(question(*item), split) for item in SIMPLE + COMPLEX]
    entries = [entry | {"question_index": number} for number, entry in enumerate(entries)]
    write_json(root / "questions" / f"CLEVR_{split}_questions.json", "questions", entries)
    folder = root / "images" / split
    folder.mkdir(parents=True)
    for index in (0, 7):
        noise = np.random.default_rng(index).integers(0, 256, (32, 48, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"CLEVR_{split}_{index:06d}.png")
    return root


def _plain_scene(index: int, split: str) -> dict[str, Any]:
    entry = scene(index) | {"image_filename": f"CLEVR_{split}_{index:06d}.png", "split": split}
    del entry["mask_filename"]
    for item in entry["objects"]:
        del item["mask_color"]
    return entry


def _plain_question(entry: dict[str, Any], split: str) -> dict[str, Any]:
    program = [
        {"function": node["type"], "inputs": node["inputs"], "value_inputs": node["value_inputs"]}
        for node in entry["program"]
    ]
    kept = {key: entry[key] for key in ("image_index", "question", "question_family_index")}
    name = f"CLEVR_{split}_{entry['image_index']:06d}.png"
    answer = answer_text(entry["answer"])
    return kept | {"split": split, "image_filename": name, "answer": answer, "program": program}
