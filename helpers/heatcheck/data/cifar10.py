"""CIFAR-10 (Krizhevsky 2009): 60,000 images of 32 x 32 pixels in ten classes."""

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import torch

from heatcheck.data.parts import Part, Published
from heatcheck.data.splits import find_folder

CIFAR10 = Published(10, 50_000, 10_000)
SIDE = 32
_FOLDERS = (".", "cifar-10-batches-py")
_TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
# All that the archive's pickles build: arrays of bytes. Any other name in a pickle could run a program.
_RECONSTRUCT: Any = np.empty(0, np.uint8).__reduce__()[0]
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _RECONSTRUCT,
    ("numpy._core.multiarray", "_reconstruct"): _RECONSTRUCT,
}


def read_cifar10(root: Path | str, *, published: Published = CIFAR10) -> tuple[tuple[str, ...], Part, Part]:
    """Class names, training and test images under ``root``, as ``cifar-10-python.tar.gz`` unpacks them.

    Args:
        root: Folder ``cifar-10-batches-py`` or the one around it, with ``batches.meta``, ``data_batch_1`` to
            ``data_batch_5`` and ``test_batch``.
        published: Numbers the whole archive has.

    Raises:
        FileNotFoundError: A file is missing; the message names it.
        ValueError: A file is damaged or holds something else, or the numbers are not those published.
    """
    folder = find_folder(Path(root), _FOLDERS, holding="batches.meta", called="CIFAR-10")
    names = _load(folder / "batches.meta").get(b"label_names")
    if not isinstance(names, list) or not all(isinstance(name, bytes) for name in names):
        raise ValueError(f"{folder / 'batches.meta'} has no list of names under 'label_names'")
    classes = tuple(name.decode("utf-8") for name in names)
    train = _joined([_batch(folder / name, "train", len(classes)) for name in _TRAIN])
    test = _batch(folder / "test_batch", "test", len(classes))
    found = Published(len(classes), len(train), len(test))
    if found != published:
        raise ValueError(
            f"CIFAR-10 under {folder} has {found.n_classes} classes, {found.n_train} training and "
            f"{found.n_test} test images; published are {published.n_classes}, {published.n_train} and "
            f"{published.n_test}; unpack the archive again"
        )
    return classes, train, test


def _batch(path: Path, split: str, n_classes: int) -> Part:
    """Images of one file; its rows hold all red, then all green, then all blue bytes."""
    content = _load(path)
    data, labels = content.get(b"data"), content.get(b"labels")
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.shape[1:] != (3 * SIDE**2,):
        raise ValueError(f"{path} has no array (N, {3 * SIDE**2}) of bytes under 'data'")
    if not isinstance(labels, list) or len(labels) != len(data):
        raise ValueError(f"{path} has no list of {len(data)} labels under 'labels'")
    targets = torch.tensor(labels, dtype=torch.int64)
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < n_classes:
        raise ValueError(f"{path} has labels outside 0 to {n_classes - 1}")
    images = np.ascontiguousarray(data.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))
    ids = tuple(f"cifar10/{split}/{path.name}/{row:05d}" for row in range(len(images)))
    return Part(ids, images, targets)


def _joined(parts: list[Part]) -> Part:
    return Part(
        tuple(name for part in parts for name in part.ids),
        np.concatenate([part.images for part in parts]),
        torch.cat([part.targets for part in parts]),
    )


class _ArrayUnpickler(pickle.Unpickler):
    """Builds dictionaries, lists, numbers, texts and arrays, and refuses everything else."""

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}")
        return _ALLOWED[module_name, global_name]


def _load(path: Path) -> dict[bytes, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} of CIFAR-10 is missing; unpack the archive again")
    advice = "unpack cifar-10-python.tar.gz again"
    try:
        # Python 2 wrote the files, so their texts are bytes.
        content = _ArrayUnpickler(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    # A damaged pickle raises about anything.
    except Exception as error:
        raise ValueError(f"{path} is no batch of CIFAR-10 ({error}); {advice}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no batch of CIFAR-10 (it holds a {type(content).__name__}); {advice}")
    return content
