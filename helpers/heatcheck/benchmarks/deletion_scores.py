"""Scores of heatmaps under deletion, insertion, localization and, where there are masks, mass and rank."""

import inspect
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor

from heatcheck.benchmarks.heatmaps import Explained
from heatcheck.metrics.boxes import ALPHAS, Region, Threshold, boxes_from_heatmaps
from heatcheck.metrics.curves import Curves, Spacing, deletion, insertion
from heatcheck.metrics.flags import extremes, map_flags
from heatcheck.metrics.localization import GroundTruth, localization_error
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.ordering import Ties
from heatcheck.metrics.pointing import masks_of_boxes, pointing_game
from heatcheck.metrics.pooling import POOLINGS, pool, resize_heatmaps
from heatcheck.metrics.saliency_metric import saliency_metric
from heatcheck.metrics.scoring import softmax_of
from heatcheck.removal.fills import Fill, get_fill

COLUMNS = ("image", "metric", "fill", "pooling", "alpha", "fraction", "value", "flag")
STATISTICS = ("map minimum", "map maximum", "map mean")
# The pointing game's tolerance is 15 pixels at 224 (Zhang et al. 2016); it shrinks with the image.
_TOLERANCE = 15 / 224


class Choices(NamedTuple):
    """What is computed for each heatmap.

    Attributes:
        pooling: How channels are joined for everything but mass and rank.
        deletion_fills: What replaces deleted pixels, one curve each.
        insertion_fill: What insertion starts from.
        ties: Order of equal pixels; this and the next four as in ``metrics.curves.deletion``.
        step: Pixels per step.
        spacing: Spacing of a curve's points.
        max_fraction: Share of the pixels changed in the end.
        seed: Seed of random orders among equal pixels.
        alphas: Thresholds of the boxes.
        threshold: What a threshold is a fraction of; see ``metrics.boxes.boxes_from_heatmaps``.
        region: Which pixels above it a box surrounds.
        ground_truth: ``best`` overlap with one box, or with the ``union`` of all.
    """

    pooling: str
    deletion_fills: tuple[str, ...] = ()
    insertion_fill: str = "blur"
    ties: Ties = "stable"
    step: int | None = None
    spacing: Spacing = "uniform"
    max_fraction: float = 1.0
    seed: int = 0
    alphas: tuple[float, ...] = ALPHAS
    threshold: Threshold = "max"
    region: Region = "tight"
    ground_truth: GroundTruth = "best"


def score_heatmaps(
    explained: Explained, rows: Sequence[int], heatmaps: Tensor, choices: Choices
) -> pd.DataFrame:
    """All scores of some images' heatmaps, a row per image, metric and setting.

    Args:
        explained: Images, classes and classifier.
        rows: Which images, ``n`` of them.
        heatmaps: ``(n, C, H, W)`` raw.
        choices: What is computed.

    Returns:
        Columns ``COLUMNS``. Metrics are ``deletion``, ``insertion`` (each also ``/first`` and ``/max``:
        divided by the curve's first or largest value), their ``curve`` points, ``iou``, ``saliency-metric``,
        ``pointing-game``, ``relevance-mass``, ``relevance-rank``, and the map's own ``map minimum``,
        ``map maximum`` and ``map mean``.
    """
    data = explained.data.take(rows)
    maps = pool(heatmaps.to(explained.device), choices.pooling)
    tables = [
        *_curve_tables(explained, rows, maps, choices),
        *_box_tables(explained, rows, maps, choices),
        *_mask_tables(data.ids, heatmaps.to(explained.device), data.masks),
        *_map_tables(data.ids, maps),
    ]
    return _tidy(tables, choices.pooling)


def score_boxes(
    explained: Explained, rows: Sequence[int], heatmaps: Tensor, choices: Choices
) -> pd.DataFrame:
    """Only what a threshold is chosen by, for held-out images: ``iou`` and ``saliency-metric``."""
    maps = pool(heatmaps.to(explained.device), choices.pooling)
    return _tidy(_box_tables(explained, rows, maps, choices), choices.pooling)


def _tidy(tables: Iterable[pd.DataFrame], pooling: str) -> pd.DataFrame:
    """One table with all of ``COLUMNS``; rows that do not name their own pooling have the common one."""
    common = {"fill": None, "pooling": pooling, "alpha": np.nan, "fraction": np.nan}
    filled = [
        table.assign(**{name: value for name, value in common.items() if name not in table})
        for table in tables
    ]
    table = pd.concat([part.astype({"fill": "str"}) for part in filled], ignore_index=True)
    return table[list(COLUMNS)]


