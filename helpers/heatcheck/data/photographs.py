"""Six photographs that installed packages ship, with regions and boxes of our own.

The files are read where scikit-image and scikit-learn keep them and are never copied; only coordinates are
shipped here. They illustrate; six images carry no statistics.
"""

import importlib.util
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch
from PIL import Image
from torch import Tensor

from heatcheck.data.batch import LabelledImages
from heatcheck.data.boxes import check_boxes
from heatcheck.data.preprocessing import crop_geometry, map_boxes, preprocess, read_image


class Photograph(NamedTuple):
    """What is known about one photograph.

    Attributes:
        id: Its name.
        package: Distribution that ships it.
        module: Import name of that package.
        file: Path inside the package.
        size: ``(width, height)`` of the file in pixels.
        license: SPDX identifier, or ``public domain``.
        credit: Whom to name.
        shows: A description for readers who do not see it.
        class_name: The ImageNet class it is explained for.
        wnid: That class's WordNet id.
        target: That class's index.
        accepted: Class names that are right as well, since ImageNet splits what people do not.
        region: ``(x0, y0, x1, y1)``, the part of the file that is used.
        boxes: Boxes of the object, half-open, in pixels of the file.
    """

    id: str
    package: str
    module: str
    file: str
    size: tuple[int, int]
    license: str
    credit: str
    shows: str
    class_name: str
    wnid: str
    target: int
    accepted: tuple[str, ...]
    region: tuple[int, int, int, int]
    boxes: tuple[tuple[int, int, int, int], ...]

    @property
    def path(self) -> Path:
        """Where the file is on this machine.

        Raises:
            FileNotFoundError: The package is not installed.
        """
        spec = importlib.util.find_spec(self.module)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(
                f"photograph {self.id!r} is part of {self.package}, which is not installed"
            )
        return Path(spec.origin).parent / self.file


@cache
def photograph_list() -> tuple[Photograph, ...]:
    """The photographs in the order they are shown."""
    text = (files("heatcheck") / "assets" / "photographs.json").read_text(encoding="utf-8")
    return tuple(
        Photograph(
            **{key: item[key] for key in ("id", "package", "module", "file", "license", "credit", "shows")},
            class_name=item["class"],
            wnid=item["wnid"],
            target=item["target"],
            size=tuple(item["size"]),
            accepted=tuple(item["accepted"]),
            region=tuple(item["region"]),
            boxes=tuple(tuple(box) for box in item["boxes"]),
        )
        for item in json.loads(text)["photographs"]
    )


def photographs(
    size: int = 224, preprocessing: str = "squash256", *, ids: Sequence[str] | None = None
) -> LabelledImages:
    """The photographs as a batch, targets being ImageNet class indices.

    Args:
        size: Side of the images in pixels.
        preprocessing: How the region becomes a square; see ``heatcheck.data.preprocessing.MODES``.
        ids: Which photographs, in that order; all by default.

    Raises:
        FileNotFoundError: The package that ships a photograph is not installed.
        ValueError: There is no such photograph, or the package ships another picture under its name.
    """
    known = {photograph.id: photograph for photograph in photograph_list()}
    unknown = [name for name in ids or () if name not in known]
    if unknown:
        raise ValueError(f"unknown photographs {unknown}; allowed: {', '.join(known)}")
    chosen = [known[name] for name in known] if ids is None else [known[name] for name in ids]
    regions = [_region(photograph) for photograph in chosen]
    images = [preprocess(image, preprocessing, size) for image in regions]
    return LabelledImages(
        "photographs",
        tuple(photograph.id for photograph in chosen),
        torch.stack(images) if images else torch.zeros(0, 3, size, size),
        torch.tensor([photograph.target for photograph in chosen], dtype=torch.int64),
        boxes=tuple(_boxes(photograph, preprocessing, size) for photograph in chosen),
    )


def credits() -> str:
    """One line per photograph: what it shows, whom to credit, its license and the package it comes from."""
    lines = [
        f"{item.id}: {item.shows}; {item.credit}, {item.license}, from {item.package}"
        for item in photograph_list()
    ]
    return "\n".join(lines)


def _region(photograph: Photograph) -> Image.Image:
    image = read_image(photograph.path)
    if image.size != photograph.size:
        raise ValueError(
            f"{photograph.path} is {image.size[0]} x {image.size[1]} pixels, the boxes were drawn on "
            f"{photograph.size[0]} x {photograph.size[1]}; install another version of {photograph.package}"
        )
    return image.crop(photograph.region)


def _boxes(photograph: Photograph, preprocessing: str, size: int) -> Tensor:
    """Boxes in pixels of the crop; the region hides what lies outside it."""
    x0, y0, x1, y1 = photograph.region
    corners = torch.tensor(photograph.boxes, dtype=torch.float64) - torch.tensor([x0, y0, x0, y0])
    inside = check_boxes(corners, (x1 - x0, y1 - y0), where=photograph.id, overhang=float("inf"))
    geometry = crop_geometry((x1 - x0, y1 - y0), preprocessing, size)
    return map_boxes(inside, geometry, where=photograph.id).boxes
