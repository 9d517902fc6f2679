"""Wording of the templates.

In a pattern, ``{1}`` stands for the words of phrase 1 ("small red cube"), ``{1s}`` for their plural, ``{R1}``
for its relation ("to the left of"), and ``[words]`` for words that are left out half of the time.
"""

from itertools import product

Patterns = tuple[str, ...]

# Questions after an attribute: of the object just introduced, and of one that is named.
_OF_IT = {
    "shape": ("what shape is it", "what is its shape"),
    "material": ("what material is it", "what is its material", "what is it made of"),
    "color": ("what color is it", "what is its color"),
    "size": ("what size is it", "what is its size", "how big is it"),
}
_OF_NAMED = {
    "shape": (
        "what shape is {x}",
        "what is the shape of {x}",
        "{x} has what shape",
        "{x} is what shape",
    ),
    "material": (
        "what material is {x}",
        "what is the material of {x}",
        "what is {x} made of",
        "{x} is made of what material",
    ),
    "color": (
        "what color is {x}",
        "what is the color of {x}",
        "{x} has what color",
        "{x} is what color",
    ),
    "size": (
        "what size is {x}",
        "what is the size of {x}",
        "how big is {x}",
        "{x} has what size",
        "{x} is what size",
    ),
}

# CLEVR-XAI's simple questions; the second wording after a shape stands twice, so it is twice as likely.
SIMPLE: dict[str, Patterns] = {
    "shape": (
        "what shape is the {1}",
        "what is the shape of the {1}",
        "what is the shape of the {1}",
        "the {1} has what shape",
        "there is a {1}; what shape is it",
        "the {1} is what shape",
    ),
    "material": ("what material is the {1}", "what is the material of the {1}", "what is the {1} made of"),
    "color": (
        "what color is the {1}",
        "what is the color of the {1}",
        "the {1} has what color",
        "the {1} is what color",
    ),
    "size": (
        "what size is the {1}",
        "what is the size of the {1}",
        "the {1} has what size",
        "the {1} is what size",
        "how big is the {1}",
    ),
}

COUNT: Patterns = ("how many {1s} are there", "how many {1s} are visible", "what number of {1s} are there")
EXIST: Patterns = ("are there any {1s}", "is there a {1}", "are any {1s} visible", "is a {1} visible")


def related(*numbers: int, plural: bool = False) -> str:
    """Words of the first phrase as it stands to the second, and that to the third, and so on."""
    first, *others = numbers
    words = f"{{{first}s}}" if plural else f"{{{first}}}"
    for number, other in zip(numbers, others, strict=False):
        that = "that are" if plural and number == first else "that is"
        words += f" [{that}] {{R{number}}} the {{{other}}}"
    return words


def query(attribute: str, words: str) -> Patterns:
    """Questions after an attribute of the only object that ``words`` name."""
    named = (pattern.format(x=f"the {words}") for pattern in _OF_NAMED[attribute])
    return (*named, *(f"there is a {words}; {rest}" for rest in _OF_IT[attribute]))


def count_related(number: int, words: str) -> Patterns:
    """How many objects of phrase ``number`` stand in its relation to the object that ``words`` name."""
    asked = (f"how many {{{number}s}} are {{R{number}}}", f"what number of {{{number}s}} are {{R{number}}}")
    return (*(f"{ask} the {words}" for ask in asked), *(f"there is a {words}; {ask} it" for ask in asked))


def exist_related(number: int, words: str) -> Patterns:
    """Whether an object of phrase ``number`` stands in its relation to the object that ``words`` name."""
    asked = (
        f"are there any {{{number}s}} [that are] {{R{number}}}",
        f"is there a {{{number}}} [that is] {{R{number}}}",
    )
    return (*(f"{ask} the {words}" for ask in asked), *(f"there is a {words}; {ask} it" for ask in asked))


def compare_numbers(function: str, one: str, other: str) -> Patterns:
    """Comparisons of the numbers of two kinds of objects, both in the plural."""

    def numbers(relation: str) -> str:
        return f"is the number of {one} {relation} the number of {other}"

    if function == "equal_integer":
        return (
            f"are there an equal number of {one} and {other}",
            f"are there the same number of {one} and {other}",
            numbers("the same as"),
            numbers("equal to"),
        )
    adjective, adverb = ("less", "fewer") if function == "less_than" else ("greater", "more")
    return (f"are there {adverb} {one} than {other}", numbers(f"{adjective} than"))


