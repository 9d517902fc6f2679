"""Pictures of a real run: what is removed is what the levels say."""

from typing import Any

import numpy as np
import pytest

from heatcheck.benchmarks import roar_examples


def test_removed_and_kept_pixels_are_each_other_s_complement(digits_run: Any) -> None:
    results, store = digits_run
    names = ["random", "sobel", "grad", "sq-grad", "leaky"]
    example = roar_examples.removals(results, store, names, percents=(10, 50))
    assert example.removed.shape == example.kept.shape == (5, 2, 8, 8, 3)
    assert example.labels == ("Random", "Sobel", "GRAD", "SQ-GRAD", "LEAKY")
    mean = results.data.mean.double().numpy()
    both = example.removed + example.kept
    # Each pixel is the image in one and the mean color in the other.
    assert np.allclose(both, (example.image + mean)[None, None], atol=1e-6)
    changed = np.abs(example.removed - example.image).max(-1) > 1e-6
    assert (changed.sum((2, 3)) <= np.array([6, 32])).all()


def test_percentages_that_were_not_run_are_exact_too(digits_run: Any) -> None:
    results, store = digits_run
    counts = {}
    for percent in (10, 20):
        masks = roar_examples.masks(results, store, ["grad", "random"], percent=percent, n_classes=2)
        counts[percent] = (masks.kept == 0).sum((2, 3))
    assert (counts[10] == 6).all()
    assert (counts[20] == 12).all()


def test_masks_show_pairs_of_one_class_and_leaky_ones_are_equal_within(digits_run: Any) -> None:
    results, store = digits_run
    masks = roar_examples.masks(results, store, ["leaky", "grad"], percent=70, n_classes=2)
    assert masks.titles[0] == masks.titles[1] != masks.titles[2] == masks.titles[3]
    leaky = masks.kept[0]
    assert np.array_equal(leaky[0], leaky[1])
    assert not np.array_equal(leaky[0], leaky[2])


def test_an_unknown_ranking_is_named(digits_run: Any) -> None:
    results, store = digits_run
    with pytest.raises(KeyError, match="no ranking oracle"):
        roar_examples.removals(results, store, ["oracle"])
