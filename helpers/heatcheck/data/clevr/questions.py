"""What a question is: its text, its answer, and the program that finds it."""

from dataclasses import dataclass

from heatcheck.data.clevr.program import Output, Program


@dataclass(frozen=True)
class Question:
    """One question about one scene.

    Attributes:
        index: Running number, also the name of its ground-truth files.
        image: ``image_index`` of the scene it asks about.
        text: The question as it is read.
        answer: One of ``vocabulary.ANSWERS``.
        program: The steps that answer it.
        outputs: What each step returns on the scene.
        template_file: File of the template it was made from, as ``two_hop.json``.
        family: Number of the template: within its file, or over all files where the release counts so.
    """

    index: int
    image: int
    text: str
    answer: str
    program: Program
    outputs: tuple[Output, ...]
    template_file: str
    family: int
