"""Tables of the single-deletion chapter as a page shows them: few columns, numbers as text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks.findings import Finding
from heatcheck.benchmarks.idsds import Results
from heatcheck.benchmarks.idsds_agreement import agreement_table
from heatcheck.benchmarks.idsds_design import short_name
from heatcheck.benchmarks.idsds_methods import column_name
from heatcheck.benchmarks.idsds_scores import Score, find_scores, without_twins
from heatcheck.benchmarks.idsds_summary import incremental_only, protocol_scores


def alignment_text(alignment: pd.DataFrame) -> pd.DataFrame:
    """An ``alignment_table`` in one row per model and split, in percent: before and after fine-tuning."""
    rows = []
    for (model, split), part in alignment.groupby(["model", "split"], sort=False):
        row: dict[str, Any] = {"model": short_name(str(model)), "images": split}
        for stage, when in (("original", "before"), ("tuned", "after")):
            for found in part[part["stage"] == stage].to_dict("records"):
                row[f"intact, {when}"] = f"{100 * found['intact']:.1f}"
                row[f"deleted, {when}"] = f"{100 * found['deleted']:.1f}"
                ends = (100 * float(found[name]) for name in ("gap", "low", "high"))
                row[f"gap, {when}"] = "{:.1f} [{:.1f}, {:.1f}]".format(*ends)
        rows.append(row)
    return pd.DataFrame(rows).fillna("")


def difference_text(differences: pd.DataFrame) -> pd.DataFrame:
    """A ``difference_table`` as text, one row per model."""
    if differences.empty:
        return pd.DataFrame({"model": ["no model was fine-tuned"]})
    columns = {
        "MAD over all classes": ("mad_all", "mad_all_low", "mad_all_high"),
        "MAD of the target": ("mad_target", "mad_target_low", "mad_target_high"),
        "change of accuracy": ("intact_change", "intact_low", "intact_high"),
    }
    text = {heading: _spans(differences, *names) for heading, names in columns.items()}
    models = [short_name(str(name)) for name in differences["model"]]
    return pd.DataFrame({"model": models, **text, "same prediction": differences["agreement"].to_numpy()})


def span_text(table: pd.DataFrame, names: Sequence[str] = ("mean", "low", "high")) -> pd.Series:
    """``mean [low, high]`` of three columns; empty where undefined."""
    return pd.Series(_spans(table, *names), index=table.index, dtype=object)


def output_text(outputs: pd.DataFrame) -> pd.DataFrame:
    """An ``output_table`` in one row per method: a column per output, and the paired difference."""
    if outputs.empty:
        return pd.DataFrame({"method": ["not run"]})
    rows = []
    headings = {"logit": "logit", "probability": "probability", "drop": "drop of the probability"}
    for (method, transform), part in outputs.groupby(["method", "transform"], sort=False):
        named = part.set_index("output")
        if not set(headings) <= set(named.index):
            continue  # a map that explains no score, such as a control
        row = {"method": column_name(str(method), str(transform))}
        for output, heading in headings.items():
            row[f"{heading} ↑"] = _spans(named.loc[[output]], "mean", "low", "high")[0]
        ends = ("difference", "difference_low", "difference_high")
        row["probability minus logit"] = _spans(named.loc[["probability"]], *ends)[0]
        rows.append(row)
    return pd.DataFrame(rows or {"method": ["no method explains the probability"]})


def agreement_text(results: Results, scores: Sequence[Score], *, seed: int = 0) -> pd.DataFrame:
    """Agreement of the protocols of the detailed model, one row per pair and family of maps.

    Args:
        results: Of a run.
        scores: Its ``all_scores``.
        seed: Seed of the bootstrap.
    """
    table = agreement_table(protocol_scores(results, scores), seed=seed)
    if table.empty:
        return pd.DataFrame({"protocols": ["too few methods were run"]})
    return pd.DataFrame(
        {
            "protocols": table["first"] + " and " + table["second"],
            "maps": table["family"],
            "Kendall's tau": _spans(table, "kendall", "kendall_low", "kendall_high", digits=2),
            "Spearman's rho": _spans(table, "spearman", "spearman_low", "spearman_high", digits=2),
            "methods": table["n"],
            "images": table["n_images"],
        }
    )


def incremental_text(results: Results, scores: Sequence[Score], *, seed: int = 0) -> pd.DataFrame:
    """Scores of the detailed model by incremental deletion, one row per map, one column per way of deleting.

    Args:
        results: Of a run.
        scores: Its ``all_scores``.
        seed: Seed of the bootstrap.
    """
    own = incremental_only(find_scores(list(scores), model=results.main))
    columns: dict[str, dict[str, str]] = {}
    for score in map(without_twins, own):
        arrow = "↑" if score.better == "higher" else "↓"
        table = pd.DataFrame(score.intervals(seed=seed)._asdict())
        names = [column_name(*column) for column in score.columns]
        columns[f"{score.condition.protocol} {arrow}"] = dict(zip(names, span_text(table), strict=True))
    if not columns:
        return pd.DataFrame({"method": ["not run"]})
    return pd.DataFrame(columns).fillna("").rename_axis("method").reset_index()


def quality_text(quality: pd.DataFrame) -> pd.DataFrame:
    """A ``quality_table`` in one row per model, the best general map first."""
    rows = []
    headings = {
        "general": ("best general method, IDSDS ↑", "linear ↑"),
        "own map": ("own map, IDSDS ↑", "own map, linear ↑"),
    }
    for model, part in quality.groupby("model", sort=False):
        row = {"network": str(model), "accuracy": f"{100 * float(part['accuracy'].iloc[0]):.1f} %"}
        for source, (heading, beside) in headings.items():
            found = part[part["source"] == source]
            names = [column_name(*pair) for pair in zip(found["method"], found["transform"], strict=True)]
            spans = _spans(found, "mean", "low", "high", digits=2)
            row[heading] = f"{names[0]} {spans[0]}" if spans else ""
            row[beside] = f"{float(found['linear'].iloc[0]):.2f}" if spans else ""
        rows.append(row)
    return pd.DataFrame(rows)


def answer_counts(found: Sequence[Finding]) -> dict[str, int]:
    """How many findings there are, and how many of each answer; for the prose."""
    counts = {
        f"n_{answer}": sum(one.answer == answer for one in found) for answer in ("yes", "no", "undecided")
    }
    return {"n_asked": len(found), **counts}


def readable(resolution: pd.DataFrame, n_images: int) -> str:
    """Smallest difference that ``n_images`` let read as a ranking, from ``resolution_rows``, as text."""
    rows = resolution[resolution["n_images"] == n_images]["readable"]
    return f"{float(rows.iloc[0]):.3f}" if len(rows) and np.isfinite(rows.iloc[0]) else "an unknown amount"


def _spans(table: pd.DataFrame, mean: str, low: str, high: str, *, digits: int = 3) -> list[str]:
    parts = table[[mean, low, high]].astype(float).itertuples(index=False)
    # A number that rounds to zero has no sign.
    text = f"{{:z.{digits}f}} [{{:z.{digits}f}}, {{:z.{digits}f}}]"
    return ["" if np.isnan(row[0]) else text.format(*row) for row in parts]
