"""Words and answers as numbers."""

import pytest
import torch

from heatcheck.data.clevr.vocabulary import (
    ANSWERS,
    N_TOKENS,
    PADDING,
    UNKNOWN,
    WORDS,
    answer_index,
    answer_text,
    encode,
    tokenize,
)


def test_there_are_28_answers_in_the_documented_order() -> None:
    assert ANSWERS[:13] == ("yes", "no", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10")
    assert ANSWERS[13:16] == ("cube", "sphere", "cylinder")
    assert ANSWERS[16:24] == ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
    assert ANSWERS[24:] == ("rubber", "metal", "large", "small")
    assert [answer_index(answer) for answer in ANSWERS] == list(range(28))


def test_there_are_80_words_in_alphabetical_order() -> None:
    assert len(WORDS) == len(set(WORDS)) == 80
    assert list(WORDS) == sorted(WORDS)
    assert N_TOKENS == 82


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "yes"), (False, "no"), (1, "1"), (0, "0"), (10, "10"), ("cube", "cube"), ("7", "7")],
)
def test_yes_and_no_are_not_taken_for_numbers(value: str | bool | int, text: str) -> None:
    assert answer_text(value) == text


def test_an_unknown_answer_is_named() -> None:
    with pytest.raises(ValueError, match=r"'11' is no answer; the 28 answers are yes, no, 0"):
        answer_index("11")


def test_words_are_numbered_from_two_on_whatever_case_and_punctuation() -> None:
    first, last = WORDS.index("what") + 2, WORDS.index("it") + 2
    assert tokenize("What is IT?")[0::2] == (first, last)
    assert tokenize("  is,it; ") == (UNKNOWN,)  # deleted, not replaced: the words run together
    assert tokenize("it; Frobnicated it!") == (last, UNKNOWN, last)
    assert tokenize(" ".join(WORDS)) == tuple(range(2, 82))
    assert tokenize("?") == ()


def test_questions_are_padded_at_the_end_to_the_longest() -> None:
    encoded = encode(["a an and", "yellow", "a a"])
    assert encoded.tokens.tolist() == [[2, 3, 4], [81, PADDING, PADDING], [2, 2, PADDING]]
    assert encoded.lengths.tolist() == [3, 1, 2]
    assert encoded.tokens.dtype == encoded.lengths.dtype == torch.int64


def test_no_questions_make_an_empty_batch() -> None:
    encoded = encode([])
    assert encoded.tokens.shape == (0, 0)
    assert encoded.lengths.shape == (0,)


def test_a_question_without_a_word_is_refused() -> None:
    with pytest.raises(ValueError, match=r"question 1 has no word: ' \?'"):
        encode(["what", " ?"])
