"""Single images of the single-deletion chapter, before any mean: patches, their relevance and their drops."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.deletion_examples import drawn
from heatcheck.benchmarks.heatmaps import Explained
from heatcheck.benchmarks.idsds import Results, Subject, requests_of
from heatcheck.benchmarks.idsds_maps import shared_work
from heatcheck.benchmarks.idsds_scores import single_score
from heatcheck.benchmarks.idsds_tables import is_control
from heatcheck.benchmarks.shared_passes import pass_heatmaps
from heatcheck.metrics.patches import average_ranks, patch_sums, single_deletion_scores

Array = NDArray[np.float64]


class Patches(NamedTuple):
    """One image explained patch by patch by one method.

    Attributes:
        method: The method.
        heatmap: ``(H, W)``, channels added up.
        sums: ``(P, P)`` relevance of each patch.
        drops: ``(P, P)`` fall of the logit without each patch.
        sum_ranks: ``(P, P)`` ranks of the sums, 1 for the least.
        drop_ranks: ``(P, P)`` ranks of the drops.
        rho: Rank correlation; NaN where undefined.
    """

    method: str
    heatmap: Array
    sums: Array
    drops: Array
    sum_ranks: Array
    drop_ranks: Array
    rho: float


class Example(NamedTuple):
    """One image with several methods.

    Attributes:
        image: ``(H, W, 3)`` in [0, 1].
        name: Name of the image.
        target: Name of its class.
        prediction: Name of the class that the model sees.
        explained: One entry per method.
    """

    image: Array
    name: str
    target: str
    prediction: str
    explained: tuple[Patches, ...]


def shown_methods(subject: Subject, wanted: Sequence[str]) -> list[str]:
    """Those of ``wanted`` that explain the classifier; its first three methods where none does."""
    known = subject.studied.methods
    return [name for name in wanted if name in known] or list(known[:3])


def typical_image(subject: Subject, results: Results, method: str) -> int:
    """Number of the image whose score by ``method`` is nearest to the method's mean; the first of equals."""
    values = single_score(subject, results.headline).values[method, "raw"].to_numpy(dtype=float)
    if np.isnan(values).all():
        return 0
    return int(np.nanargmin(np.abs(values - np.nanmean(values))))


def patch_example(results: Results, subject: Subject, row: int, methods: Sequence[str]) -> Example:
    """Image number ``row`` explained patch by patch.

    Args:
        results: Of the run.
        subject: The classifier.
        row: Number of the image.
        methods: Methods of the run.

    Raises:
        ValueError: A method was not run.
    """
    shown = subject.studied.explained.take(row, row + 1)
    table, grid = subject.tables[results.headline], results.settings.grid
    drops = table.responses.drops()[row : row + 1]
    maps = example_maps(results, subject, shown, methods)
    classes = subject.studied.explained.classifier.classes
    explained = tuple(_patches(name, maps[name], drops, grid) for name in methods)
    return Example(
        drawn(shown, shown.images)[0],
        subject.ids[row],
        classes[int(table.targets[row])],
        classes[int(table.responses.top[row, 0])],
        explained,
    )


def patch_gallery(
    results: Results, subject: Subject, *, n: int = 3
) -> tuple[Array, Mapping[str, Array], list[str]]:
    """Images ``(n, H, W, 3)``, heatmaps ``(n, H, W)`` by method with the best one first, and target classes.

    Controls come last. Channels are added up, signs are kept.
    """
    shown = subject.studied.explained.take(0, n)
    values = single_score(subject, results.headline).values
    means = {str(method): values[method, "raw"].mean() for method in subject.studied.methods}
    # Undefined means are no numbers to sort by.
    names = sorted(means, key=lambda name: (is_control(name), -np.nan_to_num(means[name], nan=-2)))
    maps = example_maps(results, subject, shown, names)
    pictures = {name: np.asarray(maps[name].sum(1).double().cpu().numpy()) for name in names}
    classes = shown.classifier.classes
    titles = [classes[int(target)] for target in shown.data.targets]
    return drawn(shown, shown.images), pictures, titles


def example_maps(
    results: Results, subject: Subject, shown: Explained, methods: Sequence[str]
) -> dict[str, Tensor]:
    """Raw heatmaps ``(n, C, H, W)`` of ``methods`` for images that are shown.

    Raises:
        ValueError: A method was not run.
    """
    requests = requests_of(subject.studied, results.settings)
    known = [name for name, output in requests if output == "logit"]
    strangers = [name for name in methods if name not in known]
    if strangers:
        raise ValueError(f"no heatmaps of {', '.join(strangers)}; there are: {', '.join(known)}")
    found: dict[str, Tensor] = {}
    for name in methods:
        request = requests[name, "logit"]
        (work,) = shared_work([request])
        found[name] = pass_heatmaps(shown, work, seed=results.settings.seed)[request.name]
    return found


def _patches(method: str, maps: Tensor, drops: Tensor, grid: int) -> Patches:
    sums = patch_sums(maps, grid).cpu()
    rho = single_deletion_scores(sums, drops).values
    tables = (sums, drops, average_ranks(sums), average_ranks(drops))
    first, second, third, fourth = (np.asarray(part[0].reshape(grid, grid).numpy()) for part in tables)
    heatmap = np.asarray(maps[0].sum(0).double().cpu().numpy())
    return Patches(method, heatmap, first, second, third, fourth, float(rho[0]))
