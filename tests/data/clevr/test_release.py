"""Archives in the layout of CLEVR-XAI: what is read from them, and what their masks show."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.clevr.recorded import GOLDEN, from_runs, recorded_owners
from tests.data.clevr.tiny_release import (
    COMPLEX,
    COMPLEX_FILE,
    SCENES,
    SIMPLE,
    by_number,
    scene,
    write_images,
)

from heatcheck.data.clevr.ground_truth import GROUND_TRUTHS, Kind
from heatcheck.data.clevr.mask_images import object_mask
from heatcheck.data.clevr.mask_stream import each_ground_truth
from heatcheck.data.clevr.program import execute
from heatcheck.data.clevr.release import Release, Source, open_release
from heatcheck.data.scene_graph import relations

CASES = {case["name"]: case["ground_truths"] for case in GOLDEN["ground_truth_programs"]}


@pytest.fixture(params=["simple", "complex"])
def release(archive: Path, request: pytest.FixtureRequest) -> Release:
    return open_release(archive, kind=request.param)


def test_questions_come_sorted_by_number_with_their_programs(release: Release) -> None:
    written = sorted(SIMPLE if release.kind == "simple" else COMPLEX)
    assert [(item.index, item.image, item.text) for item in release.questions] == [
        entry[:3] for entry in written
    ]
    assert {item.template_file for item in release.questions} == {"made_by_hand.json"}
    assert {item.family for item in release.questions} == {3}
    for item in release.questions:
        assert execute(item.program, release.scenes[item.image].facts) == item.outputs


def test_answers_are_words_also_where_files_hold_numbers_and_truth_values(archive: Path) -> None:
    answers = [item.answer for item in open_release(archive, kind="complex").questions]
    assert answers == ["yes", "0", "no", "sphere"]


def test_equal_parts_of_programs_are_kept_once_but_truth_values_are_no_numbers(archive: Path) -> None:
    release = open_release(archive, kind="complex")
    first, *others = release.questions
    assert all(item.program[0] is first.program[0] for item in others)
    assert {type(item.outputs[-1]) for item in release.questions} == {bool, int, str}


STORED: list[tuple[Kind, str, str, str]] = [
    ("simple", "single", "simple_material", "single_object (last filter, intended)"),
    ("simple", "all", "simple_material", "all_objects"),
    ("complex", "unique", "same_size", "unique"),
    ("complex", "unique-first-nonempty", "same_size", "unique_first_nonempty"),
    ("complex", "union", "same_size", "union"),
]


@pytest.mark.parametrize("source", ["stored", "computed"])
@pytest.mark.parametrize("stored", STORED)
def test_masks_are_the_recorded_ones_whether_stored_or_computed(
    archive: Path, stored: tuple[Kind, str, str, str], source: Source
) -> None:
    kind, name, case, key = stored
    release = open_release(archive, kind=kind)
    assert release.stored[name] == {2}
    mask = release.ground_truth(name, by_number(release, 2), source=source)
    assert mask is not None
    assert (mask.dtype, mask.shape) == (torch.bool, (128, 128))
    np.testing.assert_array_equal(mask.numpy(), from_runs(CASES[case][key]["runs_128x128"]))


def test_a_question_without_a_stored_file_has_no_ground_truth(archive: Path) -> None:
    release = open_release(archive, kind="simple")
    assert release.ground_truth("single", by_number(release, 10)) is None
    assert release.ground_truth("single", by_number(release, 10), source="computed") is not None


@pytest.mark.parametrize(("number", "case"), [(9, "count_empty"), (10, "compare_integer_both")])
@pytest.mark.parametrize(
    ("name", "key"), [("unique-first-nonempty", "unique_first_nonempty"), ("union", "union")]
)
def test_computed_masks_have_the_recorded_number_of_pixels(
    archive: Path, number: int, case: str, name: str, key: str
) -> None:
    recorded = CASES[case][key]
    release = open_release(archive, kind="complex")
    mask = release.ground_truth(name, by_number(release, number), source="computed")
    assert (0 if mask is None else int(mask.sum())) == recorded.get("n_128x128", 0)


def test_without_folders_of_ground_truths_masks_are_computed(own: Path) -> None:
    for folder in own.glob("ground_truth_*"):
        shutil.rmtree(folder)
    release = open_release(own, kind="simple")
    assert release.stored == {}
    assert all(release.ground_truth("single", item) is not None for item in release.questions)


def test_other_sizes_and_modes_are_computed_although_masks_are_stored(archive: Path) -> None:
    release = open_release(archive, kind="complex")
    comparison = by_number(release, 10)
    assert release.ground_truth("union", comparison) is None
    small = release.ground_truth("union", comparison, 64)
    assert small is not None
    assert small.shape == (64, 64)
    both = release.ground_truth("unique-first-nonempty", comparison, first="both-branches")
    published = release.ground_truth("unique-first-nonempty", comparison, source="computed")
    assert both is not None
    assert published is not None
    assert both.sum() > published.sum() == 640


def test_all_objects_are_the_complement_of_the_background_before_resizing(release: Release) -> None:
    for item in release.questions:
        owners, everything = release.owners(item.image), release.targets("all", item)
        assert everything is not None
        np.testing.assert_array_equal(object_mask(owners, everything), owners != -1)


def test_recorded_relations_follow_from_positions_and_exclude_their_opposites() -> None:
    recorded = scene(0)
    found = relations([item["3d_coords"] for item in recorded["objects"]], recorded["directions"])
    assert found == recorded["relationships"]
    for one, other in (("left", "right"), ("front", "behind")):
        for index, row in enumerate(found[one]):
            assert all(index not in found[one][place] for place in row)
            assert all(index in found[other][place] for place in row)


def test_each_mask_lies_inside_the_next_larger_one(archive: Path) -> None:
    release = open_release(archive, kind="complex")
    chain = ("unique", "unique-first-nonempty", "union", "all")
    found = {
        (item.row, item.name): item.mask
        for item in each_ground_truth(release, release.questions, GROUND_TRUTHS, 96, source="computed")
    }
    for row in range(len(release.questions)):
        masks = [found.get((row, name), torch.zeros(96, 96, dtype=torch.bool)) for name in chain]
        assert all(not (a & ~b).any() for a, b in itertools.pairwise(masks))
        assert masks[-1].any()


@pytest.mark.parametrize("workers", [1, 3])
def test_masks_come_scene_by_scene_whatever_the_number_of_threads(archive: Path, workers: int) -> None:
    release = open_release(archive, kind="complex")
    order = [
        (item.row, item.name)
        for item in each_ground_truth(
            release, release.questions, ("all",), 32, workers=workers, label="count"
        )
    ]
    assert [release.questions[row].image for row, _ in order] == [0, 0, 7, 7]


def test_owners_are_those_that_were_painted(archive: Path) -> None:
    release = open_release(archive, kind="simple")
    np.testing.assert_array_equal(release.owners(0), recorded_owners())
    np.testing.assert_array_equal(release.owners(7), recorded_owners()[::-1])


def test_images_are_squashed_bilinearly_with_antialiasing(archive: Path) -> None:
    release = open_release(archive, kind="simple")
    with Image.open(archive / "images" / "CLEVR_unique_000007.png") as image:
        expected = np.asarray(image.resize((96, 96), Image.Resampling.BILINEAR), dtype=np.float32) / 255
    loaded = release.image(7, 96)
    assert (loaded.shape, loaded.dtype) == ((3, 96, 96), torch.float32)
    np.testing.assert_array_equal(loaded.permute(1, 2, 0).numpy(), expected)


def test_images_of_the_wanted_size_are_not_touched(own: Path) -> None:
    write_images(own, 7, (96, 96))
    release = open_release(own, kind="simple")
    with Image.open(own / "images" / "CLEVR_unique_000007.png") as image:
        np.testing.assert_array_equal(release.pixels(7, 96), np.asarray(image))


def test_images_and_masks_may_lie_in_a_root_of_their_own(tmp_path: Path, archive: Path) -> None:
    home, pictures = tmp_path / "CLEVR-XAI_v1.0", tmp_path / "CLEVR-XAI_v1.0_images_masks"
    shutil.copytree(archive, home)
    pictures.mkdir()
    for kind in ("images", "masks"):
        (home / kind).rename(pictures / kind)
    expected = open_release(archive, kind="complex")
    for root, images_root in ((home, pictures), (home, tmp_path), (home, None), (tmp_path, None)):
        release = open_release(root, images_root, kind="complex")
        assert (release.root, release.images_root) == (home, pictures)
        assert release.questions == expected.questions
        np.testing.assert_array_equal(release.owners(0), expected.owners(0))


def test_scenes_may_lie_in_files_of_their_own(own: Path) -> None:
    expected = open_release(own, kind="simple").scenes
    (own / SCENES).unlink()
    (own / "scenes").mkdir()
    for index in (7, 0):
        (own / "scenes" / f"{index}.json").write_text(json.dumps(scene(index)), encoding="utf-8")
    assert open_release(own, kind="simple").scenes == expected


def test_the_dialect_of_clevr_is_read_too(own: Path) -> None:
    expected = open_release(own, kind="complex").questions
    content = json.loads((own / COMPLEX_FILE).read_text(encoding="utf-8"))
    for entry in content["questions"]:
        del entry["template_filename"]
        for node in entry["program"]:
            node["function"] = node.pop("type")
            del node["_output"]
    (own / COMPLEX_FILE).write_text(json.dumps(content), encoding="utf-8")
    found = open_release(own, kind="complex").questions
    assert [(item.program, item.outputs) for item in found] == [
        (item.program, item.outputs) for item in expected
    ]
    assert {item.template_file for item in found} == {""}


def test_opening_reads_no_image_and_no_mask(own: Path) -> None:
    for path in (*own.glob("images/*"), *own.glob("masks/*"), *own.rglob("*.npy")):
        path.write_bytes(b"nothing")
    assert len(open_release(own, kind="simple").questions) == len(SIMPLE)
