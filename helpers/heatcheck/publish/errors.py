"""What can go wrong between a notebook and its page."""

from typing import NamedTuple


class PublishError(RuntimeError):
    """A chapter or the book that cannot be made, with what to do about it."""


class StoppedError(PublishError):
    """The user ended a run; what was finished is kept."""


class Failure(NamedTuple):
    """A chapter that did not run through, and why, in one line."""

    chapter: str
    reason: str


class RunError(PublishError):
    """One or several chapters failed; the message has a line for each.

    Attributes:
        failures: The chapters and their reasons, in the order they ran.
    """

    def __init__(self, failures: tuple[Failure, ...]) -> None:
        lines = [f"{failure.chapter}: {failure.reason}" for failure in failures]
        count = "1 chapter failed" if len(failures) == 1 else f"{len(failures)} chapters failed"
        kept = "the last good pages are kept, tracebacks are in <chapter>.failed.ipynb beside them"
        super().__init__("\n".join([f"{count}; {kept}", *lines]))
        self.failures = failures
