import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from captum.attr import Occlusion
from torch import Tensor, nn

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.passes import Query
from heatcheck.attribution.perturbation import sliding_patch_grid
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.windows import (
    at_centers,
    coverage,
    linear_weights,
    make_windows,
    mean_over_windows,
)

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
MakeImages = Callable[..., Tensor]
Build = Callable[..., nn.Module]


def recorded(golden: Golden, linear_model: Build) -> tuple[Query, dict[str, Any]]:
    case = golden("deletion", "sp_linear")
    inputs = case["inputs"]
    image = torch.tensor([inputs["image"]], dtype=torch.float64)
    target = torch.tensor([case["expected"]["explained_class"]])
    return Query(linear_model(inputs["weights"], inputs["bias"]), image, target, output="probability"), case


@pytest.mark.parametrize("row", range(4))
def test_recorded_grids_and_maps(row: int, golden: Golden, linear_model: Build) -> None:
    query, case = recorded(golden, linear_model)
    expected = case["expected"]["rows"][row]
    patch, stride = expected["patch"], expected["stride"]
    windows = make_windows(8, patch, stride, cover=False)
    grid = sliding_patch_grid(query, windows, windows, torch.zeros(1, 1, 1, 1, dtype=torch.float64))
    options = {"patch": patch, "stride": stride}
    stretched = attribute("sliding-patch", query.model, query.images, query.targets, **options)
    averaged = attribute(
        "sliding-patch", query.model, query.images, query.targets, aggregate="mean", cover=True, **options
    )
    assert len(windows.starts) == expected["grid_size"]
    for found, key in (
        (grid[0], "grid"),
        (stretched[0, 0], "heatmap_bilinear"),
        (averaged[0, 0], "captum_occlusion_map"),
    ):
        torch.testing.assert_close(found, torch.tensor(expected[key], dtype=torch.float64), atol=1e-6, rtol=0)


def test_a_given_fill_is_pasted_only_under_the_patch(golden: Golden, linear_model: Build) -> None:
    query, _ = recorded(golden, linear_model)
    case = golden("deletion", "sp_g_given_fill")
    windows = make_windows(8, case["inputs"]["patch"], case["inputs"]["stride"], cover=False)
    fill = torch.tensor([case["inputs"]["inpainted"]], dtype=torch.float64)
    found = sliding_patch_grid(query, windows, windows, fill)
    torch.testing.assert_close(
        found[0], torch.tensor(case["expected"]["grid"], dtype=torch.float64), atol=1e-9, rtol=0
    )


def test_recorded_grid_sizes(golden: Golden) -> None:
    for row in golden("deletion", "sp_grid_sizes")["expected"]["table"]:
        windows = make_windows(row["image"], row["patch"], row["stride"], cover=False)
        assert len(windows.starts) == row["grid"]
        assert len(windows.starts) ** 2 == row["forward_passes"]
        assert bool(coverage(windows).any(dim=0).all()) == row["covers"]


def test_by_default_the_patch_is_29_of_224_pixels(golden: Golden, linear_model: Build) -> None:
    query, _ = recorded(golden, linear_model)
    default = attribute("sliding-patch", query.model, query.images, query.targets, stride=1)
    named = attribute("sliding-patch", query.model, query.images, query.targets, stride=1, patch=1)
    assert torch.equal(default, named)


