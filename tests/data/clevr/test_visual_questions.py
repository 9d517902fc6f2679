"""Batches of visual questions."""

from collections.abc import Sequence

import pytest
import torch
from tests.data.clevr.tiny_release import write_release

from heatcheck.data.clevr.batch import VisualQuestions, load_questions
from heatcheck.data.clevr.ground_truth import GROUND_TRUTHS
from heatcheck.data.clevr.mask_images import Owners, Pixels
from heatcheck.data.clevr.release import Release, open_release
from heatcheck.data.clevr.vocabulary import ANSWERS, tokenize


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return open_release(write_release(tmp_path_factory.mktemp("release"), stored=False), kind="complex")


def load(release: Release, rows: int | Sequence[int], size: int = 32) -> VisualQuestions:
    return load_questions(release, "complex", rows, size)


def test_a_batch_has_one_image_one_text_and_one_mask_per_question(release: Release) -> None:
    batch = load(release, 4)
    assert len(batch) == 4
    assert batch.name == "clevr-xai-complex"
    assert batch.ids == tuple(f"clevr-xai/complex/{number}" for number in (2, 9, 10, 100))
    assert (batch.images.shape, batch.images.dtype) == ((4, 3, 32, 32), torch.float32)
    assert batch.questions == release.questions
    assert batch.texts == tuple(item.text for item in release.questions)
    assert [ANSWERS[answer] for answer in batch.answers] == [item.answer for item in release.questions]
    assert set(batch.masks) == set(batch.defined) == set(release.ground_truths)
    for row, item in enumerate(release.questions):
        assert torch.equal(batch.images[row], release.image(item.image, 32))
        words = tokenize(item.text)
        assert batch.lengths[row] == len(words)
        assert tuple(batch.tokens[row, : len(words)].tolist()) == words
        assert not batch.tokens[row, len(words) :].any()
        for name in release.ground_truths:
            mask = release.ground_truth(name, item, 32)
            assert bool(batch.defined[name][row]) == (mask is not None)
            assert torch.equal(batch.masks[name][row], torch.zeros(32, 32) > 0 if mask is None else mask)


def test_areas_are_fractions_of_the_image_and_undefined_without_a_mask(release: Release) -> None:
    batch = load(release, 4)
    assert batch.defined["unique"].tolist() == [True, False, False, True]
    areas = batch.target_areas["unique"]
    assert areas.isnan().tolist() == [False, True, True, False]
    assert areas[0] == batch.masks["unique"][0].sum() / 32**2
    assert (batch.target_areas["all"] > 0).all()


@pytest.mark.parametrize("rows", [[3, 0], [2], [1, 1], []])
def test_taking_rows_gives_what_loading_them_gives(release: Release, rows: list[int]) -> None:
    taken, loaded = load(release, 4).take(rows), load(release, rows)
    assert (taken.name, taken.ids, taken.texts) == (loaded.name, loaded.ids, loaded.texts)
    assert taken.questions == loaded.questions
    for name in ("images", "lengths", "answers"):
        assert torch.equal(getattr(taken, name), getattr(loaded, name))
    for name in release.ground_truths:
        assert torch.equal(taken.masks[name], loaded.masks[name])
        assert torch.equal(taken.defined[name], loaded.defined[name])
    # Padding differs, words do not.
    width = loaded.tokens.shape[1]
    assert torch.equal(taken.tokens[:, :width], loaded.tokens)


def test_a_number_of_questions_means_the_first_ones(release: Release) -> None:
    assert load(release, 2).ids == load(release, [0, 1]).ids
    assert load(release, 0).ids == ()


def test_the_result_does_not_depend_on_threads(release: Release) -> None:
    one, many = (load_questions(release, "complex", 4, 24, workers=workers) for workers in (1, 3))
    assert torch.equal(one.images, many.images)
    assert all(torch.equal(one.masks[name], many.masks[name]) for name in one.masks)


def test_every_image_is_read_once_and_only_where_it_is_asked_about(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, str]] = []
    pixels, owners = Release.pixels, Release.owners

    def count_pixels(self: Release, index: int, size: int = 128) -> Pixels:
        read.append((index, "image"))
        return pixels(self, index, size)

    def count_owners(self: Release, index: int) -> Owners:
        read.append((index, "mask"))
        return owners(self, index)

    monkeypatch.setattr(Release, "pixels", count_pixels)
    monkeypatch.setattr(Release, "owners", count_owners)
    load(release, [0, 2, 0])
    assert sorted(read) == [(0, "image"), (0, "mask")]


def test_ground_truths_can_be_chosen(release: Release) -> None:
    batch = load_questions(release, "complex", 4, 32, names=GROUND_TRUTHS)
    assert tuple(batch.masks) == GROUND_TRUTHS
    assert load_questions(release, "complex", 4, 32, names=()).masks == {}
    both = load_questions(release, "complex", [2], 32, first="both-branches")
    name = "unique-first-nonempty"
    assert both.masks[name][0].sum() > batch.masks[name][2].sum()


@pytest.mark.parametrize(
    ("rows", "message"), [([4], "row 4"), ([-1], "row -1"), (5, "5 questions"), (-1, "-1")]
)
def test_questions_that_do_not_exist_are_refused(
    release: Release, rows: int | list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load(release, rows)


def test_the_other_kind_of_questions_is_refused(release: Release) -> None:
    with pytest.raises(ValueError, match=r"opened for complex questions, simple ones were asked for"):
        load_questions(release, "simple", 1)
