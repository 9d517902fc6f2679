"""Balanced answers: which ones are open, by counts so far."""

import pytest

from heatcheck.data.clevr.balance import open_answers, possible_answers
from heatcheck.data.clevr.templates import COMPLEX_TEMPLATES, SIMPLE_TEMPLATES

BY_NAME = {f"{item.file}-{item.index}": item for item in (*SIMPLE_TEMPLATES, *COMPLEX_TEMPLATES)}
EXIST, COUNT, SHAPE = (
    BY_NAME[name] for name in ("zero_hop.json-1", "zero_hop.json-0", "unique_query.json-0")
)


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("unique_query.json-1", ("rubber", "metal")),
        ("zero_hop.json-0", tuple(map(str, range(11)))),
        ("single_or.json-1", tuple(map(str, range(11)))),
        ("same_relate.json-0", ("yes", "no")),
        ("compare_integer.json-4", ("yes", "no")),
        ("comparison.json-9", ("yes", "no")),
    ],
)
def test_answers_are_those_of_the_last_function(name: str, answers: tuple[str, ...]) -> None:
    assert possible_answers(BY_NAME[name]) == answers


@pytest.mark.parametrize(
    ("counts", "closed"),
    [
        ({}, set()),
        ({"yes": 1}, {"yes"}),
        ({"yes": 1, "no": 1}, set()),
        ({"yes": 11, "no": 10}, set()),  # 11 <= 1.1 * 10
        ({"yes": 12, "no": 10}, {"yes"}),
        ({"yes": 26, "no": 30}, {"no"}),
    ],
)
def test_an_answer_closes_when_it_leads_the_second_by_over_a_tenth(
    counts: dict[str, int], closed: set[str]
) -> None:
    assert open_answers(EXIST, counts) == {"yes", "no"} - closed


@pytest.mark.parametrize(
    ("counts", "closed"),
    [
        ({"0": 25, "1": 25, "2": 25}, set()),  # 5 times a median that counts as 5
        ({"0": 26, "1": 26, "2": 25}, {"0", "1"}),
        ({"0": 26, "1": 26, **{str(n): 6 for n in range(2, 11)}}, set()),  # median 6
        ({"0": 31, "1": 31, **{str(n): 6 for n in range(2, 11)}}, {"0", "1"}),
    ],
)
def test_an_answer_closes_when_it_leads_the_median_five_times(
    counts: dict[str, int], closed: set[str]
) -> None:
    assert open_answers(COUNT, counts) == set(possible_answers(COUNT)) - closed


def test_the_median_of_an_even_number_of_answers_is_the_upper_one() -> None:
    # Sorted 0, 0, 0, 0, 6, 6, 30, 30: at place 4 stands 6, so 30 = 5 * 6 is still open.
    colors = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
    counts = dict(zip(colors, (0, 0, 0, 0, 6, 6, 30, 30), strict=True))
    assert "yellow" in open_answers(BY_NAME["unique_query.json-2"], counts)
    counts["purple"], counts["brown"] = 5, 5
    assert "yellow" not in open_answers(BY_NAME["unique_query.json-2"], counts)


def test_numbers_that_have_to_differ_are_never_equal() -> None:
    assert open_answers(BY_NAME["compare_integer.json-0"], {}) == {"no"}
    assert open_answers(BY_NAME["compare_integer.json-0"], {"no": 1}) == frozenset()
    for name in (
        "compare_integer.json-1",
        "compare_integer.json-6",
        "comparison.json-0",
        "comparison.json-15",
    ):
        assert open_answers(BY_NAME[name], {}) == {"yes", "no"}
