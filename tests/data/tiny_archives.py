"""Tiny archives laid out exactly as the published ones."""

import hashlib
import io
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

FOOD_CLASSES = ("apple_pie", "baklava", "waffles")
BIRDS = (("1", "Acorn Woodpecker"), ("2", "Blue Jay"))
WNIDS = ("n01440764", "n01751748")


def save_noise(path: Path, seed: int, *, size: tuple[int, int] = (40, 30)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG")


def write_food101(folder: Path) -> Path:
    """Two training images and one test image of each of three dishes, in the folder ``food-101``."""
    root = folder / "food-101"
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "classes.txt").write_text("\n".join(FOOD_CLASSES) + "\n", encoding="utf-8")
    numbers = {"train": (1005649, 1011328), "test": (1014775,)}
    for split, listed in numbers.items():
        lines = [f"{label}/{number}" for label in FOOD_CLASSES for number in listed]
        (root / "meta" / f"{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        for seed, line in enumerate(lines):
            save_noise(root / "images" / f"{line}.jpg", seed + 100 * len(listed))
    return root


def write_birdsnap(folder: Path) -> Path:
    """Three images of each of two species, the first of each for testing."""
    root = folder / "birdsnap"
    root.mkdir()
    species = [f"{number}\t{name}\tLatin name\t{name.replace(' ', '_')}" for number, name in BIRDS]
    (root / "species.txt").write_text(
        "\n".join(["id\tcommon\tscientific\tdir", *species]) + "\n", encoding="utf-8"
    )
    rows, tested = ["url\tmd5\tpath\tspecies_id\tbb_x1\tbb_y1\tbb_x2\tbb_y2\tback_x\tback_y"], ["path"]
    for number, name in BIRDS:
        for image in range(3):
            path = f"{name.replace(' ', '_')}/{number}0{image}.jpg"
            save_noise(root / "download" / "images" / path, 10 * int(number) + image)
            md5 = hashlib.md5((root / "download" / "images" / path).read_bytes()).hexdigest()
            rows.append(f"\t{md5}\t{path}\t{number}\t1\t2\t30\t20\t\t")
            tested += [path] if image == 0 else []
    (root / "images.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    (root / "test_images.txt").write_text("\n".join(tested) + "\n", encoding="utf-8")
    return root


def write_cifar10(folder: Path) -> Path:
    """Four images a file, in pickles as Python 2 and an old NumPy wrote them."""
    root = folder / "cifar-10-batches-py"
    root.mkdir()
    names = [b"airplane", b"automobile", b"bird"]
    meta = {b"num_cases_per_batch": 4, b"label_names": names, b"num_vis": 3072}
    (root / "batches.meta").write_bytes(python2_pickle(meta))
    for number, name in enumerate([*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]):
        (root / name).write_bytes(python2_pickle(cifar_batch(number)))
    return root


def cifar_batch(number: int) -> dict[bytes, Any]:
    return {
        b"batch_label": b"training batch",
        b"labels": [(number + row) % 3 for row in range(4)],
        b"data": np.random.default_rng(number).integers(0, 256, (4, 3072), dtype=np.uint8),
        b"filenames": [b"a.png"] * 4,
    }


def _save_string(pickler: Any, value: bytes) -> None:
    pickler.write(b"T" + struct.pack("<i", len(value)) + value)
    pickler.memoize(value)


class _Python2Pickler(pickle._Pickler):
    """The pickler written in Python, the only one that can be told how to write bytes."""

    dispatch = {**pickle._Pickler.dispatch, bytes: _save_string}  # noqa: RUF012 (as in its base class)


def python2_pickle(value: Any) -> bytes:
    """``value`` in protocol 2 with bytes as Python 2's strings, and arrays under NumPy's old names."""
    stream = io.BytesIO()
    _Python2Pickler(stream, 2).dump(value)
    return stream.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def write_imagenet_splits(folder: Path) -> Path:
    """Two training images and one validation image of each of two classes."""
    root = folder / "imagenet"
    for place, wnid in enumerate(WNIDS):
        for image in range(2):
            save_noise(root / "train" / wnid / f"{wnid}_{10 + image}.JPEG", 10 * place + image)
        save_noise(root / "val" / wnid / f"ILSVRC2012_val_0000000{place + 1}.JPEG", 50 + place)
    return root