@pytest.mark.parametrize(("patch", "stride"), [(4, 4), (4, 2), (6, 3), (12, 5), (1, 1)])
def test_the_mean_over_windows_equals_captums_occlusion(
    patch: int, stride: int, net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    expected = Occlusion(net).attribute(
        images,
        target=targets,
        sliding_window_shapes=(3, patch, patch),
        strides=(3, stride, stride),
        baselines=0.3,
    )
    found = attribute(
        "sliding-patch",
        net,
        images,
        targets,
        output="logit",
        patch=patch,
        stride=stride,
        aggregate="mean",
        fill=0.3,
    )
    torch.testing.assert_close(found.expand_as(expected), expected.detach().float(), atol=2e-6, rtol=1e-5)


@pytest.mark.parametrize("cover", [True, False])
def test_a_sum_of_pixels_falls_by_what_each_window_holds(
    cover: bool, linear_model: Build, make_images: MakeImages
) -> None:
    images = make_images(1, channels=1, side=7).double()
    rows, columns = (make_windows(7, 3, 2, cover=cover), make_windows(7, 4, 2, cover=cover))
    query = Query(linear_model([[1.0] * 49]), images, torch.tensor([0]))
    found = sliding_patch_grid(query, rows, columns, torch.zeros(1, 1, 1, 1, dtype=torch.float64))
    held = coverage(rows).double() @ images[0, 0] @ coverage(columns).double().T
    torch.testing.assert_close(found[0], held)
    assert len(columns.starts) == (3 if cover else 2)
    assert columns.stops[-1] == (7 if cover else 6)


def test_pixels_no_window_reaches_get_zero_from_the_mean() -> None:
    windows = make_windows(5, 2, 2, cover=False)
    found = mean_over_windows(torch.ones(1, 2, 2), windows, windows)
    assert torch.equal(found[0, :4, :4], torch.ones(4, 4))
    assert float(found[0, 4].abs().max()) == float(found[0, :, 4].abs().max()) == 0


def test_values_lie_at_the_centres_of_their_windows() -> None:
    windows = make_windows(9, 3, 3, cover=False)
    grid = torch.arange(9.0).view(1, 3, 3)
    found = at_centers(grid, windows, windows)
    assert torch.equal(found[0, 1::3, 1::3], grid[0])
    assert found[0, 1].tolist() == pytest.approx([0, 0, 1 / 3, 2 / 3, 1, 4 / 3, 5 / 3, 2, 2])


def test_windows_that_tile_the_image_lie_where_stretching_puts_them(
    net: nn.Module, make_images: MakeImages
) -> None:
    images, targets = make_images(2), torch.tensor([0, 1])
    maps = [
        attribute("sliding-patch", net, images, targets, patch=3, stride=3, place=place)
        for place in ("centre", "stretch")
    ]
    torch.testing.assert_close(maps[0], maps[1], atol=1e-7, rtol=1e-4)


def test_placing_at_centres_moves_what_stretching_moves_away(linear_model: Build) -> None:
    # Evidence in one pixel: the map at the centres peaks there, the stretched one beside it.
    weights = torch.zeros(20, 20, dtype=torch.float64)
    weights[3, 3] = 1
    model, image = linear_model([weights.flatten().tolist()]), torch.ones(1, 1, 20, 20, dtype=torch.float64)

    def center_of_mass(place: str) -> float:
        found = attribute(
            "sliding-patch", model, image, torch.tensor([0]), output="logit", patch=5, stride=1, place=place
        )
        return float((found[0, 0].sum(dim=1) * (torch.arange(20) + 0.5)).sum() / found.sum())

    assert abs(center_of_mass("stretch") - 3.5) > abs(center_of_mass("centre") - 3.5)


def test_linear_weights_add_up_to_one_and_keep_straight_lines() -> None:
    nodes, points = [1.5, 4.0, 4.5], [0.5, 1.5, 2.0, 3.9, 4.2, 6.0]
    weights = linear_weights(nodes, points)
    assert weights.sum(dim=0).tolist() == pytest.approx([1] * 6)
    assert (torch.tensor(nodes, dtype=torch.float64) @ weights).tolist() == pytest.approx(
        [1.5, 1.5, 2.0, 3.9, 4.2, 4.5]
    )


def test_nearest_upsampling_keeps_the_grids_values(net: nn.Module, make_images: MakeImages) -> None:
    images, targets = make_images(1), torch.tensor([0])
    nearest, smooth = (
        attribute("sliding-patch", net, images, targets, patch=4, stride=4, upsample=kind)
        for kind in ("nearest", "bilinear")
    )
    grid = nearest[:, :, ::4, ::4]
    assert torch.equal(nearest, grid.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3))
    torch.testing.assert_close(
        smooth, F.interpolate(grid, size=(12, 12), mode="bilinear", align_corners=False)
    )


@pytest.mark.parametrize("fill", [0.4, (0.1, 0.2, 0.3)])
def test_a_fill_equal_to_the_image_changes_nothing(fill: Any, net: nn.Module) -> None:
    images = (
        torch.tensor(fill if isinstance(fill, tuple) else (fill,) * 3).view(1, 3, 1, 1).expand(1, 3, 12, 12)
    )
    found = attribute("sliding-patch", net, images, torch.tensor([0]), fill=fill)
    assert float(found.abs().max()) < 1e-6


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"patch": 13}, "patch 13 is larger than the image, 12"),
        ({"patch": 3, "stride": 4}, "stride 4 is larger than the patch"),
        ({"fill": (1.0, 2.0)}, "2 channel values"),
    ],
)
def test_windows_that_do_not_fit_are_refused(
    options: dict[str, Any], part: str, net: nn.Module, make_images: MakeImages
) -> None:
    with pytest.raises(ValueError, match=part):
        attribute("sliding-patch", net, make_images(1), torch.tensor([0]), **options)


def test_the_number_of_windows_is_the_formula_of_the_paper() -> None:
    for side in range(1, 30):
        for patch in range(1, side + 1):
            for stride in range(1, patch + 1):
                windows = make_windows(side, patch, stride, cover=False)
                assert len(windows.starts) == math.floor((side - patch) / stride) + 1
                covered = make_windows(side, patch, stride, cover=True)
                assert covered.stops[-1] == side
                assert len(covered.starts) == math.ceil((side - patch) / stride) + 1
