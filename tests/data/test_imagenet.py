"""Small archives laid out exactly like those of ImageNet."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from heatcheck.data.imagenet import read_imagenet
from heatcheck.data.imagenet_classes import class_indices, imagenet_names, imagenet_wnids
from heatcheck.data.imagenet_labels import (
    read_blacklist,
    read_class_map,
    read_ground_truth,
)

# Image number, class, and box in its 40 x 30 pixels.
IMAGES = (
    (1, "n01751748", (10, 5, 30, 25)),
    (2, "n01440764", (0, 0, 40, 30)),
    (3, "n02124075", (0, 10, 2, 20)),
    (4, "n01440764", (5, 5, 12, 9)),
)
CLASSES = ("n01440764", "n01751748", "n02124075")
TABLE = "LOC_val_solution.csv"
TRUTH = "ILSVRC2012_validation_ground_truth.txt"
Maker = Callable[[Path], None]


def name(number: int) -> str:
    return f"ILSVRC2012_val_{number:08d}"


def save_image(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 30), (number * 40, 0, 0)).save(path, "JPEG")


def flat(root: Path) -> None:
    for number, _, _ in IMAGES:
        save_image(root / f"{name(number)}.JPEG", number)


def in_folders(root: Path) -> None:
    for number, wnid, _ in IMAGES:
        save_image(root / wnid / f"{name(number)}.JPEG", number)


def write_table(root: Path) -> None:
    rows = [f"{name(n)},{wnid} {' '.join(map(str, box))} " for n, wnid, box in reversed(IMAGES)]
    (root / TABLE).write_text("ImageId,PredictionString\n" + "\n".join(rows) + "\n", encoding="utf-8")


def write_xml(root: Path) -> None:
    folder = root / "Annotations" / "CLS-LOC" / "val"
    folder.mkdir(parents=True)
    for number, wnid, box in IMAGES:
        corners = "".join(
            f"<{tag}>{v}</{tag}>" for tag, v in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
        )
        (folder / f"{name(number)}.xml").write_text(
            f"<annotation><folder>val</folder><filename>{name(number)}</filename><source><database>ILSVRC_2012"
            "</database></source><size><width>40</width><height>30</height><depth>3</depth></size><segmented>0"
            f"</segmented><object><name>{wnid}</name><pose>Unspecified</pose><truncated>0</truncated><difficult>0"
            f"</difficult><bndbox>{corners}</bndbox></object></annotation>",
            encoding="utf-8",
        )


def write_truth(root: Path) -> None:
    folder = root / "ILSVRC2012_devkit_t12" / "data"
    folder.mkdir(parents=True)
    # The challenge numbers its classes in an order of its own.
    (folder / "map_clsloc.txt").write_text(
        "n02124075 1 cat\nn01440764 2 tench\nn01751748 3 snake\n", encoding="utf-8"
    )
    (folder / TRUTH).write_text("3\n2\n1\n2\n", encoding="utf-8")


def kaggle(root: Path) -> None:
    flat(root / "ILSVRC" / "Data" / "CLS-LOC" / "val")
    write_table(root)


def flat_with_xml(root: Path) -> None:
    flat(root)
    write_xml(root)


def flat_with_truth(root: Path) -> None:
    flat(root / "val")
    write_truth(root)


def folders_with_table(root: Path) -> None:
    in_folders(root / "val")
    write_table(root)


@pytest.mark.parametrize(
    ("make", "has_boxes"),
    [
        (kaggle, True),
        (flat_with_xml, True),
        (folders_with_table, True),
        (flat_with_truth, False),
        (in_folders, False),
    ],
)
def test_every_layout_gives_the_same_labels(make: Maker, has_boxes: bool, tmp_path: Path) -> None:
    make(tmp_path)
    archive = read_imagenet(tmp_path, classes=CLASSES)
    assert archive.ids == tuple(name(number) for number in (1, 2, 3, 4))
    assert archive.wnids == tuple(wnid for _, wnid, _ in IMAGES)
    assert archive.targets.tolist() == [1, 0, 2, 0]
    assert (archive.boxes is not None) == has_boxes
    if archive.boxes is not None:
        assert [boxes[0].corners for boxes in archive.boxes] == [box for _, _, box in IMAGES]


def test_class_indices_are_those_of_all_thousand_classes(tmp_path: Path) -> None:
    in_folders(tmp_path)
    assert read_imagenet(tmp_path, partial=True).targets.tolist() == [65, 0, 285, 0]


def test_class_names_and_word_net_ids_are_in_the_same_order() -> None:
    wnids, names = imagenet_wnids(), imagenet_names()
    assert len(set(wnids)) == len(set(names)) == 1000
    assert list(wnids) == sorted(wnids)
    known = {
        "n01440764": "tench",
        "n01751748": "sea snake",
        "n02124075": "Egyptian cat",
        "n15075141": "toilet tissue",
    }
    assert {wnid: names[wnids.index(wnid)] for wnid in known} == known


def test_images_and_boxes_are_cropped_together(tmp_path: Path) -> None:
    kaggle(tmp_path)
    batch = read_imagenet(tmp_path, classes=CLASSES).load([1, 0], "squash224", 20)
    assert batch.ids == (name(2), name(1))
    assert batch.targets.tolist() == [0, 1]
    torch.testing.assert_close(
        batch.images[:, 0].mean((1, 2)), torch.tensor([80, 40]) / 255, atol=0.02, rtol=0
    )
    assert batch.boxes is not None
    assert batch.boxes[0].tolist() == [[0, 0, 20, 20]]
    torch.testing.assert_close(batch.boxes[1], torch.tensor([[5, 10 / 3, 15, 50 / 3]], dtype=torch.float64))


def test_an_image_whose_box_the_crop_loses_has_no_box_and_is_not_visible(tmp_path: Path) -> None:
    kaggle(tmp_path)
    archive = read_imagenet(tmp_path, classes=CLASSES)
    batch = archive.load([2], "squash256", 224)
    assert batch.boxes is not None
    assert batch.boxes[0].shape == (0, 4)
    visible = archive.visible([0, 1, 2], "squash256", 224)
    assert visible[0] == 1
    assert visible[1] == pytest.approx((224 / 256) ** 2)
    assert visible[2] == 0


def test_only_boxes_of_the_images_class_count(tmp_path: Path) -> None:
    flat(tmp_path)
    rows = [f"{name(n)},n02124075 1 1 3 3 {wnid} 2 2 9 9" for n, wnid, _ in IMAGES]
    (tmp_path / TABLE).write_text("ImageId,PredictionString\n" + "\n".join(rows), encoding="utf-8")
    write_truth(tmp_path)
    truth = tmp_path / "ILSVRC2012_devkit_t12" / "data" / TRUTH
    batch = read_imagenet(tmp_path, classes=CLASSES, labels=truth).load([0, 2], "squash224", 40)
    assert batch.boxes is not None
    assert [len(boxes) for boxes in batch.boxes] == [1, 2]


def test_inclusive_boxes_reach_one_pixel_further(tmp_path: Path) -> None:
    kaggle(tmp_path)
    archive = read_imagenet(tmp_path, classes=CLASSES, inclusive=True)
    assert archive.boxes is not None
    assert archive.boxes[0][0].corners == (10, 5, 31, 26)


def test_a_missing_image_is_named(tmp_path: Path) -> None:
    kaggle(tmp_path)
    (tmp_path / "ILSVRC" / "Data" / "CLS-LOC" / "val" / f"{name(4)}.JPEG").unlink()
    with pytest.raises(FileNotFoundError, match=rf"1 images named by .*{TABLE} are missing: {name(4)}"):
        read_imagenet(tmp_path, classes=CLASSES)
    assert len(read_imagenet(tmp_path, classes=CLASSES, partial=True)) == 3


def test_a_missing_class_is_named(tmp_path: Path) -> None:
    in_folders(tmp_path)
    shutil.rmtree(tmp_path / "n02124075")
    with pytest.raises(FileNotFoundError, match="1 of 3 classes have no image: n02124075"):
        read_imagenet(tmp_path, classes=CLASSES)
    with pytest.raises(FileNotFoundError, match="998 of 1000 classes have no image: n01443537, n01484850"):
        read_imagenet(tmp_path)


def test_a_missing_annotation_is_named(tmp_path: Path) -> None:
    in_folders(tmp_path)
    write_xml(tmp_path)
    (tmp_path / "Annotations" / "CLS-LOC" / "val" / f"{name(2)}.xml").unlink()
    with pytest.raises(FileNotFoundError, match=rf"1 of 4 images have no box in .*: {name(2)}; complete"):
        read_imagenet(tmp_path, classes=CLASSES)
    assert read_imagenet(tmp_path, classes=CLASSES, with_boxes=False).boxes is None


def test_an_image_without_label_is_named(tmp_path: Path) -> None:
    kaggle(tmp_path)
    save_image(tmp_path / "ILSVRC" / "Data" / "CLS-LOC" / "val" / f"{name(9)}.JPEG", 1)
    with pytest.raises(FileNotFoundError, match=rf"1 images have no label in .*{TABLE}: {name(9)}"):
        read_imagenet(tmp_path, classes=CLASSES)


def test_an_unknown_class_is_named(tmp_path: Path) -> None:
    in_folders(tmp_path)
    save_image(tmp_path / "n99999999" / f"{name(5)}.JPEG", 5)
    with pytest.raises(ValueError, match="folders' names names 1 unknown classes: n99999999"):
        read_imagenet(tmp_path, classes=CLASSES)


def test_an_image_in_two_folders_is_named(tmp_path: Path) -> None:
    in_folders(tmp_path)
    save_image(tmp_path / "n02124075" / f"{name(1)}.JPEG", 1)
    with pytest.raises(ValueError, match=rf"occur twice under .*: {name(1)}"):
        read_imagenet(tmp_path, classes=CLASSES)


def test_images_without_any_labels_are_refused(tmp_path: Path) -> None:
    flat(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"no labels for the images .* put {TABLE}"):
        read_imagenet(tmp_path, classes=CLASSES)


@pytest.mark.parametrize("given", ["labels", "annotations"])
def test_a_source_that_is_not_there_is_named(given: str, tmp_path: Path) -> None:
    flat(tmp_path)
    with pytest.raises(FileNotFoundError, match=rf"{given} .*nowhere are missing"):
        read_imagenet(tmp_path, classes=CLASSES, **{given: tmp_path / "nowhere"})  # type: ignore[arg-type]


def test_a_folder_that_is_not_there_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"ImageNet folder .*nowhere is missing"):
        read_imagenet(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="no validation images under"):
        read_imagenet(tmp_path)


def test_a_damaged_image_is_named(tmp_path: Path) -> None:
    in_folders(tmp_path)
    path = tmp_path / "n01751748" / f"{name(1)}.JPEG"
    path.write_bytes(path.read_bytes()[:300])
    archive = read_imagenet(tmp_path, classes=CLASSES)
    with pytest.raises(ValueError, match=rf"{name(1)}\.JPEG cannot be read"):
        archive.load([0])


def test_a_box_outside_its_image_is_named_and_can_be_clipped(tmp_path: Path) -> None:
    kaggle(tmp_path)
    table = tmp_path / TABLE
    table.write_text(table.read_text(encoding="utf-8").replace("10 5 30 25", "10 5 90 25"), encoding="utf-8")
    archive = read_imagenet(tmp_path, classes=CLASSES)
    with pytest.raises(ValueError, match=rf"{name(1)}\.JPEG: box .* outside the image of 40 x 30 pixels"):
        archive.load([0], "squash224", 40)
    batch = archive.load([0], "squash224", 40, overhang=float("inf"))
    assert batch.boxes is not None
    assert batch.boxes[0][0, 2] == 40


def test_the_ground_truth_needs_a_class_map_in_text(tmp_path: Path) -> None:
    flat_with_truth(tmp_path)
    folder = tmp_path / "ILSVRC2012_devkit_t12" / "data"
    (folder / "map_clsloc.txt").unlink()
    (folder / "meta.mat").write_bytes(b"MATLAB 5.0 MAT-file\x00\xff")
    with pytest.raises(
        FileNotFoundError, match=r"put a file map_clsloc\.txt beside it .* meta\.mat is not read"
    ):
        read_imagenet(tmp_path, classes=CLASSES)
    with pytest.raises(ValueError, match=r"meta\.mat is no text|meta\.mat, line 1"):
        read_ground_truth(folder / TRUTH, folder / "meta.mat")


@pytest.mark.parametrize(
    "text", ["1 n01440764\n2 n01443537\n", "n01440764 1 tench\n\nn01443537 2 goldfish\n"]
)
def test_a_class_map_may_have_either_order(text: str, tmp_path: Path) -> None:
    path = tmp_path / "map.txt"
    path.write_text(text, encoding="utf-8")
    assert read_class_map(path) == {1: "n01440764", 2: "n01443537"}


@pytest.mark.parametrize(
    ("text", "fault"), [("tench 1\n", "line 1"), ("1 n01440764\n1 n01443537\n", "line 2"), ("", "is empty")]
)
def test_a_bad_class_map_is_named(text: str, fault: str, tmp_path: Path) -> None:
    path = tmp_path / "map.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=rf"map\.txt.*{fault}"):
        read_class_map(path)


def test_a_number_without_class_is_named(tmp_path: Path) -> None:
    flat_with_truth(tmp_path)
    truth = tmp_path / "ILSVRC2012_devkit_t12" / "data" / TRUTH
    truth.write_text("3\n2\n7\n2\n", encoding="utf-8")
    with pytest.raises(ValueError, match="line 3: '7' is no ILSVRC number; allowed: 1 to 3"):
        read_imagenet(tmp_path, classes=CLASSES)


def test_the_blacklist_names_images_by_their_number(tmp_path: Path) -> None:
    path = tmp_path / "blacklist.txt"
    path.write_text("36\n50000\n", encoding="utf-8")
    assert read_blacklist(path) == {name(36), name(50000)}


@pytest.mark.parametrize("word", ["0", "50001", "n01440764"])
def test_a_blacklist_with_another_word_is_named(word: str, tmp_path: Path) -> None:
    path = tmp_path / "blacklist.txt"
    path.write_text(f"1\n{word}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"entry 2: '{word}' is no image number; allowed: 1 to 50000"):
        read_blacklist(path)


@pytest.mark.parametrize("read", [read_blacklist, read_class_map, read_ground_truth])
def test_missing_lists_are_named(read: Callable[[Path], object], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.txt is missing"):
        read(tmp_path / "absent.txt")


def test_unknown_classes_are_counted_and_the_first_named() -> None:
    with pytest.raises(ValueError, match="labels names 5 unknown classes: a, b, c and 2 more"):
        class_indices(["a", "b", "c", "d", "e", "n01440764"], CLASSES, where="labels")
