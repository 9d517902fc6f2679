from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from heatcheck.metrics.flags import EMPTY, OK
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pooling import POOLINGS, pool

Draw = Callable[..., Tensor]

every_dtype = pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=str)


@pytest.fixture
def masks() -> Tensor:
    masks = torch.zeros(5, 8, 8, dtype=torch.bool)
    masks[:, 1:4, 2:6] = True
    return masks


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("pooling", [*POOLINGS, "sum"])
@pytest.mark.parametrize("fault", [torch.nan, torch.inf, -torch.inf])
@every_dtype
def test_case_2_pooling_keeps_a_broken_map_in_sight(
    draw: Draw, pooling: str, fault: float, dtype: torch.dtype
) -> None:
    heatmaps = draw(4, 3, 5, 5).to(dtype)
    expected = pool(heatmaps, pooling)
    heatmaps[1, 2, 3, 3] = fault
    found = pool(heatmaps, pooling)
    assert found[1].isnan().all()
    same(found[[0, 2, 3]], expected[[0, 2, 3]])


@pytest.mark.parametrize("pooling", ["sum,abs", "max-norm", "l1-norm", "l2-norm", "l2-norm,sq"])
def test_case_4_absolute_poolings_score_a_negative_map_as_its_negation(
    draw: Draw, masks: Tensor, pooling: str
) -> None:
    heatmaps = draw(5, 3, 8, 8, seed=4).abs()
    assert torch.equal(pool(-heatmaps, pooling), pool(heatmaps, pooling))
    for metric in (relevance_mass, relevance_rank):
        found, expected = (metric(pool(maps, pooling), masks) for maps in (-heatmaps, heatmaps))
        same(found.values, expected.values)
        assert set(found.flags.tolist()) == {OK}


@pytest.mark.parametrize("pooling", [name for name in POOLINGS if "pos" in name])
def test_case_4_positive_poolings_empty_a_negative_map(draw: Draw, masks: Tensor, pooling: str) -> None:
    heatmaps = draw(5, 3, 8, 8, seed=4).abs()
    heatmaps[2] *= -1
    for metric in (relevance_mass, relevance_rank):
        found = metric(pool(heatmaps, pooling), masks)
        assert found.flags.tolist() == [OK, OK, EMPTY, OK, OK]
        assert found.values.isnan().tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("name", POOLINGS)
def test_poolings_of_one_nonnegative_channel_coincide_up_to_the_square(draw: Draw, name: str) -> None:
    heatmaps = draw(3, 1, 5, 5).abs().double()
    expected = heatmaps[:, 0] ** (2 if name.endswith("sq") else 1)
    torch.testing.assert_close(pool(heatmaps, name), expected)


def test_words_of_a_pooling_apply_from_left_to_right() -> None:
    heatmaps = torch.tensor([3.0, -4.0]).view(1, 2, 1, 1)
    expected = {
        "sum,abs": 1,
        "sum,pos": 0,
        "max-norm": 4,
        "l1-norm": 7,
        "l2-norm": 5,
        "l2-norm,sq": 25,
        "pos,sum": 3,
        "pos,max-norm": 3,
        "pos,l2-norm": 3,
        "pos,l2-norm,sq": 9,
        "sum": -1,
    }
    assert {name: float(pool(heatmaps, name)) for name in (*POOLINGS, "sum")} == expected


def test_pooling_leaves_its_input_alone_and_names_what_it_refuses(draw: Draw) -> None:
    heatmaps = draw(4, 3, 5, 5)
    copy = heatmaps.clone()
    for name in (*POOLINGS, "sum"):
        pool(heatmaps, name)
    assert torch.equal(heatmaps, copy)
    with pytest.raises(ValueError, match="unknown pooling 'mean'; known: sum, sum,abs"):
        pool(heatmaps, "mean")
    with pytest.raises(ValueError, match=r"\(N, C, H, W\)"):
        pool(heatmaps[0], "sum")
