"""Questions in words."""

import re
from collections import Counter

import numpy as np
import pytest

from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES, SIMPLE_TEMPLATES, Template
from heatcheck.data.clevr.text import Phrase, realize
from heatcheck.data.clevr.vocabulary import UNKNOWN, tokenize

BY_NAME = {f"{item.file}-{item.index}": item for item in (*SIMPLE_TEMPLATES, *COMPLEX_TEMPLATES)}
FULL = Phrase("left", "small", "red", "metal", "cube")


def texts(name: str, *phrases: Phrase, n: int = 400) -> Counter[str]:
    generator = np.random.default_rng(0)
    return Counter(realize(BY_NAME[name], phrases, generator) for _ in range(n))


@pytest.mark.parametrize("template", BY_NAME.values(), ids=BY_NAME)
def test_a_question_is_one_sentence_of_known_words(template: Template) -> None:
    generator = np.random.default_rng(1)
    for phrase in (FULL, Phrase("front"), Phrase("behind", None, None, "rubber", "sphere")):
        text = realize(template, (phrase,) * template.n_phrases, generator)
        assert re.fullmatch(r"[A-Z][a-z]*( [a-z]+;?)+\?", text)
        assert UNKNOWN not in tokenize(text)


def test_all_synonyms_occur_and_none_is_preferred() -> None:
    found = texts("unique_query.json-1", Phrase(None, "large", "red", "metal", "sphere"), n=3000)
    words = Counter(word for text, n in found.items() for word in text[:-1].lower().split() for _ in range(n))
    for synonyms in (("large", "big"), ("metallic", "metal", "shiny"), ("sphere", "ball")):
        shares = [words[word] / 3000 for word in synonyms]
        assert sum(shares) == pytest.approx(1)
        assert shares == pytest.approx([1 / len(synonyms)] * len(synonyms), abs=0.04)


def test_an_object_without_a_named_shape_is_a_thing_or_an_object() -> None:
    found = texts("zero_hop.json-1", Phrase())
    assert set(found) == {
        text.format(noun)
        for noun in ("thing", "object")
        for text in ("Are there any {}s?", "Are any {}s visible?", "Is there a {}?", "Is a {} visible?")
        if not (noun == "object" and " a " in text)
    } | {"Is there an object?", "Is an object visible?"}


def test_optional_words_are_kept_half_of_the_time() -> None:
    found = texts("one_hop.json-5", Phrase(None, None, "red"), Phrase("behind", None, "blue"), n=2000)
    kept = sum(n for text, n in found.items() if "that is behind" in text)
    assert kept / 2000 == pytest.approx(0.5, abs=0.04)


def test_relations_have_three_wordings_to_the_sides_and_one_in_depth() -> None:
    wordings = {
        "left": {"left of", "to the left of", "on the left side of"},
        "right": {"right of", "to the right of", "on the right side of"},
        "behind": {"behind"},
        "front": {"in front of"},
    }
    for relation, expected in wordings.items():
        found = texts(
            "two_hop.json-2", Phrase(shape="cylinder"), Phrase("behind", shape="sphere"), Phrase(relation)
        )
        said = {re.search(r"(?:thing|object) (?:that is )?(.*?) the (?:sphere|ball)", text) for text in found}
        assert {match[1] for match in said if match} == expected


@pytest.mark.parametrize("name", ["same_relate.json-8", "same_relate.json-12", "same_relate.json-16"])
@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (Phrase(None, None, "red"), Phrase(None, None, "blue"), False),
        (Phrase(None, None, "red"), Phrase(None, None, "red"), True),
        (Phrase(None, None, "red"), Phrase(), True),
        # A thing may be a cube, so it must be another one, although CLEVR would leave the word out.
        (Phrase(None, None, "red", None, "cube"), Phrase(None, None, None, "metal"), True),
        (Phrase(None, None, None, None, "cube"), Phrase(None, None, None, None, "sphere"), False),
    ],
)
def test_other_is_said_unless_no_object_fits_both_phrases(
    name: str, one: Phrase, other: Phrase, *, said: bool
) -> None:
    for text in texts(name, one, other):
        assert bool(re.search(r"\b(an)?other\b", text)) is said


@pytest.mark.parametrize("index", range(8))
def test_questions_about_any_other_thing_always_say_so(index: int) -> None:
    for text in texts(f"same_relate.json-{index}", Phrase(None, None, "red", None, "cube")):
        assert re.search(r"\b(other|else)\b", text)


def test_the_same_generator_gives_the_same_words_and_every_text_takes_equally_many_numbers() -> None:
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    template = BY_NAME["three_hop.json-1"]
    assert realize(template, (FULL,) * 4, one) == realize(template, (FULL,) * 4, other)
    realize(template, (Phrase("front"),) * 4, one)
    realize(template, (FULL,) * 4, other)
    assert one.random() == other.random()
