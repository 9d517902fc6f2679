"""The images a benchmark explains, by the name of their data set."""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.data.batch import LabelledImages
from heatcheck.data.cache import cache_folder
from heatcheck.data.catalog import IMAGENET_BLACKLIST, IMAGENET_ROOT, PLACES365_ROOT, archive_root
from heatcheck.data.decoded import decode_once
from heatcheck.data.imagenet import ImageNetValidation, read_imagenet
from heatcheck.data.imagenet_classes import imagenet_names
from heatcheck.data.imagenet_labels import read_blacklist
from heatcheck.data.photographs import photograph_list, photographs
from heatcheck.data.places365 import Places365Validation, read_places365
from heatcheck.data.rendered import metal_color
from heatcheck.data.selection import select_images
from heatcheck.metrics.scoring import ask_all, softmax_of
from heatcheck.models.registry import Classifier
from heatcheck.runtime.progress import progress

Split = Literal["test", "heldout"]
_BLOCK = 256


class Sizes(NamedTuple):
    """How many images to test on, and how many to choose thresholds on."""

    test: int
    heldout: int


class Images(NamedTuple):
    """Images to test on, and those held out for choosing thresholds (None where there are none).

    ``n_wrong`` images were left out because the classifier gets them wrong; ``selection`` says how images
    were drawn from an archive, with the SHA-256 of both lists.
    """

    test: LabelledImages
    heldout: LabelledImages | None
    n_wrong: int
    selection: Mapping[str, int | str] = MappingProxyType({})


def load_images(name: str, classifier: Classifier, sizes: Sizes, device: torch.device) -> Images:
    """Images of data set ``name`` that ``classifier`` gets right.

    Args:
        name: ``metal-color``, ``photographs``, ``imagenet`` or ``places365``.
        classifier: Decides size and preprocessing, and which images count.
        sizes: How many images. Fewer come back when the classifier is wrong about some.
        device: Where the classifier runs.

    Raises:
        ValueError: No such data set, or its classes are not the classifier's.
        FileNotFoundError: A data set of the user's is not where its environment variable says.
    """
    if name not in _LOADERS:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(_LOADERS)}")
    images = _LOADERS[name](classifier, sizes, device)
    highest = int(images.test.targets.max())
    if highest >= len(classifier.classes):
        raise ValueError(
            f"data set {name!r} has class {highest}, model {classifier.name!r} knows "
            f"{len(classifier.classes)} classes; choose the model that was trained for it"
        )
    return images


def predict(classifier: Classifier, images: Tensor, device: torch.device) -> Tensor:
    """Most probable class ``(N,)`` int64 of images ``(N, 3, H, W)`` in [0, 1], on the CPU."""
    mean, std = (torch.tensor(part).view(1, -1, 1, 1) for part in classifier.normalization)
    module = classifier.module.to(device)
    return ask_all(softmax_of(module), ((images - mean) / std).to(device)).argmax(1).cpu()


def _correct(data: LabelledImages, classifier: Classifier, device: torch.device) -> LabelledImages:
    right = predict(classifier, data.images, device) == data.targets
    if not right.any():
        raise ValueError(
            f"model {classifier.name!r} gets none of the {len(data)} images of {data.name!r} right; "
            "choose the model that was trained for it"
        )
    return data.take(torch.nonzero(right).flatten().tolist())


def _metal_color(classifier: Classifier, sizes: Sizes, device: torch.device) -> Images:
    drawn = metal_color("test", sizes.test, size=classifier.size)
    test = _correct(drawn, classifier, device)
    held = metal_color("heldout", sizes.heldout, size=classifier.size) if sizes.heldout else None
    heldout = None if held is None else _correct(held, classifier, device)
    return Images(test, heldout, len(drawn) - len(test))


def _photographs(classifier: Classifier, sizes: Sizes, device: torch.device) -> Images:
    # Six pictures are shown, not counted: they are explained for their class even where it is not top-1.
    data = photographs(classifier.size, classifier.preprocessing)
    if len(classifier.classes) != len(imagenet_names()):
        # Not ImageNet's classes in ImageNet's order: find each photograph's class by its name.
        names = {item.id: item.class_name for item in photograph_list()}
        targets = [classifier.class_index(names[name]) for name in data.ids]
        data = replace(data, targets=torch.tensor(targets, dtype=torch.int64))
    if sizes.test > len(data):
        raise ValueError(f"there are {len(data)} photographs, {sizes.test} were asked for")
    wrong = int((predict(classifier, data.images, device) != data.targets).sum())
    return Images(data.take(range(sizes.test)), None, wrong)


def _archive(
    read: Callable[[Path], ImageNetValidation | Places365Validation], root: str
) -> Callable[[Classifier, Sizes, torch.device], Images]:
    def load(classifier: Classifier, sizes: Sizes, device: torch.device) -> Images:
        return _select(read(archive_root(root)), classifier, sizes, device)

    return load


def _select(
    archive: ImageNetValidation | Places365Validation,
    classifier: Classifier,
    sizes: Sizes,
    device: torch.device,
) -> Images:
    mode, side = classifier.preprocessing, classifier.size
    rows = range(len(archive))
    decoded = decode_once(archive.ids, archive.paths, cache_folder() / "decoded", mode=mode, size=side)
    blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)]
    predictions = torch.cat(
        [
            predict(classifier, decoded.images(block), device)
            for block in progress(blocks, label="classifying images")
        ]
    )
    visible = None
    if isinstance(archive, ImageNetValidation) and archive.boxes is not None:
        visible = archive.visible(rows, mode, side)
    listed = os.environ.get(IMAGENET_BLACKLIST)
    chosen = select_images(
        archive.ids,
        archive.targets,
        predictions,
        n=sizes.test,
        n_held_out=sizes.heldout,
        visible=visible,
        blacklist=read_blacklist(listed) if listed else frozenset(),
    )
    heldout = archive.load(chosen.held_out, mode, side) if sizes.heldout else None
    facts = {key: value for key, value in chosen._asdict().items() if isinstance(value, int | str)}
    return Images(archive.load(chosen.test, mode, side), heldout, chosen.n_wrong, facts)


_LOADERS: dict[str, Callable[[Classifier, Sizes, torch.device], Images]] = {
    "metal-color": _metal_color,
    "photographs": _photographs,
    "imagenet": _archive(read_imagenet, IMAGENET_ROOT),
    "places365": _archive(read_places365, PLACES365_ROOT),
}
