"""All data sets: what they are, where they lie, and whether they are there."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

from heatcheck.data.clevr.embedded import EmbeddedError, read_manifest
from heatcheck.data.photographs import Photograph, credits, photograph_list

IMAGENET_ROOT = "HEATCHECK_IMAGENET"
PLACES365_ROOT = "HEATCHECK_PLACES365"
IMAGENET_BLACKLIST = "HEATCHECK_IMAGENET_BLACKLIST"
CLEVR_XAI_ROOT = "HEATCHECK_CLEVR_XAI"
CLEVR_XAI_IMAGES = "HEATCHECK_CLEVR_XAI_IMAGES"
CLEVR_ROOT = "HEATCHECK_CLEVR"
FOOD101_ROOT = "HEATCHECK_FOOD101"
BIRDSNAP_ROOT = "HEATCHECK_BIRDSNAP"
CIFAR10_ROOT = "HEATCHECK_CIFAR10"


class DataSet(NamedTuple):
    """One data set.

    Attributes:
        name: What it is called in parameters and tables.
        kind: ``rendered`` at first use, ``packaged`` in a library, or an ``archive`` of the user's.
        n: Number of images; None where as many as are asked for are made.
        where: Its folder or file on this machine, or what to set to say so.
        present: It can be used now.
        licence: Terms of the images.
        about: One sentence about it.
        details: How an archive must be laid out, or whom to credit, line by line.
    """

    name: str
    kind: Literal["rendered", "packaged", "archive"]
    n: int | None
    where: str
    present: bool
    licence: str
    about: str
    details: tuple[str, ...] = ()


_IMAGENET_LAYOUT = (
    "images: ILSVRC2012_val_00000001.JPEG ... flat, or in one folder per WordNet id; in the folder itself,",
    "  in val, or where the archives of the challenge and of its Kaggle edition unpack them",
    "labels and boxes: LOC_val_solution.csv, or XML annotations in ILSVRC/Annotations/CLS-LOC/val",
    "training images (only to retrain on): one folder per WordNet id, in train or where the archives of the",
    "  challenge and of its Kaggle edition unpack them",
    f"blacklist (optional): {IMAGENET_BLACKLIST} names the file of 1762 numbers; without it all images count",
)
_PLACES365_LAYOUT = (
    "images: Places365_val_00000001.jpg ... in val_256, val_large, val or the folder itself",
    "labels: places365_val.txt and categories_places365.txt, in the folder or in filelist_places365-standard",
)
_CLEVR_XAI_LAYOUT = (
    "questions: CLEVR-XAI_scenes.json, CLEVR-XAI_simple_questions.json, CLEVR-XAI_complex_questions.json",
    "images: images/CLEVR_unique_000000.png ... and masks/ with the same names, in the same folder, or in",
    f"  CLEVR-XAI_v1.0_images_masks in or beside it, or in the folder that {CLEVR_XAI_IMAGES} names",
    "ground truths (optional): ground_truth_complex_questions_union and five more, with 0.npy, 1.npy ...;",
    "  without them they are computed from programs and masks",
    "own scenes in this layout: heatcheck data make clevr --scenes 1000 --seed 1 --into DIR",
)
_CLEVR_LAYOUT = (
    "questions: questions/CLEVR_train_questions.json, and the same for val",
    "scenes: scenes/CLEVR_train_scenes.json, and the same for val",
    "images: images/train/CLEVR_train_000000.png ... and images/val, as CLEVR_v1.0.zip unpacks them",
)
_FOOD101_LAYOUT = (
    "images: images/apple_pie/1005649.jpg ..., in the folder food-101 or the one around it",
    "lists: meta/classes.txt, meta/train.txt and meta/test.txt, as food-101.tar.gz unpacks them",
)
_BIRDSNAP_LAYOUT = (
    "lists: species.txt, images.txt and test_images.txt, as birdsnap.tgz (version 1.1) unpacks them",
    "images: in download/images, where the archive's script get_birdsnap.py puts them, or in images",
    "many links have died: what is missing is left out and counted in the facts of every run",
)
_CIFAR10_LAYOUT = (
    "images: data_batch_1 to data_batch_5, test_batch and batches.meta, as cifar-10-python.tar.gz unpacks",
    "  them; read without running what a pickle may hold",
)
_EMBEDDED_DETAILS = (
    "laid out as CLEVR-XAI's release; 128 x 128 images, masks of 320 x 480, questions in our own wording",
    "CLEVR-like only: models trained on these scenes answer far fewer questions about those of CLEVR",
    "more of them, in any number: heatcheck data make clevr --scenes 1000 --seed 1 --into DIR",
)


def describe() -> list[DataSet]:
    """All data sets this package knows, the embedded ones first."""
    return [dataset() for dataset in _DATA_SETS]


def archive_root(variable: str) -> Path:
    """Folder that the environment variable ``variable`` names.

    Raises:
        FileNotFoundError: The variable is not set, or there is no such folder.
    """
    value = os.environ.get(variable)
    if not value:
        raise FileNotFoundError(f"set {variable} to the folder of the archive; it is not set")
    if not Path(value).is_dir():
        raise FileNotFoundError(f"{variable} names {value}, which is no folder")
    return Path(value)


def _metal_color() -> DataSet:
    return DataSet(
        "metal-color",
        "rendered",
        None,
        "rendered at first use",
        True,
        "Apache-2.0",
        "scenes of 3 to 5 objects, classified by the color of the only metal one, with masks and boxes",
    )


def _single_objects(name: str, about: str) -> Callable[[], DataSet]:
    return lambda: DataSet(name, "rendered", None, "rendered at first use", True, "Apache-2.0", about)


def _digits() -> DataSet:
    return DataSet(
        "digits",
        "packaged",
        1_797,
        "inside the package scikit-learn",
        True,
        "CC BY 4.0",
        "handwritten digits of 8 x 8 pixels, 1,400 to train on and 397 to test on",
    )


def _clevr_embedded() -> DataSet:
    try:
        manifest, where = read_manifest(), "inside this package"
    except EmbeddedError as error:
        manifest, where = {}, str(error)
    return DataSet(
        "clevr-embedded",
        "packaged",
        manifest.get("n_scenes"),
        where,
        bool(manifest),
        "Apache-2.0",
        "rendered scenes of 3 to 10 objects with masks, and simple and complex questions about them",
        _EMBEDDED_DETAILS,
    )


def _photographs() -> DataSet:
    listed = photograph_list()
    packages = ", ".join(sorted({item.package for item in listed}))
    licenses = ", ".join(sorted({item.license for item in listed}))
    return DataSet(
        "photographs",
        "packaged",
        len(listed),
        f"inside the packages {packages}",
        all(_is_there(item) for item in listed),
        licenses,
        "photographs with one box each, for illustration",
        tuple(credits().splitlines()),
    )


def _is_there(photograph: Photograph) -> bool:
    try:
        return photograph.path.is_file()
    except FileNotFoundError:
        return False


def _imagenet() -> DataSet:
    return _archive(
        "imagenet",
        50_000,
        IMAGENET_ROOT,
        "ImageNet terms of access",
        about="validation images of ILSVRC 2012, with boxes",
        layout=_IMAGENET_LAYOUT,
    )


def _places365() -> DataSet:
    return _archive(
        "places365",
        36_500,
        PLACES365_ROOT,
        "Places365 terms of use",
        about="validation images of Places365, without boxes",
        layout=_PLACES365_LAYOUT,
    )


def _clevr_xai() -> DataSet:
    return _archive(
        "clevr-xai",
        10_000,
        CLEVR_XAI_ROOT,
        "CC-BY-4.0",
        about="scenes with masks, 39761 simple and 100000 complex questions, and their ground truths",
        layout=_CLEVR_XAI_LAYOUT,
    )


def _clevr() -> DataSet:
    return _archive(
        "clevr",
        85_000,
        CLEVR_ROOT,
        "CC-BY-4.0",
        about="training and validation scenes of CLEVR v1.0 with questions, to train networks on",
        layout=_CLEVR_LAYOUT,
    )


def _food101() -> DataSet:
    return _archive(
        "food101",
        101_000,
        FOOD101_ROOT,
        "terms of the photographs' owners",
        about="photographs of 101 dishes, 75,750 to train on and 25,250 to test on",
        layout=_FOOD101_LAYOUT,
    )


def _birdsnap() -> DataSet:
    return _archive(
        "birdsnap",
        49_829,
        BIRDSNAP_ROOT,
        "terms of the photographs' owners",
        about="photographs of 500 bird species, 47,386 to train on and 2,443 to test on",
        layout=_BIRDSNAP_LAYOUT,
    )


def _cifar10() -> DataSet:
    return _archive(
        "cifar10",
        60_000,
        CIFAR10_ROOT,
        "none stated",
        about="images of 32 x 32 pixels in ten classes, 50,000 to train on and 10,000 to test on",
        layout=_CIFAR10_LAYOUT,
    )


def _archive(
    name: str, n: int, variable: str, licence: str, *, about: str, layout: tuple[str, ...]
) -> DataSet:
    try:
        where, present = str(archive_root(variable)), True
    except FileNotFoundError as error:
        where, present = str(error), False
    return DataSet(name, "archive", n, where, present, licence, about, layout)


_DATA_SETS: tuple[Callable[[], DataSet], ...] = (
    _metal_color,
    _clevr_embedded,
    _photographs,
    _single_objects(
        "color-material", "single objects in 16 classes of color and material, with masks, to retrain on"
    ),
    _single_objects(
        "shape-material-size", "single objects in 12 classes, whose outlines give the class away, with masks"
    ),
    _digits,
    _imagenet,
    _places365,
    _clevr_xai,
    _clevr,
    _food101,
    _birdsnap,
    _cifar10,
)
