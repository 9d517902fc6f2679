"""What the cells of the Relation Network's feature map show."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from heatcheck.benchmarks.relation_lessons import (
    Drawn,
    Lesson,
    batch_cells,
    batch_counts,
    batch_images,
    cell_counts,
    cell_starts,
    cells_of,
    deciding_cells,
    draw_images,
    focus_cells,
    generator_of,
    make_lesson,
    plain,
)
from heatcheck.benchmarks.relation_questions import SimpleQuestions
from heatcheck.benchmarks.relation_scenes import TrainingScenes, training_scenes
from heatcheck.data.raycaster import render
from heatcheck.models.relation_network import RelationNetwork


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> TrainingScenes:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEATCHECK_CACHE", str(tmp_path_factory.mktemp("cache")))
        return training_scenes("heldout", 5, size=64, block=2)


@pytest.fixture(scope="module")
def lesson(scenes: TrainingScenes) -> Lesson:
    return make_lesson(scenes)


def test_training_scenes_are_those_of_their_split(scenes: TrainingScenes) -> None:
    assert len(scenes) == 5
    for row in (0, 4):
        drawn = render(scenes.scene(row), 64)
        assert np.array_equal(scenes.images[row], drawn.image)
        assert np.array_equal(scenes.owners[row], drawn.owner)
        assert scenes.scene(row).index == 1_000_000 + row
        assert len(scenes.kinds[row]) == len(scenes.scene(row).objects)


def test_training_scenes_are_rendered_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEATCHECK_CACHE", str(tmp_path))
    first = training_scenes("train", 2, size=16)
    monkeypatch.setattr("heatcheck.benchmarks.relation_scenes.render", None)
    assert np.array_equal(training_scenes("train", 2, size=16).images, first.images)
    with pytest.raises(ValueError, match="at least one scene"):
        training_scenes("train", 0)


@pytest.mark.parametrize(("size", "starts"), [(64, [0, 23, 39]), (128, [0, 23, 39, 55, 71, 87, 103])])
def test_cells_start_in_the_middle_of_what_they_see(size: int, starts: list[int]) -> None:
    assert cell_starts(size) == starts
    images = torch.zeros(1, 3, size, size, dtype=torch.float64, requires_grad=True)
    network = RelationNetwork(size).double().eval()
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.ones_(module.weight)
            nn.init.ones_(module.get_parameter("bias"))
    (gradient,) = torch.autograd.grad(network.cnn(images)[0, :, 1, 1].sum(), images)
    seen = gradient[0, 0].sum(dim=1).nonzero().flatten()
    assert (int(seen.min()), int(seen.max())) == (16, 46)
    assert abs((starts[1] + starts[2] - 1) / 2 - (16 + 46) / 2) <= 0.5


def test_every_pixel_of_an_object_is_in_one_cell(scenes: TrainingScenes) -> None:
    counts = cell_counts(scenes.owners)
    assert counts.shape == (5, 9, 10)
    for item in range(10):
        assert np.array_equal(counts[:, :, item].sum(axis=1), (scenes.owners == item).sum(axis=(1, 2)))
    assert counts[2, 4, 0] == (scenes.owners[2, 23:39, 23:39] == 0).sum()
    assert counts[2, 5, 1] == (scenes.owners[2, 23:39, 39:] == 1).sum()


def test_mirrored_images_come_with_what_their_cells_show(scenes: TrainingScenes, lesson: Lesson) -> None:
    drawn = Drawn(np.array([1, 1]), np.array([False, True]))
    images = batch_images(lesson, drawn)
    assert torch.equal(images[0].flip(-1), images[1])
    assert torch.equal(images[0], torch.from_numpy(scenes.images[1]).permute(2, 0, 1) / 255)
    expected = cell_counts(np.stack([scenes.owners[1], scenes.owners[1][:, ::-1]]))
    assert np.array_equal(batch_counts(lesson, drawn), expected)


def test_images_are_not_mirrored_in_place(lesson: Lesson) -> None:
    before = lesson.images.copy()
    batch_images(lesson, Drawn(np.arange(5), np.ones(5, dtype=np.bool_)))
    assert np.array_equal(lesson.images, before)


def test_cells_name_the_object_they_mostly_show(scenes: TrainingScenes, lesson: Lesson) -> None:
    cells = batch_cells(lesson, plain(np.arange(5)))
    counts = batch_counts(lesson, plain(np.arange(5)))
    for row, cell in torch.nonzero(cells.weights).tolist():
        owner = counts[row, cell].argmax()
        assert cells.kinds[row, cell].tolist() == scenes.kinds[row][owner].tolist()
        assert cells.weights[row, cell] == pytest.approx(min(counts[row, cell, owner] / 64, 1))
    assert not (cells.empty & (cells.weights > 0)).any()
    assert torch.equal(cells.empty, torch.from_numpy(counts.sum(axis=2) == 0))


def test_cells_of_an_object_are_those_it_owns_and_its_best() -> None:
    counts = np.zeros((1, 4, 10), dtype=np.int16)
    counts[0, :, 0] = [40, 12, 5, 0]
    counts[0, :, 1] = [50, 0, 9, 0]
    objects = np.zeros((1, 10), dtype=np.bool_)
    objects[0, 0] = True
    assert cells_of(counts, objects).tolist() == [[True, True, False, False]]  # its best cell shows more of 1
    objects[0] = False
    objects[0, 3] = True
    assert not cells_of(counts, objects).any()


def test_the_focus_begins_with_the_best_cell_of_each_object(lesson: Lesson) -> None:
    counts = batch_counts(lesson, plain(np.arange(5)))
    focus = focus_cells(counts, 9)
    assert all(len(set(row)) == 9 for row in focus.tolist())
    for row in range(5):
        best = {int(counts[row, :, item].argmax()) for item in range(10) if counts[row, :, item].any()}
        assert set(focus[row, : len(best)].tolist()) == best


def test_questions_without_a_relation_are_decided_by_pairs_with_any_second_cell(lesson: Lesson) -> None:
    source = SimpleQuestions([rows.astype(np.int8) for rows in lesson.kinds])
    rows = np.arange(5)
    asked = source.draw(rows, np.zeros(5, dtype=np.bool_), np.random.default_rng(0))
    counts = batch_counts(lesson, plain(rows))
    deciding = deciding_cells(counts, asked)
    assert deciding.second.all()
    assert deciding.known.all()
    assert deciding.named.all()
    assert torch.equal(deciding.first, torch.from_numpy(cells_of(counts, asked.targets)))
    related = asked._replace(references=np.roll(asked.targets, 1, axis=1))
    assert not deciding_cells(counts, related).second.all()


def test_steps_are_drawn_from_their_number_alone(lesson: Lesson) -> None:
    draws = [draw_images(np.arange(5), 6, generator_of(0, "stage", step)) for step in (3, 3, 4)]
    assert np.array_equal(draws[0].rows, draws[1].rows)
    assert not (
        np.array_equal(draws[0].rows, draws[2].rows) and np.array_equal(draws[0].mirrored, draws[2].mirrored)
    )
    assert draws[0].repeated(2).rows.tolist() == np.repeat(draws[0].rows, 2).tolist()
    assert len(lesson.first(2)) == 2
