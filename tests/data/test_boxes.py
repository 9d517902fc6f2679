"""Annotations as ImageNet publishes them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from heatcheck.data.boxes import check_boxes, corners_of, iterate_loc_csv, read_ilsvrc_xml, read_loc_csv

GOLDEN = Path(__file__).parents[1] / "golden" / "deletion.json"
HEADER = "ImageId,PredictionString\n"


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    cases = json.loads(GOLDEN.read_text(encoding="utf-8"))["cases"]
    case: dict[str, Any] = next(case for case in cases if case["id"] == "annotation_parsing")
    return case


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_the_recorded_xml_is_read(golden: dict[str, Any], tmp_path: Path) -> None:
    annotation = read_ilsvrc_xml(write(tmp_path / "a.xml", golden["inputs"]["xml"]))
    expected = golden["expected"]["xml"]
    assert annotation.filename == expected["filename"]
    assert (annotation.width, annotation.height) == (expected["width"], expected["height"])
    assert [{"wnid": b.wnid, "box": list(b.corners)} for b in annotation.boxes] == expected["objects"]


def test_the_recorded_table_is_read(golden: dict[str, Any], tmp_path: Path) -> None:
    boxes = read_loc_csv(write(tmp_path / "t.csv", golden["inputs"]["csv"]))
    found = {name: [[box.wnid, list(box.corners)] for box in rows] for name, rows in boxes.items()}
    assert found == golden["expected"]["csv"]


def test_tags_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    text = (
        "<annotation><object><bndbox><ymax>9</ymax><xmin>1</xmin><xmax>8</xmax><ymin>2</ymin></bndbox>"
        "<extra/><name>n01440764</name></object><size><height>10</height><width>20</width></size>"
        "<filename>x</filename></annotation>"
    )
    annotation = read_ilsvrc_xml(write(tmp_path / "a.xml", text))
    assert annotation.boxes[0].corners == (1, 2, 8, 9)
    assert (annotation.width, annotation.height) == (20, 10)


def test_inclusive_edges_are_one_pixel_further(golden: dict[str, Any], tmp_path: Path) -> None:
    xml = write(tmp_path / "a.xml", golden["inputs"]["xml"])
    table = write(tmp_path / "t.csv", golden["inputs"]["csv"])
    assert read_ilsvrc_xml(xml, inclusive=True).boxes[0].corners == (111, 108, 442, 194)
    assert read_loc_csv(table, inclusive=True)["ILSVRC2012_val_00048981"][0].corners == (85, 1, 500, 273)


def test_a_table_can_be_read_for_some_images_only(golden: dict[str, Any], tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", golden["inputs"]["csv"])
    assert list(read_loc_csv(table, ids={"X_two"})) == ["X_two"]


def test_a_table_is_read_row_by_row(tmp_path: Path) -> None:
    table = write(tmp_path / "t.csv", f"{HEADER}one,n01440764 1 2 3 4\ntwo,nonsense\n")
    rows = iterate_loc_csv(table)
    assert next(rows)[0] == "one"
    with pytest.raises(ValueError, match=r"t\.csv, line 3: 1 words"):
        next(rows)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("not xml", "cannot be used"),
        ("<annotation/>", "no <size/width>"),
        ("<annotation><size><width>w</width></size></annotation>", "must be a number"),
        (
            '<!DOCTYPE a [<!ENTITY b "c">]><annotation><filename>&b;</filename></annotation>',
            "cannot be used",
        ),
        (
            "<annotation><filename>f</filename><size><width>9</width><height>9</height></size><object>"
            "<name>n01440764</name><bndbox><xmin>5</xmin><ymin>1</ymin><xmax>2</xmax><ymax>3</ymax></bndbox>"
            "</object></annotation>",
            "reversed or equal corners",
        ),
    ],
)
def test_a_bad_annotation_is_named(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"bad\.xml.*{fault}"):
        read_ilsvrc_xml(write(tmp_path / "bad.xml", text))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("id,boxes\n", r"has the header \['id', 'boxes'\]"),
        ("", r"has the header \[\]"),
        (f"{HEADER}a,n01440764 1 2 3\n", "line 2: 4 words"),
        (f"{HEADER}a,\n", "line 2: 0 words"),
        (f"{HEADER}a,n01440764 1 2 x 4\n", "line 2: could not convert"),
        (f"{HEADER}a,n01440764 1 2 3 4\nb\n", "line 3: 1 fields"),
        (f"{HEADER}a,n01440764 9 2 3 4\n", "line 2: box .* reversed"),
        (f"{HEADER}a,n01440764 nan 2 3 4\n", "line 2: box .* not finite"),
    ],
)
def test_a_bad_table_is_named_with_its_line(text: str, fault: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"bad\.csv.*{fault}"):
        read_loc_csv(write(tmp_path / "bad.csv", text))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no\.xml is missing"):
        read_ilsvrc_xml(tmp_path / "no.xml")
    with pytest.raises(FileNotFoundError, match=r"no\.csv is missing"):
        read_loc_csv(tmp_path / "no.csv")


def test_corners_of_no_boxes_have_four_columns() -> None:
    assert corners_of(()).shape == (0, 4)


def test_boxes_must_have_four_columns() -> None:
    with pytest.raises(ValueError, match=r"must be \(n, 4\), got \(2, 3\)"):
        check_boxes(torch.zeros(2, 3), (10, 10), where="x")
