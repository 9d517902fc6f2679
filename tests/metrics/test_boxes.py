from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from heatcheck.metrics.boxes import (
    ALPHAS,
    REGIONS,
    THRESHOLDS,
    Region,
    Threshold,
    boxes_from_heatmaps,
    largest_components,
)
from heatcheck.runtime.memory import memory_budget

Draw = Callable[..., Tensor]
NO_BOX = [0, 0, 0, 0]


def kept_pixels(heatmap: Tensor, alpha: float, threshold: Threshold) -> list[tuple[int, int]]:
    """Kept pixels (row, column), read off the definition one by one."""
    values = {
        (row, column): max(float(heatmap[row, column]), 0.0)
        for row in range(heatmap.shape[0])
        for column in range(heatmap.shape[1])
    }
    top, low = max(values.values()), min(values.values())
    if threshold == "energy":
        kept, total = [], 0.0
        for pixel in sorted(values, key=lambda pixel: (values[pixel], pixel), reverse=True):
            total += values[pixel]
            if total >= alpha * sum(values.values()):
                break
            kept.append(pixel)
        return [pixel for pixel in kept if values[pixel] > 0]
    level = {
        "max": alpha * top,
        "mean": alpha * sum(values.values()) / len(values),
        "value": low + alpha * (top - low),
    }[threshold]
    return [pixel for pixel, value in values.items() if value >= level and value > 0]


def components(pixels: list[tuple[int, int]], connectivity: int) -> list[list[tuple[int, int]]]:
    """Connected components in row-major order of their first pixel, by flood fill."""
    steps = [(0, 1), (1, 0), (0, -1), (-1, 0)] + (
        [(1, 1), (1, -1), (-1, 1), (-1, -1)] if connectivity == 8 else []
    )
    left, found = sorted(pixels), []
    while left:
        part, border = [], [left.pop(0)]
        while border:
            row, column = border.pop()
            part.append((row, column))
            for near in ((row + down, column + right) for down, right in steps):
                if near in left:
                    left.remove(near)
                    border.append(near)
        found.append(part)
    return found


def tight(pixels: list[tuple[int, int]]) -> list[int]:
    if not pixels:
        return NO_BOX
    rows, columns = [row for row, _ in pixels], [column for _, column in pixels]
    return [min(columns), min(rows), max(columns) + 1, max(rows) + 1]


@pytest.mark.parametrize("threshold", THRESHOLDS)
@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("connectivity", [4, 8])
@pytest.mark.parametrize("levels", [None, 3])
def test_boxes_follow_the_definition(
    draw: Draw, threshold: Threshold, region: Region, connectivity: int, levels: int | None
) -> None:
    heatmaps = draw(4, 6, 9, seed=3).double()
    if levels:
        heatmaps = (heatmaps * levels).round() / 4
    alphas = (0.0, 0.3, 0.75, 1.0)
    found = boxes_from_heatmaps(
        heatmaps, alphas, threshold=threshold, region=region, connectivity=8 if connectivity == 8 else 4
    )
    for index, alpha in enumerate(alphas):
        for row, heatmap in enumerate(heatmaps):
            pixels = kept_pixels(heatmap, alpha, threshold)
            if region != "tight" and pixels:
                sizes = [
                    (
                        sum(float(heatmap[pixel]) for pixel in part)
                        if region == "component-mass"
                        else len(part),
                        -at,
                        part,
                    )
                    for at, part in enumerate(components(pixels, connectivity))
                ]
                pixels = max(sizes)[2]
            assert found.boxes[index, row].tolist() == tight(pixels), (alpha, row)
            assert bool(found.found[index, row]) is bool(pixels)


def test_many_thresholds_give_what_each_gives_alone(draw: Draw) -> None:
    heatmaps = draw(3, 8, 8)
    together = boxes_from_heatmaps(heatmaps, ALPHAS)
    assert together.boxes.shape == (19, 3, 4)
    assert together.flags.shape == (19, 3)
    for index, alpha in enumerate(ALPHAS):
        alone = boxes_from_heatmaps(heatmaps, alpha)
        assert torch.equal(alone.boxes, together.boxes[index])
        assert alone.boxes.dtype == torch.int64
        assert alone.flags.tolist() == together.flags[index].tolist()


