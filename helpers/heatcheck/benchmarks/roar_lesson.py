"""A lesson about labels: where the outline of an object is its class, a mask that fits it tells the class."""

from collections.abc import Sequence

import pandas as pd

from heatcheck.benchmarks import roar
from heatcheck.benchmarks.roar_controls import leak_table
from heatcheck.benchmarks.roar_settings import Settings
from heatcheck.runtime.store import ResultsStore

# Estimators and extras that a lesson leaves out.
_NOTHING = ("matched", "probes", "road", "finetuned", "recursive", "extra_percents", "plugins")


def leak_lesson(
    settings: Settings, store: ResultsStore, data: Sequence[str], names: Sequence[str], *, percent: int
) -> pd.DataFrame:
    """What masks of the same rankings give away on several data sets; a ``leak_table`` with ``data``.

    Args:
        settings: Of the chapter's run; recipe, sizes and seeds are taken from it.
        store: Results store; what the chapter's run has computed is not computed again.
        data: Data sets with masks of their objects; without any there is no row.
        names: Rankings, such as ``oracle``, whose masks are the objects themselves.
        percent: Percent of the pixels that are removed.

    Raises:
        ValueError: A name or number is not allowed.
    """
    nothing: dict[str, object] = {key: [] for key in _NOTHING}
    nothing |= {"evaluator": False, "n_runs": 1, "n_checkpoints": 1}
    chosen = {"estimators": list(names), "leaks": list(names), "percents": [percent], "modes": ["roar"]}
    frames = []
    for name in data:
        one = Settings(**(settings.model_dump() | nothing | chosen | {"data": name}))
        frames.append(leak_table(roar.run(one, store), seed=settings.seed).assign(data=name))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def lesson_text(lesson: pd.DataFrame) -> pd.DataFrame:
    """Leak scores in one row per ranking, a column per data set."""
    if lesson.empty:
        return pd.DataFrame({"estimator": ["not run: this data set has no objects"]})
    rows = lesson[lesson["quantity"] == "leak_score"]
    parts = rows[["estimate", "low", "high"]].itertuples(index=False)
    wide = rows.assign(text=["{:.2f} [{:.2f}, {:.2f}]".format(*part) for part in parts]).pivot(
        index="label", columns="data", values="text"
    )
    wide = wide.loc[list(dict.fromkeys(rows["label"])), list(dict.fromkeys(rows["data"]))]
    return wide.rename_axis(index="masks of", columns=None).reset_index()
