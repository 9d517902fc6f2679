"""Balanced answers: no answer of a template may run ahead of the others (Johnson et al. 2017, supplement)."""

from collections.abc import Mapping

from heatcheck.data.clevr.templates import Template
from heatcheck.data.scenes import ATTRIBUTES as VALUES

_LEAD, _MEDIANS, _LEAST_MEDIAN = 1.1, 5, 5


def possible_answers(template: Template) -> tuple[str, ...]:
    """Answers that questions of this form may have."""
    last = template.steps[-1].function
    if last.startswith("query_"):
        return VALUES[last.removeprefix("query_")]
    if last.endswith("count"):
        return tuple(str(number) for number in range(11))
    return ("yes", "no")


def open_answers(template: Template, counts: Mapping[str, int]) -> frozenset[str]:
    """Answers that a further question of this form may have.

    Closed is an answer given over 1.1 times as often as the second most frequent one, or over 5 times as
    often as the median of all, which counts as 5 at least. An answer that the template's own constraints
    exclude is never open.

    Args:
        template: The form.
        counts: How often each answer was given so far; answers left out were not.
    """
    ordered = sorted(counts.get(answer, 0) for answer in possible_answers(template))
    most = min(_LEAD * ordered[-2], _MEDIANS * max(_LEAST_MEDIAN, ordered[len(ordered) // 2]))
    last = template.steps[-1]
    unequal = last.function.startswith("equal_") and last.inputs in template.differ
    return frozenset(
        answer
        for answer in possible_answers(template)
        if counts.get(answer, 0) <= most and not (unequal and answer == "yes")
    )
