"""Own data sets in the layout of CLEVR-XAI's release: scenes, images, mask images and questions."""

import json
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import joblib

from heatcheck.data.clevr.exchange import write_ground_truths
from heatcheck.data.clevr.generate import BLOCK
from heatcheck.data.clevr.making_parts import (
    KINDS,
    PARTS,
    PICTURES,
    Recipe,
    make_pictures,
    make_questions,
    questions_part,
    read_lines,
    scenes_part,
)
from heatcheck.data.clevr.release import SCENES, open_release, questions_file
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.runtime.files import write_whole
from heatcheck.runtime.fingerprint import code_fingerprint
from heatcheck.runtime.grid import usable_cores
from heatcheck.runtime.progress import progress

RECIPE = "recipe.json"
FOLDERS = ("images", "masks", PARTS)
_LICENSE = "Apache-2.0"


def make_clevr(
    folder: Path | str,
    n_scenes: int,
    seed: int,
    *,
    split: str = "unique",
    image_size: int | tuple[int, int] = 128,
    first: int = 0,
    per_image: int = 10,
    ground_truths: bool = False,
    workers: int = 0,
) -> Path:
    """Folder of a data set that ``release.open_release`` opens, made where it is not there yet.

    Every file is a function of the arguments, whatever the number of processes and however often the work was
    stopped: finished parts are not made again. Answers are balanced within blocks of 250 scenes.

    Args:
        folder: New or empty, or left by an earlier call with the same arguments.
        n_scenes: Number of scenes, at least 1.
        seed: Names the series of scenes, images and questions.
        split: Part of the file names.
        image_size: Side of square images, or rows and columns; the view is always CLEVR's, squashed where the
            shape is another. Masks are always 320 x 480.
        first: ``image_index`` of the first scene; it is scene ``first`` of ``scenes.sample_scene``.
        per_image: Complex questions per scene, 1 to 90.
        ground_truths: Also write the masks of the published ground truths at 128 x 128, as the release has
            them; without, they are computed when asked for.
        workers: Processes; 0 is one per core.

    Raises:
        ValueError: An argument is out of range, or the folder holds something else.
    """
    size = (image_size, image_size) if isinstance(image_size, int) else image_size
    recipe = Recipe(Path(folder), n_scenes, seed, first, split, size, per_image)
    _check(recipe, workers)
    key = {**recipe.key(), "shader": shader_hash(default_shader()), "code": code_fingerprint(__name__)}
    if not _is_whole(recipe, key):
        _make(recipe, key, workers)
    for kind in KINDS if ground_truths else ():
        write_ground_truths(open_release(recipe.folder, kind=kind), recipe.folder)
    return recipe.folder


def _make(recipe: Recipe, key: dict[str, Any], workers: int) -> None:
    recipe.folder.mkdir(parents=True, exist_ok=True)
    _write_recipe(recipe, key, whole=False)
    for name in FOLDERS:
        (recipe.folder / name).mkdir(exist_ok=True)
        for scratch in (recipe.folder / name).glob(".*"):  # of a process that was killed
            scratch.unlink(missing_ok=True)
    blocks = range(-(-recipe.n_scenes // BLOCK))
    pictures = [
        part for part in range(-(-recipe.n_scenes // PICTURES)) if not scenes_part(recipe, part).exists()
    ]
    _each(make_pictures, recipe, pictures, label="render scenes", workers=workers)
    unasked = [
        block for block in blocks if not all(questions_part(recipe, kind, block).exists() for kind in KINDS)
    ]
    _each(make_questions, recipe, unasked, label="ask questions", workers=workers)
    parts = range(-(-recipe.n_scenes // PICTURES))
    graphs = (graph for part in parts for graph in read_lines(scenes_part(recipe, part)))
    _write_list(recipe, SCENES, "scenes", graphs)
    for kind in KINDS:
        entries = (entry for block in blocks for entry in read_lines(questions_part(recipe, kind, block)))
        numbered = ({**entry, "question_index": number} for number, entry in enumerate(entries))
        _write_list(recipe, questions_file(kind), "questions", numbered)
    _write_recipe(recipe, key, whole=True)
    shutil.rmtree(recipe.folder / PARTS)


def _each(
    make: Callable[[Recipe, int], None], recipe: Recipe, parts: list[int], *, label: str, workers: int
) -> None:
    count = min(workers or usable_cores(), len(parts))
    done: Iterator[None]
    if count > 1:
        calls = (joblib.delayed(make)(recipe, part) for part in parts)
        done = joblib.Parallel(n_jobs=count, return_as="generator_unordered", batch_size=1)(calls)
    else:
        done = _serial(make, recipe, parts)
    for _ in progress(done, label=label, total=len(parts)):
        pass


def _serial(make: Callable[[Recipe, int], None], recipe: Recipe, parts: list[int]) -> Iterator[None]:
    for part in parts:
        make(recipe, part)
        yield


def _check(recipe: Recipe, workers: int) -> None:
    if recipe.n_scenes < 1 or recipe.first < 0 or workers < 0 or min(recipe.image_size) < 1:
        raise ValueError(
            "need at least 1 scene and 1 pixel, and first and workers not negative; got "
            f"n_scenes={recipe.n_scenes}, first={recipe.first}, image_size={recipe.image_size}, "
            f"workers={workers}"
        )
    if not 1 <= recipe.per_image <= len(COMPLEX_TEMPLATES):
        raise ValueError(f"per_image must be 1 to {len(COMPLEX_TEMPLATES)}, got {recipe.per_image}")
    if not recipe.split.isidentifier():
        raise ValueError(f"split {recipe.split!r} must be letters, digits and underscores: it names files")


def _is_whole(recipe: Recipe, key: dict[str, Any]) -> bool:
    """Whether all is made; an error if the folder belongs to something else."""
    path = recipe.folder / RECIPE
    if not path.is_file():
        if recipe.folder.exists() and any(recipe.folder.iterdir()):
            raise ValueError(f"{recipe.folder} is not empty; name a new folder")
        return False
    found = json.loads(path.read_text(encoding="utf-8"))
    whole = bool(found.pop("whole"))
    differing = sorted(name for name in key if found.get(name) != json.loads(json.dumps(key[name])))
    if differing:
        raise ValueError(
            f"{recipe.folder} holds a data set with other {', '.join(differing)}; name a new folder"
        )
    return whole


def _write_recipe(recipe: Recipe, key: dict[str, Any], *, whole: bool) -> None:
    content = json.dumps({**key, "whole": whole}, indent=2) + "\n"
    write_whole(recipe.folder / RECIPE, content.encode())


def _write_list(recipe: Recipe, name: str, field: str, entries: Iterable[dict[str, Any]]) -> None:
    """Write a JSON file of the release entry by entry: 100,000 questions would take much memory."""
    info = {"version": "1.0", "split": recipe.split, "license": _LICENSE}
    scratch = recipe.folder / PARTS / name
    with scratch.open("w", encoding="utf-8") as file:
        file.write(f'{{"info":{json.dumps(info)},"{field}":[')
        for place, entry in enumerate(entries):
            file.write(f"{',' if place else ''}\n{json.dumps(entry, separators=(',', ':'))}")
        file.write("\n]}\n")
    scratch.replace(recipe.folder / name)
