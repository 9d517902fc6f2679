"""Published numbers beside ours: data with a source, never mixed into a computation."""

from importlib.resources import files

import pandas as pd


def published_scores(chapter: str) -> pd.DataFrame:
    """Published scores of one chapter's benchmark.

    Returns:
        Columns ``source`` (key in the bibliography), ``model, data, method, metric, setting, value``
        (a fraction), ``comparable`` (``yes`` or ``no``) and ``note``.

    Raises:
        ValueError: There are none for that chapter.
    """
    folder = files("heatcheck") / "assets" / "published"
    path = folder / f"{chapter}.csv"
    if not path.is_file():
        known = sorted(item.name.removesuffix(".csv") for item in folder.iterdir())
        raise ValueError(f"no published scores of chapter {chapter!r}; there are: {', '.join(known)}")
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file)


def published_table(chapter: str, ours: pd.DataFrame) -> pd.DataFrame:
    """Published scores with ours in the column beside them; ours are empty where nothing was run.

    Args:
        chapter: Whose published scores.
        ours: Columns ``method, metric, mean``, one data set; of several fills the first one counts.

    Returns:
        Columns ``method, metric, published, here, comparable, model, data, setting, source``.
    """
    table = published_scores(chapter).rename(columns={"value": "published"})
    means = ours.drop_duplicates(["method", "metric"])[["method", "metric", "mean"]]
    joined = table.merge(means.rename(columns={"mean": "here"}), how="left", on=["method", "metric"])
    order = ["method", "metric", "published", "here", "comparable", "model", "data", "setting", "source"]
    return joined[order]
