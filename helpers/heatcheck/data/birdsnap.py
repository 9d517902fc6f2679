"""Birdsnap (Berg et al. 2014): photographs of 500 bird species, version 1.1 with its list of test images.

The archive holds links, and a script fetches the images; many links have died, so hardly any copy is whole.
"""

import csv
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from heatcheck.data.loading import map_threads
from heatcheck.data.parts import Published
from heatcheck.data.splits import Listed, SplitArchive, find_folder, missing_files, read_lines, split_archive

BIRDSNAP = Published(500, 47_386, 2_443)
_FOLDERS = (".", "birdsnap")
# Where the archive's script puts images, then where people move them.
_IMAGES = ("download/images", "images", ".")


class _Entry(NamedTuple):
    path: str
    md5: str
    label: int


def read_birdsnap(
    root: Path | str, *, partial: bool = False, verify: bool = False, published: Published = BIRDSNAP
) -> SplitArchive:
    """Training and test images under ``root``, as ``birdsnap.tgz`` and its script lay them out.

    Args:
        root: Folder ``birdsnap`` or the one around it, with ``species.txt``, ``images.txt`` and
            ``test_images.txt``; images in ``download/images``, ``images`` or the folder itself.
        partial: Accept missing images and species.
        verify: Count an image as missing when its MD5 sum is not the listed one, as where a link now leads to
            a notice that the photograph is gone. Reads every image.
        published: Numbers the whole archive has.

    Raises:
        FileNotFoundError: A list, images or species are missing; the message names them.
        ValueError: A list is damaged, or the numbers are not those published.
    """
    folder = find_folder(Path(root), _FOLDERS, holding="images.txt", called="Birdsnap")
    species = _species(folder / "species.txt")
    entries = _entries(folder / "images.txt", list(species))
    tested = _tested(folder / "test_images.txt", entries)
    images = _image_folder(folder, list(entries))
    listed = [Listed(name, images / name, entry.label) for name, entry in entries.items()]
    return split_archive(
        "birdsnap",
        tuple(species.values()),
        [item for item in listed if item.id not in tested],
        [item for item in listed if item.id in tested],
        published,
        partial=partial,
        damaged=_damaged(listed, entries) if verify else frozenset(),
    )


def _species(path: Path) -> dict[int, str]:
    """Common name of every species by its number, in the order of the numbers."""
    names: dict[int, str] = {}
    for number, row in enumerate(_table(path, ("id", "common")), start=2):
        if not row["id"].isdecimal() or int(row["id"]) in names:
            raise ValueError(
                f"{path}, line {number}: {row['id']!r} is no number of a species, or stands twice"
            )
        names[int(row["id"])] = row["common"]
    return dict(sorted(names.items()))


def _entries(path: Path, numbers: Sequence[int]) -> dict[str, _Entry]:
    """What the list says of every image, by its path."""
    index = {str(number): position for position, number in enumerate(numbers)}
    entries: dict[str, _Entry] = {}
    for number, row in enumerate(_table(path, ("md5", "path", "species_id")), start=2):
        if row["species_id"] not in index:
            raise ValueError(f"{path}, line {number}: species {row['species_id']!r} is not in species.txt")
        entry = _Entry(row["path"], row["md5"], index[row["species_id"]])
        # The same line twice is harmless; two species for one file are not.
        if entries.setdefault(entry.path, entry) != entry:
            raise ValueError(f"{path}, line {number}: {entry.path} was listed before as something else")
    return entries


def _tested(path: Path, entries: Mapping[str, _Entry]) -> frozenset[str]:
    lines = read_lines(path)[1:]  # after a header
    unknown = [line for line in lines if line not in entries]
    if unknown:
        raise ValueError(f"{path} names {len(unknown)} images that images.txt does not, first {unknown[0]!r}")
    return frozenset(lines)


def _table(path: Path, needed: Sequence[str]) -> list[dict[str, str]]:
    """Rows of a tab-separated table by the names of its first line."""
    rows = list(csv.DictReader(read_lines(path), delimiter="\t", quoting=csv.QUOTE_NONE, restval=""))
    absent = [name for name in needed if not rows or name not in rows[0]]
    if absent:
        raise ValueError(f"{path} has no column {', '.join(absent)}; it must be tab-separated with a header")
    return rows


def _image_folder(folder: Path, names: Sequence[str]) -> Path:
    tops = {name.split("/", maxsplit=1)[0] for name in names}
    for name in _IMAGES:
        if (folder / name).is_dir() and any((folder / name / top).exists() for top in tops):
            return folder / name
    raise FileNotFoundError(
        f"no image of Birdsnap under {folder}; looked in {', '.join(_IMAGES)} for folders named by species; "
        "the archive's script get_birdsnap.py fetches them"
    )


def _damaged(listed: Sequence[Listed], entries: Mapping[str, _Entry]) -> frozenset[str]:
    """Names of the images that are there and have another MD5 sum than the listed one."""
    lost = frozenset(missing_files(listed))
    there = [item for item in listed if item.id not in lost]

    def differs(item: Listed) -> bool:
        content = item.path.read_bytes()
        return hashlib.md5(content, usedforsecurity=False).hexdigest() != entries[item.id].md5.lower()

    found = map_threads(differs, there)
    return frozenset(item.id for item, wrong in zip(there, found, strict=True) if wrong)