def test_the_grid_of_thresholds_is_the_published_one() -> None:
    assert ALPHAS == (
        0.05,
        0.1,
        0.15,
        0.2,
        0.25,
        0.3,
        0.35,
        0.4,
        0.45,
        0.5,
        0.55,
        0.6,
        0.65,
        0.7,
        0.75,
        0.8,
        0.85,
        0.9,
        0.95,
    )


def test_boxes_shrink_as_the_threshold_grows(draw: Draw) -> None:
    boxes = boxes_from_heatmaps(draw(5, 10, 10), ALPHAS).boxes
    assert (boxes[1:, :, :2] >= boxes[:-1, :, :2]).all()
    assert (boxes[1:, :, 2:] <= boxes[:-1, :, 2:]).all()


@pytest.mark.parametrize("threshold", ["max", "mean", "value", "energy"])
def test_positive_scaling_does_not_move_a_box(draw: Draw, threshold: Threshold) -> None:
    heatmaps = draw(4, 7, 7)
    expected = boxes_from_heatmaps(heatmaps, 0.5, threshold=threshold).boxes
    for factor in (0.25, 8.0, 2.0**20):
        assert torch.equal(boxes_from_heatmaps(factor * heatmaps, 0.5, threshold=threshold).boxes, expected)


@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize("threshold", THRESHOLDS)
def test_chunks_do_not_change_boxes(draw: Draw, threshold: Threshold, region: Region) -> None:
    heatmaps = draw(7, 9, 9)
    whole = boxes_from_heatmaps(heatmaps, (0.2, 0.6), threshold=threshold, region=region)
    with memory_budget("1kB", chunk=2):
        parts = boxes_from_heatmaps(heatmaps, (0.2, 0.6), threshold=threshold, region=region)
    assert torch.equal(parts.boxes, whole.boxes)


def test_a_constant_positive_map_gives_the_whole_image() -> None:
    found = boxes_from_heatmaps(torch.full((1, 5, 8), 0.3), ALPHAS)
    assert (found.boxes == torch.tensor([0, 0, 8, 5])).all()
    assert set(found.flags.flatten().tolist()) == {"constant"}


def test_nothing_kept_is_no_box_or_the_whole_image() -> None:
    heatmap = torch.tensor([[[1.0, 0.5], [0.5, 0.5]]])
    none = boxes_from_heatmaps(heatmap, 9.0, threshold="mean")
    assert (none.boxes.tolist(), none.found.tolist(), none.flags.tolist()) == ([NO_BOX], [False], ["empty"])
    whole = boxes_from_heatmaps(heatmap, 9.0, threshold="mean", when_empty="image")
    assert (whole.boxes.tolist(), whole.found.tolist(), whole.flags.tolist()) == (
        [[0, 0, 2, 2]],
        [False],
        ["empty"],
    )


def test_a_map_that_is_not_finite_has_no_box_even_where_the_whole_image_is_asked_for() -> None:
    heatmap = torch.ones(1, 3, 3)
    heatmap[0, 0, 0] = torch.nan
    found = boxes_from_heatmaps(heatmap, 0.5, when_empty="image")
    assert (found.boxes.tolist(), found.flags.tolist()) == ([NO_BOX], ["nonfinite"])


def test_no_heatmaps_give_no_boxes() -> None:
    assert boxes_from_heatmaps(torch.zeros(0, 4, 4), (0.5, 0.6)).boxes.shape == (2, 0, 4)


def test_the_largest_component_of_nothing_is_nothing() -> None:
    assert not largest_components(torch.zeros(2, 4, 4, dtype=torch.bool)).any()


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"alpha": 1.5}, "alpha must be in"),
        ({"alpha": -0.1, "threshold": "mean"}, "at least 0"),
        ({"alpha": float("nan")}, "alpha"),
        ({"alpha": ()}, "alpha"),
        ({"threshold": "median"}, "allowed: max, mean, value, energy"),
        ({"region": "hull"}, "allowed: tight, component"),
        ({"connectivity": 6}, "4 or 8"),
        ({"heatmaps": torch.zeros(1, 3, 4, 4)}, "pool"),
        ({"heatmaps": torch.zeros(1, 4, 4).long()}, "floating"),
    ],
)
def test_a_choice_that_is_not_allowed_is_refused_by_name(choices: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        boxes_from_heatmaps(**{"heatmaps": torch.zeros(1, 4, 4), "alpha": 0.5, **choices})
