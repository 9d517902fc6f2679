"""Tables of a larger run that is kept in the repository, shown beside those of a chapter's own run."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from heatcheck.benchmarks.findings import Finding, findings_table

ANSWER, INTERVAL = "holds here?", "estimate [interval]"
KEPT_ANSWER, KEPT_INTERVAL = "in the larger run?", "its estimate [interval]"


def kept_table(folder: Path | str, name: str) -> pd.DataFrame:
    """Table ``name`` of a larger run that is kept in ``folder``; empty where none is."""
    path = Path(folder) / f"{name}.csv"
    return pd.read_csv(path) if path.is_file() else pd.DataFrame()


def kept_text(folder: Path | str, name: str) -> pd.DataFrame:
    """Table ``name`` of a larger run as it was written, every cell as text; empty where none is kept."""
    path = Path(folder) / f"{name}.csv"
    return pd.read_csv(path, dtype=str, keep_default_na=False) if path.is_file() else pd.DataFrame()


def kept_or_notice(table: pd.DataFrame, folder: Path | str) -> pd.DataFrame:
    """``table``, or where it is empty one row that says that no larger run is kept."""
    return table if len(table) else pd.DataFrame({"larger run": [f"none is kept in {Path(folder).name} yet"]})


def findings_text(found: Sequence[Finding], kept: pd.DataFrame) -> pd.DataFrame:
    """Answers of this run beside those of a larger one that is kept; what only one of them asked is empty.

    Args:
        found: Findings of this run.
        kept: Table that this function gave for the larger run; may be empty.
    """
    columns = {"statement": "statement", "answer": ANSWER, "quantity": "measured", "interval": INTERVAL}
    own = findings_table(found)[[*columns, "source"]].rename(columns=columns)
    if kept.empty:
        return own.assign(**{KEPT_ANSWER: "", KEPT_INTERVAL: ""})
    larger = kept[["statement", "measured", "source", ANSWER, INTERVAL]]
    larger = larger.rename(columns={ANSWER: KEPT_ANSWER, INTERVAL: KEPT_INTERVAL})
    joined = own.merge(larger, how="outer", on="statement", sort=False, suffixes=("", " kept"))
    for name in ("measured", "source"):
        joined[name] = joined[name].fillna(joined[f"{name} kept"])
    order = {text: place for place, text in enumerate([*own["statement"], *larger["statement"]][::-1])}
    joined = joined.iloc[joined["statement"].map(order).argsort()[::-1]]
    return joined[[*own.columns, KEPT_ANSWER, KEPT_INTERVAL]].fillna("").reset_index(drop=True)


def answers_text(findings: pd.DataFrame) -> pd.DataFrame:
    """A ``findings_text`` in four columns, an answer and its interval in one cell."""
    cells = {
        heading: [
            f"{answer}: {interval}" if answer and interval else answer
            for answer, interval in zip(findings[answers], findings[intervals], strict=True)
        ]
        for heading, answers, intervals in (
            ("holds here?", ANSWER, INTERVAL),
            ("in the larger run?", KEPT_ANSWER, KEPT_INTERVAL),
        )
    }
    return pd.DataFrame({**findings[["statement", "measured"]], **cells})
