"""Does a published finding hold here? Yes, no or undecided, computed from an interval."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from heatcheck.metrics.agreement import protocol_agreement
from heatcheck.metrics.resampling import mean_intervals

Answer = Literal["yes", "no", "undecided"]


class Finding(NamedTuple):
    """One statement and what the numbers say about it.

    Attributes:
        key: Short name, for substitutions.
        statement: The statement, in words.
        source: Key of its source in the bibliography, or ``this book``.
        answer: ``yes`` if the whole interval supports it, ``no`` if the whole interval contradicts it.
        quantity: What was measured.
        estimate: Its value.
        low: Lower end of its 95 % interval over images.
        high: Upper end.
        n: Number of images.
    """

    key: str
    statement: str
    source: str
    answer: Answer
    quantity: str
    estimate: float
    low: float
    high: float
    n: int


def decide(low: float, high: float, *, supports: Literal["positive", "negative"]) -> Answer:
    """Answer from an interval: it must lie wholly on one side of zero.

    Args:
        low: Lower end.
        high: Upper end; NaN in either end is undecided.
        supports: Which sign supports the statement.
    """
    if low > 0:
        return "yes" if supports == "positive" else "no"
    if high < 0:
        return "yes" if supports == "negative" else "no"
    return "undecided"


def compare(
    key: str,
    statement: str,
    values: pd.DataFrame,
    first: str,
    second: str,
    *,
    less: bool,
    source: str,
    quantity: str,
) -> Finding:
    """Finding that ``first`` has a smaller (``less``) or larger mean than ``second``, paired over images.

    Args:
        key: Short name.
        statement: The statement.
        values: Images by methods.
        first: A column.
        second: Another column.
        less: Whether the statement says that the first mean is the smaller one.
        source: Where the statement comes from.
        quantity: What the values are.
    """
    difference = (values[first] - values[second]).to_numpy(dtype=float)[:, None]
    mean, low, high = (float(part[0]) for part in mean_intervals(difference))
    answer = decide(low, high, supports="negative" if less else "positive")
    name = f"{quantity}: {first} minus {second}"
    return Finding(key, statement, source, answer, name, mean, low, high, int((~np.isnan(difference)).sum()))


def agree(
    key: str,
    statement: str,
    first: pd.DataFrame,
    second: pd.DataFrame,
    *,
    same_direction: bool,
    source: str,
    quantity: str,
) -> Finding:
    """Finding that two scores rank the methods alike: Kendall's tau is positive.

    Args:
        key: Short name.
        statement: The statement.
        first: Images by methods.
        second: The same images and methods, another score.
        same_direction: Whether low is good in both or high is good in both.
        source: Where the statement comes from.
        quantity: Names of the two scores.
    """
    images = first.index.intersection(second.index)
    left, right = (table.loc[images].to_numpy(dtype=float) for table in (first, second))
    found = protocol_agreement(left, right if same_direction else -right)
    tau = (found.kendall, found.kendall_low, found.kendall_high)
    answer = decide(*tau[1:], supports="positive")
    return Finding(key, statement, source, answer, f"Kendall's tau of {quantity}", *tau, len(images))


def findings_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """Findings as a table, one row each, with the interval as text; without findings, one row says so."""
    if not findings:
        nothing = "No statement is about the methods of this run."
        return pd.DataFrame([dict.fromkeys([*Finding._fields, "interval"], "") | {"statement": nothing}])
    table = pd.DataFrame(findings, columns=list(Finding._fields))
    interval = [f"{row.estimate:+.3f} [{row.low:+.3f}, {row.high:+.3f}]" for row in findings]
    return table.assign(interval=interval)
