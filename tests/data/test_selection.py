"""The rule that picks the images to explain."""

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from heatcheck.data.selection import list_digest, select_images

IDS = tuple(f"image{row:02d}" for row in range(40))
TARGETS = torch.arange(40) % 7


def predictions(wrong: Sequence[int] = ()) -> Tensor:
    guesses = TARGETS.clone()
    guesses[list(wrong)] += 1
    return guesses


def test_the_draw_is_the_permutation_of_the_sorted_eligible_images() -> None:
    wrong, hidden, listed = {3, 4}, {10}, {IDS[20]}
    visible = [0.24 if row in hidden else 0.25 for row in range(40)]
    chosen = select_images(IDS, TARGETS, predictions(tuple(wrong)), n=10, visible=visible, blacklist=listed)
    eligible = [row for row in range(40) if row not in wrong | hidden | {20}]
    drawn = [eligible[k] for k in np.random.RandomState(0).permutation(len(eligible))]
    assert list(chosen.test) == drawn[:10]
    assert list(chosen.held_out) == drawn[10:20]
    assert (chosen.n_eligible, chosen.n_blacklisted, chosen.n_wrong, chosen.n_hidden) == (36, 1, 2, 1)


def test_the_order_of_the_archive_does_not_matter() -> None:
    order = np.random.default_rng(1).permutation(40).tolist()
    straight = select_images(IDS, TARGETS, predictions((5,)), n=8)
    shuffled_ids = [IDS[row] for row in order]
    shuffled = select_images(shuffled_ids, TARGETS[order], predictions((5,))[order], n=8)
    assert [shuffled_ids[row] for row in shuffled.test] == [IDS[row] for row in straight.test]
    assert shuffled.test_sha256 == straight.test_sha256


def test_test_and_held_out_images_are_different() -> None:
    chosen = select_images(IDS, TARGETS, predictions(), n=20)
    assert not set(chosen.test) & set(chosen.held_out)
    assert chosen.test_sha256 != chosen.held_out_sha256


def test_the_digest_is_that_of_the_names_one_a_line() -> None:
    assert list_digest(["a", "b"]) == hashlib.sha256(b"a\nb\n").hexdigest()
    chosen = select_images(IDS, TARGETS, predictions(), n=3, n_held_out=0)
    assert chosen.test_sha256 == list_digest([IDS[row] for row in chosen.test])
    assert chosen.held_out == ()


def test_another_seed_draws_other_images() -> None:
    first, second = (select_images(IDS, TARGETS, predictions(), n=10, seed=seed).test for seed in (0, 1))
    assert first != second


def test_too_few_images_are_refused_with_the_reasons() -> None:
    with pytest.raises(
        ValueError, match=r"37 of 40 images can be taken, 30 \+ 30 .* 1 on the blacklist, 2 classified"
    ):
        select_images(IDS, TARGETS, predictions((0, 1)), n=30, blacklist={IDS[2]})


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"40 ids, but {'predictions': 39}"):
        select_images(IDS, TARGETS, predictions()[:39], n=1)


def test_a_name_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="ids occur twice"):
        select_images([*IDS[:39], IDS[0]], TARGETS, predictions(), n=1)


def test_logits_instead_of_predictions_are_refused() -> None:
    with pytest.raises(ValueError, match="predictions must be classes"):
        select_images(IDS, TARGETS, torch.zeros(40, 7), n=1)
