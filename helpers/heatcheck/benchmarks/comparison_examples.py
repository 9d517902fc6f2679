"""One image, the heatmaps of all methods, and what each benchmark says of the method, before any table."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from heatcheck.benchmarks.comparison import Results
from heatcheck.benchmarks.comparison_columns import Column
from heatcheck.benchmarks.comparison_tables import MEAN_RANK, metric_groups, rank_table
from heatcheck.metrics.resampling import defined_means

Array = NDArray[np.float64]


class Example(NamedTuple):
    """An image with its heatmaps.

    Attributes:
        title: What the image is, in the words of its data set.
        picture: ``(H, W, 3)`` in [0, 1].
        maps: ``(H, W)`` by method, pooled as for deletion.
    """

    title: str
    picture: Array
    maps: dict[str, Array]


def example(results: Results) -> Example:
    """The shown image of the main classifier with the maps of all methods that explain it.

    Raises:
        ValueError: The comparison was run without the deletion benchmark, whose images are shown.
    """
    if results.pictures is None:
        raise ValueError("no heatmaps to show; add 'deletion' to the benchmarks")
    shown, heatmaps = results.pictures.shown, results.pictures.heatmaps
    picture = shown.data.images[0].permute(1, 2, 0).double().numpy()
    maps = {name: np.asarray(heatmap[0].double().numpy()) for name, heatmap in heatmaps.items()}
    return Example(shown.classifier.classes[int(shown.data.targets[0])], np.asarray(picture), maps)


def benchmark_ranks(columns: Sequence[Column], *, with_controls: bool = False) -> pd.DataFrame:
    """Mean rank of every method over each benchmark's metrics: methods by titles, the best mean rank first.

    Args:
        columns: Columns of the comparison; the main one of each metric is used.
        with_controls: Rank the controls too, among the methods.
    """
    ranks = rank_table(columns, with_controls=with_controls)
    table = {
        title: defined_means(ranks[labels].to_numpy(dtype=np.float64).T)
        for title, labels in metric_groups(columns).items()
    }
    return pd.DataFrame(table, index=ranks.index).assign(**{MEAN_RANK: ranks[MEAN_RANK]})