def _curve_tables(
    explained: Explained, rows: Sequence[int], maps: Tensor, choices: Choices
) -> Iterable[pd.DataFrame]:
    images = explained.images[list(rows)]
    ids = [explained.data.ids[row] for row in rows]
    shared: dict[str, Any] = {
        "targets": explained.data.targets[list(rows)].to(explained.device),
        "ties": choices.ties,
        "step": choices.step,
        "spacing": choices.spacing,
        "max_fraction": choices.max_fraction,
        "seed": choices.seed,
        "channels_last": explained.channels_last,
    }
    runs = []
    for name in choices.deletion_fills:
        runs.append(("deletion", name, partial(deletion, fill=fill_of(explained, name, choices.seed))))
    start = choices.insertion_fill
    runs.append(("insertion", start, partial(insertion, fill=fill_of(explained, start, choices.seed))))
    for metric, fill, run in runs:
        curves = run(softmax_of(explained.classifier.module), images, maps, **shared)
        yield from _curve_rows(ids, metric, fill, curves)


def fill_of(explained: Explained, name: str, seed: int) -> Fill:
    """Fill called ``name`` with the run's seed and the classifier's normalization, where it takes them."""
    known = {"seed": seed, **explained.classifier.normalization._asdict()}
    options = inspect.signature(get_fill(name).function).parameters
    return get_fill(name, **{key: value for key, value in known.items() if key in options})


def _curve_rows(ids: Sequence[str], metric: str, fill: str, curves: Curves) -> Iterable[pd.DataFrame]:
    columns = {"": curves.auc, "/first": curves.auc_over_first, "/max": curves.auc_over_max}
    for suffix, values in columns.items():
        yield _rows(ids, f"{metric}{suffix}", values, curves.flags, fill=fill)
    points = curves.scores.cpu().numpy()
    steps = points.shape[1]
    yield pd.DataFrame(
        {
            "image": np.repeat(ids, steps),
            "metric": f"{metric} curve",
            "fill": fill,
            "fraction": np.tile(curves.fractions.cpu().numpy(), len(ids)),
            "value": points.reshape(-1),
            "flag": np.repeat(curves.flags, steps),
        }
    )


def _box_tables(
    explained: Explained, rows: Sequence[int], maps: Tensor, choices: Choices
) -> list[pd.DataFrame]:
    images = explained.images[list(rows)]
    data = explained.data.take(rows)
    side = (images.shape[2], images.shape[3])
    maps = resize_heatmaps(maps, side)
    saliency = saliency_metric(
        softmax_of(explained.classifier.module),
        images,
        maps,
        targets=data.targets.to(explained.device),
        alpha=choices.alphas,
        threshold=choices.threshold,
        region=choices.region,
    )
    tables = [
        _rows(data.ids, "saliency-metric", values, flags, alpha=alpha)
        for alpha, values, flags in zip(choices.alphas, saliency.values, saliency.flags, strict=True)
    ]
    if data.boxes is None:
        return tables
    boxes = boxes_from_heatmaps(maps, choices.alphas, threshold=choices.threshold, region=choices.region)
    found = localization_error(boxes, data.boxes, mode=choices.ground_truth)
    tables += [
        _rows(data.ids, "iou", ious, flags, alpha=alpha)
        for alpha, ious, flags in zip(choices.alphas, found.ious, found.flags, strict=True)
    ]
    masks = data.masks if data.masks is not None else masks_of_boxes(data.boxes, side)
    game = pointing_game(maps, masks.to(maps.device), tolerance=_TOLERANCE * max(side))
    return [*tables, _rows(data.ids, "pointing-game", game.hits, game.flags)]


def _mask_tables(ids: Sequence[str], heatmaps: Tensor, masks: Tensor | None) -> Iterable[pd.DataFrame]:
    if masks is None:
        return
    for pooling in POOLINGS:
        maps = pool(heatmaps, pooling)
        mass = relevance_mass(maps, masks.to(maps.device))
        rank = relevance_rank(maps, masks.to(maps.device))
        yield _rows(ids, "relevance-mass", mass.values, mass.flags, pooling=pooling)
        yield _rows(ids, "relevance-rank", rank.values, rank.flags, pooling=pooling)


def _map_tables(ids: Sequence[str], maps: Tensor) -> Iterable[pd.DataFrame]:
    flags = map_flags(maps)
    low, high = extremes(maps)
    for name, values in zip(STATISTICS, (low, high, maps.double().mean((1, 2))), strict=True):
        yield _rows(ids, name, values, flags)


def _rows(ids: Sequence[str], metric: str, values: Tensor, flags: Any, **constant: object) -> pd.DataFrame:
    columns = {"image": list(ids), "value": values.double().cpu().numpy(), "flag": flags, "metric": metric}
    return pd.DataFrame({**columns, **constant})
