"""Recorded answers of CLEVR-XAI's masks, as arrays."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FILE = Path(__file__).parents[2] / "golden" / "clevr_xai.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
SHAPE = (320, 480)


def draw(shapes: Sequence[Sequence[Any]], size: Sequence[int]) -> NDArray[np.bool_]:
    """Union of shapes: ``rect`` y0, y1, x0, x1 half open; ``ellipse`` center y, x and radius y, x."""
    rows, columns = np.mgrid[: size[0], : size[1]]
    mask = np.zeros(tuple(size), dtype=np.bool_)
    for kind, a, b, c, d in shapes:
        if kind == "rect":
            mask[a:b, c:d] = True
        else:
            mask |= ((rows - a) / c) ** 2 + ((columns - b) / d) ** 2 <= 1
    return mask


def from_runs(runs: Sequence[Sequence[int]], size: Sequence[int] = (128, 128)) -> NDArray[np.bool_]:
    """Mask of runs ``[row, first column, one past the last column]``."""
    mask = np.zeros(tuple(size), dtype=np.bool_)
    for row, first, last in runs:
        mask[row, first:last] = True
    return mask


def recorded_owners() -> NDArray[np.int8]:
    """Owners of the recorded mask image: later objects of the drawing order cover earlier ones."""
    owners = np.full(SHAPE, -1, dtype=np.int8)
    for index in GOLDEN["mask_image"]["draw_order"]:
        owners[draw([GOLDEN["mask_image"]["shapes"][index]], SHAPE)] = index
    return owners
