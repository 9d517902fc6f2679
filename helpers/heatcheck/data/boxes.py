"""Ground-truth boxes as ImageNet publishes them: one XML file per image, or one table."""

import csv
import math
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element, ParseError

import defusedxml.ElementTree
import torch
from defusedxml.common import DefusedXmlException
from torch import Tensor


class Box(NamedTuple):
    """Object of class ``wnid`` at ``corners`` ``(x0, y0, x1, y1)``, half-open, in pixels of the image."""

    wnid: str
    corners: tuple[float, float, float, float]


class Annotation(NamedTuple):
    """What one XML file says: the image's name, its size in pixels and its boxes."""

    filename: str
    width: int
    height: int
    boxes: tuple[Box, ...]


def read_ilsvrc_xml(path: Path | str, *, inclusive: bool = False) -> Annotation:
    """Annotation of one image in the layout of ILSVRC and PASCAL VOC, read by tag name.

    Args:
        path: The XML file.
        inclusive: Take the right and bottom edges as the last pixel inside, so that 1 is added to both;
            by default they are the first pixel outside.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is no such annotation, or a box of it is bad.
    """
    try:
        root = defusedxml.ElementTree.parse(path).getroot()
        width, height = _number(root, "size/width"), _number(root, "size/height")
        boxes = tuple(_xml_box(item, inclusive) for item in root.iter("object"))
        annotation = Annotation(_text(root, "filename"), int(width), int(height), boxes)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"annotation {path} is missing") from error
    except (ParseError, DefusedXmlException, ValueError) as error:
        raise ValueError(f"annotation {path} cannot be used: {error}") from error
    check_corners(corners_of(annotation.boxes), where=str(path))
    return annotation


def read_loc_csv(
    path: Path | str, *, inclusive: bool = False, ids: Collection[str] | None = None
) -> dict[str, tuple[Box, ...]]:
    """Boxes of every image in a table such as ``LOC_val_solution.csv``.

    Args:
        path: Table with the header ``ImageId,PredictionString``; the second field is groups of five words,
            ``wnid xmin ymin xmax ymax``.
        inclusive: As in ``read_ilsvrc_xml``.
        ids: Keep these images only.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The table has another header, or a row is bad; the message names the line.
    """
    return {
        name: boxes
        for name, boxes in iterate_loc_csv(path, inclusive=inclusive)
        if ids is None or name in ids
    }


def iterate_loc_csv(path: Path | str, *, inclusive: bool = False) -> Iterator[tuple[str, tuple[Box, ...]]]:
    """Image and boxes, row by row, so that a table of any length needs the memory of one row."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"table of boxes {path} is missing")
    with Path(path).open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        header = next(rows, [])
        if header != ["ImageId", "PredictionString"]:
            raise ValueError(f"{path} has the header {header}; it must be ImageId,PredictionString")
        for row in rows:
            where = f"{path}, line {rows.line_num}"
            if len(row) != 2:
                raise ValueError(f"{where}: {len(row)} fields; there must be two")
            boxes = _csv_boxes(row[1], inclusive, where)
            check_corners(corners_of(boxes), where=where)
            yield row[0], boxes


def corners_of(boxes: Collection[Box]) -> Tensor:
    """Corners ``(n, 4)`` float64 of ``boxes``."""
    return torch.tensor([box.corners for box in boxes], dtype=torch.float64).reshape(-1, 4)


def check_corners(boxes: Tensor, *, where: str) -> None:
    """Refuse boxes ``(n, 4)`` that are no boxes in any image; ``where`` is named in the message.

    Raises:
        ValueError: A corner is not finite or the corners of a box are reversed.
    """
    for corners in boxes.tolist():
        if not all(math.isfinite(value) for value in corners):
            raise ValueError(f"{where}: box {corners} is not finite; corners must be pixels x0, y0, x1, y1")
        if corners[0] >= corners[2] or corners[1] >= corners[3]:
            raise ValueError(
                f"{where}: box {corners} has reversed or equal corners; needed are x0 < x1 and y0 < y1"
            )


def check_boxes(boxes: Tensor, size: tuple[int, int], *, where: str, overhang: float = 1.0) -> Tensor:
    """Boxes ``(n, 4)`` float64 clipped to an image of ``size`` ``(width, height)``.

    Args:
        boxes: ``(n, 4)`` half-open ``[x0, y0, x1, y1)``.
        size: Width and height of the image in pixels.
        where: What the message calls the image.
        overhang: How many pixels a box may stick out on any side; annotations whose edges count from 1 or are
            inclusive stick out by one. Infinity clips every box that touches the image at all.

    Raises:
        ValueError: A box is not finite, has reversed corners, or lies outside the image.
    """
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"{where}: boxes must be (n, 4), got {tuple(boxes.shape)}")
    check_corners(boxes, where=where)
    edges = torch.tensor([*size, *size], dtype=torch.float64)
    corners = boxes.to(torch.float64)
    clipped = torch.minimum(corners.clamp(min=0), edges)
    empty = (clipped[:, 2:] <= clipped[:, :2]).any(1)
    outside = empty | ((corners - clipped).abs() > overhang).any(1)
    if outside.any():
        bad = corners[outside][0].tolist()
        raise ValueError(
            f"{where}: box {bad} lies outside the image of {size[0]} x {size[1]} pixels; "
            f"allowed: 0 <= x0 < x1 <= {size[0]}, 0 <= y0 < y1 <= {size[1]}, and {overhang:g} pixels beyond"
        )
    return clipped


def _xml_box(item: Element, inclusive: bool) -> Box:
    names = ("xmin", "ymin", "xmax", "ymax")
    x0, y0, x1, y1 = (_number(item, f"bndbox/{name}") for name in names)
    return Box(_text(item, "name"), (x0, y0, x1 + inclusive, y1 + inclusive))


def _csv_boxes(field: str, inclusive: bool, where: str) -> tuple[Box, ...]:
    words = field.split()
    if not words or len(words) % 5:
        raise ValueError(f"{where}: {len(words)} words; boxes are groups of five, wnid xmin ymin xmax ymax")
    groups = [words[start : start + 5] for start in range(0, len(words), 5)]
    try:
        numbers = [tuple(float(word) for word in group[1:]) for group in groups]
    except ValueError as error:
        raise ValueError(f"{where}: {error}; boxes are groups of five, wnid xmin ymin xmax ymax") from error
    return tuple(
        Box(group[0], (x0, y0, x1 + inclusive, y1 + inclusive))
        for group, (x0, y0, x1, y1) in zip(groups, numbers, strict=True)
    )


def _text(element: Element, tag: str) -> str:
    text = element.findtext(tag)
    if text is None or not text.strip():
        raise ValueError(f"<{element.tag}> has no <{tag}>")
    return text.strip()


def _number(element: Element, tag: str) -> float:
    text = _text(element, tag)
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"<{tag}> is {text!r}; it must be a number") from error
