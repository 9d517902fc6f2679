"""Scenes and questions of CLEVR's and CLEVR-XAI's JSON files, checked as they are read."""

import json
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from heatcheck.data.clevr.json_items import json_items
from heatcheck.data.clevr.program import Output, Program, SceneFacts, execute, facts_of, read_program
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.vocabulary import answer_index, answer_text

Value = TypeVar("Value")


@dataclass(frozen=True)
class ArchivedScene:
    """A scene and the files that show it.

    Attributes:
        index: Its ``image_index``.
        image_file: Name of its image.
        mask_file: Name of its mask image; empty in CLEVR, which has none.
        facts: What programs can ask of it.
        mask_colors: Linear RGB in [0, 1] of each object in the mask image; empty in CLEVR.
    """

    index: int
    image_file: str
    mask_file: str
    facts: SceneFacts
    mask_colors: tuple[tuple[float, float, float], ...]


def read_scenes(path: Path, *, masks: bool = True) -> dict[int, ArchivedScene]:
    """Scenes by ``image_index``.

    Args:
        path: One JSON file of all scenes, or a folder with one JSON file per scene.
        masks: Scenes have mask images, and their objects the colors in them.

    Raises:
        FileNotFoundError: There is no such file, or no scene in the folder.
        ValueError: The file is damaged, a field is missing or bad, or a scene is there twice.
    """
    scenes: dict[int, ArchivedScene] = {}
    for where, entry in _scene_entries(path):
        scene = _read_scene(entry, where, masks)
        if scene.index in scenes:
            raise ValueError(f"{where}: there is another scene with image_index {scene.index}")
        scenes[scene.index] = scene
    if not scenes:
        raise ValueError(f"{path} holds no scenes")
    return scenes


def read_questions(path: Path, scenes: Mapping[int, ArchivedScene] | None) -> tuple[Question, ...]:
    """Questions sorted by ``question_index``.

    Programs are executed on their scenes. What a file records as outputs and answer must agree with that.

    Args:
        path: JSON file of questions, in the dialect of CLEVR or of CLEVR-XAI.
        scenes: Scenes by ``image_index``. Without them programs are not executed: outputs are those recorded,
            or none, and nothing is compared.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, a field is missing or bad, a scene is missing, or recorded outputs or
            the answer are wrong; the message names the question.
    """
    share = _sharing()
    questions: dict[int, Question] = {}
    for place, entry in enumerate(json_items(path, "questions")):
        index = field(entry, "question_index", int, f"{path}, question {place}")
        where = f"{path}, question_index {index}"
        if index in questions:
            raise ValueError(f"{where}: there is another question with this number")
        questions[index] = _read_question(entry, index, where, scenes, share)
    return tuple(questions[index] for index in sorted(questions))


def field(entry: Mapping[str, Any], name: str, kind: type[Value], where: str) -> Value:
    """``entry[name]``, which must be of type ``kind``; a truth value is no number.

    Raises:
        ValueError: The field is missing or of another type.
    """
    if name not in entry:
        raise ValueError(f"{where}: the field {name!r} is missing; there are {', '.join(entry)}")
    value = entry[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: {name} is {value!r}; needed is {kind.__name__}")
    return value


def _sharing() -> Callable[[Any], Any]:
    """A function that gives equal values of one type back as one object.

    The programs of a release have few different nodes, and many times as many places for them.
    """
    known: dict[tuple[type, Hashable], Hashable] = {}

    def share(value: Hashable) -> Hashable:
        # The type is part of the key because True equals 1.
        return known.setdefault((type(value), value), value)

    return share


def _scene_entries(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not path.is_dir():
        for place, entry in enumerate(json_items(path, "scenes")):
            yield f"{path}, scene {place}", entry
        return
    files = sorted(path.glob("*.json"))
    if not files:
        raise FileNotFoundError(f"no scene files *.json in {path}")
    for file in files:
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"file {file} is damaged or cut short: {error}; it must be JSON") from error
        if not isinstance(entry, dict):
            raise ValueError(f"file {file} holds {type(entry).__name__}; needed is one scene, an object")
        yield str(file), entry


def _read_scene(entry: Mapping[str, Any], where: str, masks: bool) -> ArchivedScene:
    index = field(entry, "image_index", int, where)
    image = field(entry, "image_filename", str, where)
    objects = field(entry, "objects", list, where)
    try:
        facts = facts_of(entry)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from error
    # The mask has the image's name; only the generator of CLEVR-XAI writes it down.
    mask = str(entry.get("mask_filename", image)) if masks else ""
    painted = objects if masks else []
    colors = tuple(_mask_color(item, f"{where}, object {row}") for row, item in enumerate(painted))
    return ArchivedScene(index, image, mask, facts, colors)


def _mask_color(item: Mapping[str, Any], where: str) -> tuple[float, float, float]:
    color = field(item, "mask_color", list, where)
    if len(color) != 3 or not all(isinstance(part, int | float) and 0 <= part <= 1 for part in color):
        raise ValueError(f"{where}: mask_color is {color}; needed are three numbers in [0, 1], linear RGB")
    red, green, blue = (float(part) for part in color)
    return red, green, blue


def _read_question(
    entry: Mapping[str, Any],
    index: int,
    where: str,
    scenes: Mapping[int, ArchivedScene] | None,
    share: Callable[[Any], Any],
) -> Question:
    image = field(entry, "image_index", int, where)
    program, recorded = read_program(field(entry, "program", list, where), where)
    try:
        answer = _read_answer(entry)
        outputs = recorded or ()
        if scenes is not None:
            outputs = _run(program, recorded, answer, _scene_of(entry, image, scenes))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    return Question(
        index,
        image,
        field(entry, "question", str, where),
        share(answer),
        share(tuple(share(node) for node in program)),
        tuple(share(output) for output in outputs),
        share(str(entry.get("template_filename", ""))),
        field(entry, "question_family_index", int, where),
    )


def _read_answer(entry: Mapping[str, Any]) -> str:
    value = entry.get("answer")
    if not isinstance(value, str | int):
        raise ValueError(f"the answer is {value!r}; needed is a word, a number or a truth value")
    answer = answer_text(value)
    answer_index(answer)
    return answer


def _scene_of(entry: Mapping[str, Any], image: int, scenes: Mapping[int, ArchivedScene]) -> ArchivedScene:
    if image not in scenes:
        raise ValueError(
            f"there is no scene with image_index {image}; scenes and questions must be of one set"
        )
    scene = scenes[image]
    named = entry.get("image_filename", scene.image_file)
    if named != scene.image_file:
        raise ValueError(
            f"image_filename is {named!r}, but that of scene {image} is {scene.image_file!r}; "
            "scenes and questions must be of one set"
        )
    return scene


def _run(
    program: Program, recorded: tuple[Output, ...] | None, answer: str, scene: ArchivedScene
) -> tuple[Output, ...]:
    """Outputs of the program, which those recorded and the answer must equal."""
    outputs = execute(program, scene.facts)
    for place, (ours, theirs) in enumerate(zip(outputs, recorded or outputs, strict=True)):
        # True equals 1 in Python, but is no count.
        if type(ours) is not type(theirs) or ours != theirs:
            raise ValueError(
                f"node {place}, {program[place].function}, records the output {theirs!r}, but returns "
                f"{ours!r} on scene {scene.index}; scenes and questions must be of one set"
            )
    found = outputs[-1]
    if isinstance(found, tuple) or answer_text(found) != answer:
        raise ValueError(
            f"the answer is {answer!r}, but the program returns {found!r} on scene {scene.index}"
        )
    return outputs