def compare(attribute: str, one: str, other: str) -> Patterns:
    """Whether two objects agree in an attribute."""
    made = "made of the same material" if attribute == "material" else f"the same {attribute}"
    return (
        f"do the {one} and the {other} have the same {attribute}",
        f"are the {one} and the {other} {made}",
        f"does the {one} have the same {attribute} as the {other}",
        f"is the {one} {made} as the {other}",
        f"is the {attribute} of the {one} the same as the {other}",
        f"is the {attribute} of the {one} equal to the {attribute} of the {other}",
        f"there is a {one}; does it have the same {attribute} as the {other}",
        f"there is a {one}; is its {attribute} the same as the {other}",
        f"there is a {one}; is it {made} as the {other}",
    )


def _alike(attribute: str) -> Patterns:
    """What objects are that agree in an attribute, singular and plural alike."""
    of = "made of the same material as" if attribute == "material" else f"of the same {attribute} as"
    return (f"{of} the {{1}}", f"the same {attribute} as the {{1}}")


def same_exist(attribute: str) -> Patterns:
    """Whether there is another object with the attribute of phrase 1."""
    alike = _alike(attribute)
    return (
        *(f"is there anything else that is {end}" for end in alike),
        f"is there anything else that has {alike[1]}",
        *(f"is there any other {noun} that is {end}" for noun, end in product(("thing", "object"), alike)),
        *(f"are there any other {noun} that have {alike[1]}" for noun in ("things", "objects")),
    )


def same_count(attribute: str) -> Patterns:
    """How many other objects have the attribute of phrase 1."""
    of, same = _alike(attribute)
    asked = tuple(f"{ask} other {noun}" for ask, noun in product(_HOW_MANY, ("things", "objects")))
    return (
        *(f"{ask} are there {of}" for ask in asked),
        *(f"{ask} {are} {same}" for ask, are in product(asked, ("are", "have"))),
    )


def same_exist_kind(attribute: str) -> Patterns:
    """Whether another object of phrase 2 has the attribute of phrase 1."""
    of, same = _alike(attribute)
    return (
        f"is there another {{2}} [that is] {of}",
        f"is there another {{2}} that has {same}",
        f"are there any other {{2s}} [that are] {of}",
        f"are there any other {{2s}} that have {same}",
    )


def same_count_kind(attribute: str) -> Patterns:
    """How many other objects of phrase 2 have the attribute of phrase 1."""
    of, same = _alike(attribute)
    return (
        *(f"{ask} other {{2s}} are there {of}" for ask in _HOW_MANY),
        *(f"{ask} other {{2s}} {are} {same}" for ask, are in product(_HOW_MANY, ("are", "have"))),
    )


def same_query(attribute: str, asked: str) -> Patterns:
    """Questions after an attribute of the other object of phrase 2 that has the attribute of phrase 1."""
    of, same = _alike(attribute)
    ends = (f"[that is] {of}", f"that is {same}", f"that has {same}")
    return (
        *(pattern.format(x=f"the other {{2}} {end}") for end in ends for pattern in _OF_NAMED[asked]),
        *(f"there is another {{2}} {end}; {rest}" for end in ends for rest in _OF_IT[asked]),
    )


BOTH = "{3} that is [both] {R1} the {1} and {R2} the {2}"  # the object of two relations
COUNT_BOTH: Patterns = (
    "how many {3s} are [both] {R1} the {1} and {R2} the {2}",
    "what number of {3s} are [both] {R1} the {1} and {R2} the {2}",
)
_HOW_MANY = ("how many", "what number of")


def count_either(one: str, other: str, nouns: Patterns) -> Patterns:
    """How many of ``nouns`` are of one kind or the other, both in the plural."""
    return tuple(f"{ask} {noun} are [either] {one} or {other}" for ask, noun in product(_HOW_MANY, nouns))
