"""Food-101 (Bossard et al. 2014): photographs of dishes, 750 training and 250 test images of each."""

from collections.abc import Sequence
from pathlib import Path

from heatcheck.data.parts import Published
from heatcheck.data.splits import Listed, SplitArchive, find_folder, read_lines, split_archive

FOOD101 = Published(101, 75_750, 25_250)
_FOLDERS = (".", "food-101")


def read_food101(root: Path | str, *, partial: bool = False, published: Published = FOOD101) -> SplitArchive:
    """Training and test images under ``root``, as ``food-101.tar.gz`` unpacks them.

    Args:
        root: Folder ``food-101`` or the one around it: ``images/<class>/<number>.jpg``, and in ``meta`` the
            lists ``classes.txt``, ``train.txt`` and ``test.txt``, which name images ``<class>/<number>``.
        partial: Accept missing images and classes.
        published: Numbers the whole archive has.

    Raises:
        FileNotFoundError: A list, images or classes are missing; the message names them.
        ValueError: A list is damaged, or the numbers are not those published.
    """
    folder = find_folder(Path(root), _FOLDERS, holding="meta", called="Food-101")
    classes = read_lines(folder / "meta" / "classes.txt")
    train, test = (_listed(folder, name, classes) for name in ("train.txt", "test.txt"))
    return split_archive("food101", classes, train, test, published, partial=partial)


def _listed(folder: Path, name: str, classes: Sequence[str]) -> list[Listed]:
    index = {label: position for position, label in enumerate(classes)}
    items = []
    for number, line in enumerate(read_lines(folder / "meta" / name), start=1):
        label, _, image = line.partition("/")
        if label not in index or not image:
            raise ValueError(
                f"{folder / 'meta' / name}, image {number}: {line!r}; needed is <class>/<number> with a "
                "class of classes.txt"
            )
        items.append(Listed(line, folder / "images" / f"{line}.jpg", index[label]))
    return items
