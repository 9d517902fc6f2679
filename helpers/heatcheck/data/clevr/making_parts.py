"""Parts of a made data set: pictures of some scenes, questions about a block of them.

Each part is a function of the recipe and its number alone, and is written as a whole or not at all.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heatcheck.data.clevr.generate import BLOCK, complex_questions, simple_questions
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.data.clevr.mask_images import BACKGROUND, paint_masks, srgb_to_linear
from heatcheck.data.clevr.program import facts_of, write_program
from heatcheck.data.clevr.questions import Question
from heatcheck.data.geometry import camera_frame, visible
from heatcheck.data.raycaster import render
from heatcheck.data.scene_graph import scene_graph
from heatcheck.data.scenes import VIEW, bodies, sample_scene
from heatcheck.runtime.files import write_whole
from heatcheck.runtime.seeds import CounterGenerator

KINDS: tuple[Kind, ...] = ("simple", "complex")
PICTURES = 25  # scenes of one part; small, so that few scenes keep many processes busy
PARTS = "parts"  # folder of finished parts until the data set is whole
_COLOR_STREAM = 3  # after those of an image's scene and questions
_LEAST_CONTRAST = 24  # of 255 in one channel at least, between any two colors of a mask image
_WORDS = {"yes": True, "no": False}


@dataclass(frozen=True)
class Recipe:
    """All that a made data set depends on, and its folder.

    Attributes:
        folder: Where it goes.
        n_scenes: Number of scenes.
        seed: Names the series of scenes and questions.
        first: ``image_index`` of the first scene.
        split: Part of the file names.
        image_size: Rows and columns of images; masks always have 320 x 480.
        per_image: Complex questions per scene.
    """

    folder: Path
    n_scenes: int
    seed: int
    first: int
    split: str
    image_size: tuple[int, int]
    per_image: int

    def key(self) -> dict[str, Any]:
        """What the files depend on."""
        return {name: value for name, value in asdict(self).items() if name != "folder"}

    def numbers(self, part: int, size: int) -> range:
        """``image_index`` of the scenes in part ``part`` of ``size`` scenes."""
        start = self.first + part * size
        return range(start, min(start + size, self.first + self.n_scenes))


def make_pictures(recipe: Recipe, part: int) -> None:
    """Images, mask images and scene graphs of 25 scenes, in the recipe's folder."""
    graphs = [_make_scene(recipe, index) for index in recipe.numbers(part, PICTURES)]
    write_whole(scenes_part(recipe, part), _lines(graphs))


def make_questions(recipe: Recipe, block: int) -> None:
    """Questions about 250 scenes whose pictures are made; they are numbered later."""
    numbers = recipe.numbers(block, BLOCK)
    first, after = (numbers.start - recipe.first) // PICTURES, -(-(numbers.stop - recipe.first) // PICTURES)
    graphs = [graph for part in range(first, after) for graph in read_lines(scenes_part(recipe, part))]
    facts = [facts_of(graph) for graph in graphs]
    by_kind = {
        "simple": simple_questions(facts, seed=recipe.seed, first=numbers.start),
        "complex": complex_questions(
            facts, seed=recipe.seed, first=numbers.start, per_image=recipe.per_image
        ),
    }
    of_image = {graph["image_index"]: graph for graph in graphs}
    for kind, questions in by_kind.items():
        rows = [_question_entry(question, of_image[question.image]) for question in questions]
        write_whole(questions_part(recipe, kind, block), _lines(rows))


def scenes_part(recipe: Recipe, part: int) -> Path:
    """File of the scene graphs of 25 scenes."""
    return recipe.folder / PARTS / f"scenes-{part:06d}.jsonl"


def questions_part(recipe: Recipe, kind: str, block: int) -> Path:
    """File of the questions of one kind about 250 scenes."""
    return recipe.folder / PARTS / f"{kind}-{block:06d}.jsonl"


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Entries of a part."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def mask_colors(seed: int, index: int, n_objects: int) -> NDArray[np.uint8]:
    """Colors of a scene's objects in its mask image, ``(n_objects, 3)`` sRGB bytes, well apart."""
    generator = CounterGenerator(seed, (index,)).numpy(0, _COLOR_STREAM)
    colors = [np.array(BACKGROUND)]
    while len(colors) <= n_objects:
        color = generator.integers(256, size=3)
        if all(np.abs(color - other).max() >= _LEAST_CONTRAST for other in colors):
            colors.append(color)
    return np.array(colors[1:], dtype=np.uint8)


def _make_scene(recipe: Recipe, index: int) -> dict[str, Any]:
    """The scene graph, after image and mask image were written."""
    scene = sample_scene(recipe.seed, index)
    graph = scene_graph(scene, split=recipe.split)
    name = graph["image_filename"]
    owners, _ = visible(camera_frame(scene.camera), bodies(scene.objects), *VIEW)
    colors = mask_colors(recipe.seed, index, len(scene.objects))
    write_whole(recipe.folder / "images" / name, _png(render(scene, recipe.image_size).image))
    write_whole(recipe.folder / "masks" / name, _png(paint_masks(owners, colors)))
    for item, color in zip(graph["objects"], srgb_to_linear(colors).tolist(), strict=True):
        item["mask_color"] = color
    return {**graph, "mask_filename": name}


def _question_entry(question: Question, graph: Mapping[str, Any]) -> dict[str, Any]:
    """A question as CLEVR-XAI's files write it; ``question_index`` is filled in later."""
    answer = question.answer
    return {
        "question_index": question.index,
        "split": graph["split"],
        "image_filename": graph["image_filename"],
        "image_index": question.image,
        "image": Path(graph["image_filename"]).stem,
        "question": question.text,
        # Yes and no are truth values there, and counts numbers.
        "answer": int(answer) if answer.isdecimal() else _WORDS.get(answer, answer),
        "program": write_program(question.program, question.outputs),
        "template_filename": question.template_file,
        "question_family_index": question.family,
    }


def _lines(entries: Sequence[Mapping[str, Any]]) -> bytes:
    return "".join(f"{json.dumps(entry, separators=(',', ':'))}\n" for entry in entries).encode()


def _png(pixels: NDArray[np.uint8]) -> bytes:
    buffer = BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
