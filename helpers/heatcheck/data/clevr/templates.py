"""Templates of questions: the 4 simple ones of CLEVR-XAI and the 90 of CLEVR.

Programs, the order of their nodes and their constraints are those of the generators (Johnson et al. 2017;
Arras et al. 2022), because ground truths depend on them; one constraint is put right, see ``_comparison``.
The wording is in ``template_texts``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from heatcheck.data.clevr import template_texts as texts
from heatcheck.data.clevr.program import ATTRIBUTES

# Steps that stand for several nodes: an optional relation, filters, and what is done with the objects found.
_SHORT = {
    "F": "filter",
    "FU": "filter_unique",
    "FC": "filter_count",
    "FE": "filter_exist",
    "RF": "relate_filter",
    "RFU": "relate_filter_unique",
    "RFC": "relate_filter_count",
    "RFE": "relate_filter_exist",
}
_BINARY = ("union", "intersect", "equal_", "less_than", "greater_than")
_STEP = re.compile(r"(?P<name>[A-Za-z_]+)(?P<phrase>\d*)(:(?P<source>\d+))?")
_COMPARISONS = ("equal_integer", "less_than", "greater_than")


@dataclass(frozen=True)
class Step:
    """One node of a template; it may stand for several nodes of a program.

    Attributes:
        function: A function of programs, or ``[relate_]filter[_unique|_count|_exist]``.
        inputs: Places of the steps whose outputs it takes.
        phrase: Number of the phrase that gives its literals, from 1; 0 when it has none.
    """

    function: str
    inputs: tuple[int, ...]
    phrase: int


@dataclass(frozen=True)
class Template:
    """A form of questions.

    Attributes:
        file: Name of its file in CLEVR's layout.
        index: Its number within that file.
        steps: Its program.
        patterns: Its texts, one of which is chosen; ``template_texts`` says how they are written.
        silent: Phrases and attributes they may not name.
        differ: Pairs of steps whose outputs may not be equal.
    """

    file: str
    index: int
    steps: tuple[Step, ...]
    patterns: tuple[str, ...]
    silent: frozenset[tuple[int, str]]
    differ: tuple[tuple[int, int], ...]

    @property
    def n_phrases(self) -> int:
        """Number of phrases, the numbers 1 to it."""
        return max(step.phrase for step in self.steps)


class _Form(NamedTuple):
    """A template before it has its place in a file; ``program`` is read by ``_steps``."""

    program: str
    patterns: texts.Patterns
    silent: tuple[tuple[int, str], ...] = ()
    differ: tuple[tuple[int, int], ...] = ()


def _steps(notation: str) -> tuple[Step, ...]:
    """Steps of a program written in short.

    ``RFU2`` is ``relate_filter_unique`` with the words of phrase 2. A step takes the latest output that no
    step has taken yet, or the two latest if it needs two; ``query_size:1`` takes that of step 1 instead.
    """
    steps: list[Step] = []
    free: list[int] = []
    for place, match in enumerate(_STEP.finditer(notation)):
        function = _SHORT.get(match["name"], match["name"])
        n_inputs = 0 if function == "scene" else 2 if function.startswith(_BINARY) else 1
        inputs = (int(match["source"]),) if match["source"] else tuple(free[len(free) - n_inputs :])
        free = [*(source for source in free if source not in inputs), place]
        steps.append(Step(function, inputs, int(match["phrase"] or 0)))
    return tuple(steps)


def _zero_hop() -> list[_Form]:
    queries = [
        _Form(f"scene FU1 query_{name}", texts.query(name, "{1}"), ((1, name),))
        for name in ("shape", "material", "color", "size")
    ]
    return [_Form("scene FC1", texts.COUNT), _Form("scene FE1", texts.EXIST), *queries]


def _hops(n_hops: int, queries: tuple[str, ...]) -> list[_Form]:
    """Chains of ``n_hops`` relations: count and existence at their end, and queries in the order given."""
    last = n_hops + 1
    start = "scene FU1 " + "".join(f"RFU{number} " for number in range(2, last))
    before, named = texts.related(*range(n_hops, 0, -1)), texts.related(*range(last, 0, -1))
    return [
        _Form(f"{start}RFC{last}", texts.count_related(last, before)),
        _Form(f"{start}RFE{last}", texts.exist_related(last, before)),
        *(
            _Form(f"{start}RFU{last} query_{name}", texts.query(name, named), ((last, name),))
            for name in queries
        ),
    ]


def _compare_integer() -> list[_Form]:
    branches = (
        ("scene FC1 scene FC2", "{1s}", "{2s}", ((1, 3),)),
        ("scene FU1 RFC2 scene FC3", texts.related(2, 1, plural=True), "{3s}", ()),
        (
            "scene FU1 RFC2 scene FU3 RFC4",
            texts.related(2, 1, plural=True),
            texts.related(4, 3, plural=True),
            ((1, 4),),
        ),
    )
    return [
        _Form(f"{program} {function}", texts.compare_numbers(function, one, other), (), differ)
        for program, one, other, differ in branches
        for function in _COMPARISONS
    ]


def _comparison() -> list[_Form]:
    """Comparisons of two objects, each named directly or by a relation.

    The compared attribute is named of neither. CLEVR's template 4 forbids it for the wrong object and so may
    give the second size away ("... the same size as the small ball"); here it follows the rule of the others.
    """
    forms = [
        _Form(
            f"scene FU1 scene FU2 query_{name}:1 query_{name}:3 equal_{name}"
            if name in ("size", "color")
            else f"scene FU1 query_{name} scene FU2 query_{name} equal_{name}",
            texts.compare(name, "{1}", "{2}"),
            ((1, name), (2, name)),
            ((1, 3),) if name in ("size", "color") else ((1, 4),),
        )
        for name in ATTRIBUTES
    ]
    sides = (
        ("scene FU1 RFU2 {} scene FU3 {}", texts.related(2, 1), "{3}", (2, 3), (2, 5)),
        ("scene FU1 {} scene FU2 RFU3 {}", "{1}", texts.related(3, 2), (1, 3), (1, 5)),
        ("scene FU1 RFU2 {} scene FU3 RFU4 {}", texts.related(2, 1), texts.related(4, 3), (2, 4), (2, 6)),
    )
    for name in ATTRIBUTES:
        for program, one, other, compared, steps in sides:
            nodes = f"{program} equal_{name}".format(f"query_{name}", f"query_{name}")
            silent = tuple((phrase, name) for phrase in compared)
            forms.append(_Form(nodes, texts.compare(name, one, other), silent, (steps,)))
    return forms


def _same_relate() -> list[_Form]:
    def silent(*phrases: int, name: str) -> tuple[tuple[int, str], ...]:
        return tuple((phrase, name) for phrase in phrases)

    queried = {
        "size": ("color", "material", "shape"),
        "color": ("size", "material", "shape"),
        "material": ("size", "color", "shape"),
        "shape": ("size", "color", "material"),
    }
    one, both = (1,), (1, 2)
    kinds = (
        ("exist", texts.same_exist, one),
        ("count", texts.same_count, one),
        ("FE2", texts.same_exist_kind, both),
        ("FC2", texts.same_count_kind, both),
    )
    forms = [
        _Form(f"scene FU1 same_{name} {end}", wording(name), silent(*phrases, name=name))
        for end, wording, phrases in kinds
        for name in ATTRIBUTES
    ]
    for name, asked in queried.items():
        forms += [
            _Form(
                f"scene FU1 same_{name} FU2 query_{other}",
                texts.same_query(name, other),
                (*silent(*both, name=name), (2, other)),
            )
            for other in asked
        ]
    return forms


def _single_and() -> list[_Form]:
    start = "scene FU1 relate1 scene FU2 relate2 intersect"
    queries = [
        _Form(f"{start} FU3 query_{name}", texts.query(name, texts.BOTH), ((3, name),), ((2, 5),))
        for name in ATTRIBUTES
    ]
    return [_Form(f"{start} FC3", texts.COUNT_BOTH), *queries]


def _single_or() -> list[_Form]:
    nouns = ("things", "objects")

    def kind(name: str, start: str = "scene F1 scene F2", differ: tuple[int, int] = (1, 3)) -> _Form:
        patterns = texts.count_either("{1s}", "{2s}", ("{3s}",))
        return _Form(f"{start} union filter_{name}3 count", patterns, ((1, name), (2, name)), (differ,))

    def sides(program: str, one: str, other: str) -> _Form:
        return _Form(f"{program} union count", texts.count_either(one, other, nouns))

    first, second = texts.related(2, 1, plural=True), texts.related(3, 2, plural=True)
    return [
        _Form("scene F1 scene F2 union count", texts.count_either("{1s}", "{2s}", nouns), differ=((1, 3),)),
        kind("size"),
        kind("color"),
        sides("scene FU1 RF2 scene FU3 RF4", first, texts.related(4, 3, plural=True)),
        kind("material"),
        kind("shape", "scene scene F1:0 F2:1", (2, 3)),
        sides("scene FU1 RF2 scene F3", first, "{3s}"),
        sides("scene F1 scene FU2 RF3", "{1s}", second),
    ]


def _simple() -> list[_Form]:
    return [
        _Form(f"scene FU1 query_{name}", patterns, ((1, name),)) for name, patterns in texts.SIMPLE.items()
    ]


def _templates(file: str, forms: Iterable[_Form]) -> tuple[Template, ...]:
    return tuple(
        Template(file, index, _steps(form.program), form.patterns, frozenset(form.silent), form.differ)
        for index, form in enumerate(forms)
    )


SIMPLE_TEMPLATES: tuple[Template, ...] = _templates("unique_query.json", _simple())
COMPLEX_TEMPLATES: tuple[Template, ...] = (
    *_templates("compare_integer.json", _compare_integer()),
    *_templates("comparison.json", _comparison()),
    *_templates("one_hop.json", _hops(1, ("size", "color", "material", "shape"))),
    *_templates("same_relate.json", _same_relate()),
    *_templates("single_and.json", _single_and()),
    *_templates("single_or.json", _single_or()),
    *_templates("three_hop.json", _hops(3, ("size", "shape", "color", "material"))),
    *_templates("two_hop.json", _hops(2, ("size", "color", "material", "shape"))),
    *_templates("zero_hop.json", _zero_hop()),
)
