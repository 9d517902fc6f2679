"""Ground truths as CLEVR-XAI stores them: one boolean array per question, ``<question_index>.npy``."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.data.clevr.mask_images import Mask

STORED_SIZE = 128
STATISTICS = "stats.json"


class TargetCount(NamedTuple):
    """How many objects a mask shows, and how many the scene has."""

    target_objects: int
    total_objects: int


def list_masks(folder: Path | str) -> tuple[int, ...]:
    """Questions that have a mask in ``folder``, in numerical order.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: A file ``*.npy`` is not named by a number.
    """
    if not Path(folder).is_dir():
        raise FileNotFoundError(f"folder {folder} is missing")
    names = [path.stem for path in Path(folder).iterdir() if path.suffix == ".npy"]
    wrong = sorted(name for name in names if not name.isdecimal())
    if wrong:
        raise ValueError(f"{folder} holds {wrong[0]}.npy; files are named by question_index, as 17.npy")
    return tuple(sorted(int(name) for name in names))


def list_complete(folder: Path | str) -> tuple[int, ...]:
    """``list_masks``, compared with the folder's ``stats.json`` where there is one.

    A question without a mask is one whose ground truth is undefined, so a file that was not unpacked would
    go unnoticed.

    Raises:
        FileNotFoundError: There is no such folder.
        ValueError: Files and counts are not of the same questions.
    """
    found = list_masks(folder)
    if not (Path(folder) / STATISTICS).is_file():
        return found
    differing = sorted(set(found) ^ set(read_target_counts(folder)))
    if differing:
        raise ValueError(
            f"{folder} holds {len(found)} masks, but {STATISTICS} names others, the first at {differing[0]}; "
            "unpack the archive whole"
        )
    return found


def read_mask(folder: Path | str, index: int, *, shape: tuple[int, int] | None = (128, 128)) -> Mask:
    """Mask of question ``index``, ``(H, W)`` bool.

    Args:
        folder: Folder of the ground truth.
        index: ``question_index``.
        shape: Rows and columns it must have; None for any.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or no boolean array of that shape.
    """
    path = Path(folder) / f"{index}.npy"
    array = read_array(path)
    if array.dtype != np.bool_ or array.ndim != 2 or array.shape != (shape or array.shape):
        needed = "(H, W)" if shape is None else str(shape)
        raise ValueError(f"mask {path} is {array.shape} {array.dtype}; needed is {needed} bool")
    return array


def read_array(path: Path) -> NDArray[Any]:
    """Array of a ``.npy`` file; files that hold Python objects are refused.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged.
    """
    try:
        array: NDArray[Any] = np.load(path, allow_pickle=False)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"array {path} is missing") from error
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"array {path} cannot be read ({error}); it must be a whole .npy file") from error
    return array


def read_target_counts(folder: Path | str) -> dict[int, TargetCount]:
    """Counts of ``stats.json`` by question, in numerical order.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged.
    """
    path = Path(folder) / STATISTICS
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        counts = {
            int(index): TargetCount(int(entry["target_objects"]), int(entry["total_objects"]))
            for index, entry in entries.items()
        }
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path} is missing") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(
            f"{path} is damaged ({error}); it must map question_index to target_objects and total_objects"
        ) from error
    return dict(sorted(counts.items()))


def write_target_counts(folder: Path | str, counts: Mapping[int, TargetCount]) -> None:
    """Write ``stats.json``, in numerical order."""
    content = {str(index): counts[index]._asdict() for index in sorted(counts)}
    (Path(folder) / STATISTICS).write_text(json.dumps(content), encoding="utf-8")
