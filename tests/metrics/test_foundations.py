"""Flags, orderings, resizing and asking the model: what all metrics share."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from heatcheck.metrics.composites import segments
from heatcheck.metrics.flags import (
    CONSTANT,
    EMPTY,
    FLAGS,
    NONFINITE,
    OK,
    check_heatmaps,
    count_flags,
    is_flagged,
    map_flags,
    override,
)
from heatcheck.metrics.ordering import Order, orders_of, pixel_ranks
from heatcheck.metrics.pooling import resize_heatmaps
from heatcheck.metrics.scoring import ask, ask_all, images_per_call, softmax_of
from heatcheck.runtime.memory import memory_budget
from heatcheck.runtime.seeds import CounterGenerator

Draw = Callable[..., Tensor]


def test_each_map_gets_the_first_flag_that_applies() -> None:
    maps = torch.zeros(5, 2, 2)
    maps[1] = -3
    maps[2, 0, 0] = torch.nan
    maps[3, 1, 1] = -torch.inf
    maps[4, 0, 1] = 1
    assert map_flags(maps).tolist() == [CONSTANT, CONSTANT, NONFINITE, NONFINITE, OK]
    assert map_flags(maps, empty="zero").tolist() == [EMPTY, CONSTANT, NONFINITE, NONFINITE, OK]
    assert map_flags(maps, empty="nonpositive").tolist() == [EMPTY, EMPTY, NONFINITE, NONFINITE, OK]


def test_flags_are_counted_selected_and_replaced() -> None:
    flags = map_flags(torch.tensor([[[1.0, 2.0]], [[1.0, 1.0]], [[torch.nan, 1.0]]]))
    assert count_flags(flags) == {**dict.fromkeys(FLAGS, 0), OK: 1, CONSTANT: 1, NONFINITE: 1}
    assert is_flagged(flags, OK, CONSTANT).tolist() == [True, True, False]
    replaced = override(flags, NONFINITE, torch.tensor([True, False, False]))
    assert replaced.tolist() == [NONFINITE, CONSTANT, NONFINITE]
    assert flags.tolist() == [OK, CONSTANT, NONFINITE]


def test_no_map_has_no_flag() -> None:
    assert map_flags(torch.zeros(0, 3, 3)).shape == (0,)


@pytest.mark.parametrize("shape", [(3, 3), (2, 1, 3, 3), (2, 0, 3)])
def test_heatmaps_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"\(N, H, W\)"):
        check_heatmaps(torch.zeros(shape))


def test_the_largest_pixel_is_changed_first_and_ties_go_row_by_row() -> None:
    heatmaps = torch.tensor([[[1.0, 3.0], [3.0, -5.0]]])
    ranks = pixel_ranks(heatmaps, [Order(0, None)], CounterGenerator(0, ()))
    assert ranks.tolist() == [[[2, 0], [1, 3]]]
    assert ranks.dtype == torch.int32


def test_random_orders_respect_values_and_depend_on_image_and_sample_only() -> None:
    heatmaps = torch.tensor([[[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]]] * 2)
    generator = CounterGenerator(0, (7, 8))
    orders = [Order(row, sample) for row in (0, 1) for sample in range(20)]
    ranks = pixel_ranks(heatmaps, orders, generator)
    assert (ranks[:, 1] < 3).all()
    assert (ranks.flatten(1).sort(1).values == torch.arange(6)).all()
    assert len({tuple(rank.flatten().tolist()) for rank in ranks}) > 10
    alone = pixel_ranks(heatmaps[1:], [Order(0, 3)], generator.take([1]))
    assert torch.equal(alone[0], ranks[23])


def test_mean_order_is_uniform_among_tied_pixels() -> None:
    heatmaps = torch.zeros(1, 2, 2)
    orders = orders_of(heatmaps, [0], "mean", 4000)
    ranks = pixel_ranks(heatmaps, orders, CounterGenerator(0, (1,))).double().flatten(1)
    torch.testing.assert_close(ranks.mean(0), torch.full((4,), 1.5, dtype=torch.float64), rtol=0, atol=0.1)


def test_resizing_is_bilinear_without_aligned_corners(draw: Draw) -> None:
    heatmaps = draw(2, 3, 4)
    expected = F.interpolate(heatmaps[:, None].double(), size=(7, 9), mode="bilinear", align_corners=False)[
        :, 0
    ]
    torch.testing.assert_close(resize_heatmaps(heatmaps, (7, 9)), expected)
    assert torch.equal(resize_heatmaps(heatmaps, (3, 4)), heatmaps.double())
    assert resize_heatmaps(heatmaps[:0], (7, 9)).shape == (0, 7, 9)


def test_a_constant_map_stays_constant_and_a_broken_one_broken_at_any_size() -> None:
    maps = torch.full((60, 7, 5), 1.0) * torch.linspace(0.01, 3, 60).view(60, 1, 1)
    maps[7, 2, 2], maps[8, 2, 2] = torch.nan, torch.inf
    for size in ((224, 224), (13, 3), (8, 11)):
        flags = map_flags(resize_heatmaps(maps, size))
        assert flags[[7, 8]].tolist() == [NONFINITE, NONFINITE]
        assert set(np.delete(flags, [7, 8]).tolist()) == {CONSTANT}


@pytest.mark.parametrize(("start", "stop", "points"), [(0, 12, 4), (3, 11, 4), (5, 6, 4), (2, 9, 1)])
def test_segments_cover_every_pair_once_and_stay_within_one_ordering(
    start: int, stop: int, points: int
) -> None:
    pairs = [
        (order, point)
        for order, low, high in segments(slice(start, stop), points)
        for point in range(low, high)
    ]
    assert pairs == [divmod(pair, points) for pair in range(start, stop)]


def test_probabilities_are_the_softmax_of_the_logits_in_evaluation_mode(
    classifier: nn.Sequential, draw: Draw
) -> None:
    images = draw(3, 3, 8, 8)
    with torch.no_grad():
        expected = classifier(images).softmax(1)
    classifier.train()
    torch.testing.assert_close(ask(softmax_of(classifier), images), expected.double())
    assert classifier.training


def test_a_module_of_probabilities_is_asked_in_evaluation_mode(classifier: nn.Sequential, draw: Draw) -> None:
    images = draw(5, 3, 8, 8)
    module = nn.Sequential(classifier, nn.Softmax(1)).train()
    expected = ask(softmax_of(classifier), images)
    with memory_budget("100MB", chunk=2):
        torch.testing.assert_close(ask_all(module, images), expected, rtol=0, atol=1e-6)
    assert all(part.training for part in module.modules())


def test_the_chunk_follows_the_budget_for_modules_and_plain_functions(
    classifier: nn.Sequential, draw: Draw
) -> None:
    images = draw(1, 3, 32, 32)
    with memory_budget("1MB", chunk=4096):
        module, function = (
            images_per_call(softmax_of(classifier), images),
            images_per_call(lambda x: x, images),
        )
    with memory_budget("10MB", chunk=4096):
        assert images_per_call(softmax_of(classifier), images) > module > 1
        assert images_per_call(lambda x: x, images) > function == 1


@pytest.mark.parametrize(
    "answer",
    [lambda images: images, lambda images: images[:1, :, 0, 0], lambda images: [0.5] * len(images)],
)
def test_an_answer_of_another_shape_is_refused(answer: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(ValueError, match=r"must return a tensor \(2, K\)"):
        ask(answer, torch.zeros(2, 3, 4, 4))
