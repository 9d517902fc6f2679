"""Where the class and the boxes of a validation image of ImageNet are written."""

import re
from collections.abc import Collection, Sequence
from pathlib import Path

from heatcheck.data.boxes import Box, read_ilsvrc_xml, read_loc_csv
from heatcheck.data.imagenet_classes import name_some
from heatcheck.data.loading import map_threads

WNID = re.compile(r"n\d{8}")
GROUND_TRUTH = "ILSVRC2012_validation_ground_truth.txt"
TABLE = "LOC_val_solution.csv"
# A text file that says which WordNet id an ILSVRC number is; the challenge itself ships a MATLAB file.
CLASS_MAPS = ("map_clsloc.txt", "meta_clsloc.txt", "meta.txt")
N_IMAGES = 50_000


def image_id(number: int) -> str:
    """Name of validation image ``number``, counted from 1."""
    return f"ILSVRC2012_val_{number:08d}"


def read_ground_truth(path: Path | str, class_map: Path | str | None = None) -> dict[str, str]:
    """WordNet id of every validation image, from the development kit.

    Args:
        path: ``ILSVRC2012_validation_ground_truth.txt``: line ``i`` is the ILSVRC number, counted from 1, of
            image ``i``. These numbers are not the classifier's class indices.
        class_map: Text file with one class a line, its ILSVRC number and its WordNet id in either order; by
            default a file of a known name beside ``path`` or one folder up.

    Raises:
        FileNotFoundError: There is no such file, or no class map; the message says how to make one.
        ValueError: A line is no number of the class map.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"ground truth {path} is missing")
    mapping = read_class_map(class_map or find_class_map(Path(path)))
    labels: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").split(), start=1):
        if not line.isdecimal() or int(line) not in mapping:
            raise ValueError(
                f"{path}, line {number}: {line!r} is no ILSVRC number; allowed: 1 to {max(mapping)}"
            )
        labels[image_id(number)] = mapping[int(line)]
    return labels


def find_class_map(ground_truth: Path) -> Path:
    """Class map beside the ground truth or one folder up.

    Raises:
        FileNotFoundError: There is none; the message says how to make one.
    """
    for folder in (ground_truth.parent, ground_truth.parent.parent):
        for name in CLASS_MAPS:
            if (folder / name).is_file():
                return folder / name
    raise FileNotFoundError(
        f"{ground_truth} holds ILSVRC numbers, and no text file says which WordNet ids they are; put a file "
        f"{CLASS_MAPS[0]} beside it with a line '<number> <wnid>' for every class (a MATLAB file such as "
        f"meta.mat is not read), or give {TABLE}, or sort the images into one folder per WordNet id"
    )


def read_class_map(path: Path | str) -> dict[int, str]:
    """WordNet id of every ILSVRC number, counted from 1.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line holds no number or no WordNet id, or a number stands twice.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"class map {path} is missing")
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"class map {path} is no text; write one line '<number> <wnid>' for every class"
        ) from error
    mapping: dict[int, str] = {}
    for position, line in enumerate(lines, start=1):
        words = line.split()[:2]
        wnids = [word for word in words if WNID.fullmatch(word)]
        numbers = [int(word) for word in words if word.isdecimal()]
        if words and (len(wnids) != 1 or len(numbers) != 1 or numbers[0] in mapping):
            raise ValueError(
                f"{path}, line {position}: {line!r}; needed is '<number> <wnid>', each number once"
            )
        mapping |= dict(zip(numbers, wnids, strict=True))
    if not mapping:
        raise ValueError(f"class map {path} is empty; write one line '<number> <wnid>' for every class")
    return mapping


def read_labels(source: Path, ids: Collection[str] | None = None) -> dict[str, str]:
    """WordNet id of every image that ``source`` names.

    Args:
        source: ``LOC_val_solution.csv``, a folder of XML files, or the development kit's ground truth.
        ids: Look for these images only; what others are called is then not read.

    Raises:
        FileNotFoundError: There is no such source.
        ValueError: The source is damaged.
    """
    if source.is_dir():
        stems = sorted(path.stem for path in source.glob("*.xml") if ids is None or path.stem in ids)
        return {name: boxes[0].wnid for name, boxes in read_boxes(source, stems).items()}
    if source.suffix == ".csv":
        return {name: boxes[0].wnid for name, boxes in read_loc_csv(source, ids=ids).items()}
    if source.suffix == ".txt":
        labels = read_ground_truth(source)
        return labels if ids is None else {name: labels[name] for name in labels.keys() & ids}
    raise FileNotFoundError(
        f"labels {source} are missing; allowed: {TABLE}, a folder of XML files, {GROUND_TRUTH}"
    )


def read_boxes(source: Path, ids: Sequence[str], *, inclusive: bool = False) -> dict[str, tuple[Box, ...]]:
    """Boxes of the images ``ids``, from a folder of XML files or a table.

    Raises:
        FileNotFoundError: The source or an image's annotation is missing; the message names the images.
        ValueError: An annotation is bad.
    """
    if source.is_dir():
        missing = [name for name in ids if not (source / f"{name}.xml").is_file()]
        _refuse_missing(missing, len(ids), source)
        found = map_threads(
            lambda name: read_ilsvrc_xml(source / f"{name}.xml", inclusive=inclusive).boxes, ids
        )
        boxes = dict(zip(ids, found, strict=True))
    else:
        boxes = read_loc_csv(source, inclusive=inclusive, ids=frozenset(ids))
        _refuse_missing([name for name in ids if name not in boxes], len(ids), source)
    _refuse_missing([name for name in ids if not boxes[name]], len(ids), source)
    return boxes


def read_blacklist(path: Path | str) -> frozenset[str]:
    """Names of the validation images that the ILSVRC-2014 localization challenge does not count.

    Args:
        path: The challenge's list, one number a line, counted from 1.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A line is no number from 1 to 50 000.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"blacklist {path} is missing")
    words = Path(path).read_text(encoding="utf-8").split()
    for position, word in enumerate(words, start=1):
        if not word.isdecimal() or not 1 <= int(word) <= N_IMAGES:
            raise ValueError(
                f"{path}, entry {position}: {word!r} is no image number; allowed: 1 to {N_IMAGES}"
            )
    return frozenset(image_id(int(word)) for word in words)


def _refuse_missing(missing: Sequence[str], count: int, source: Path) -> None:
    if missing:
        raise FileNotFoundError(
            f"{len(missing)} of {count} images have no box in {source}: {name_some(list(missing))}; complete "
            "the annotations, or read the archive without boxes"
        )
