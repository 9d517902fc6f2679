"""The images a single-deletion run scores: right or wrong, the same for every model."""

from collections.abc import Callable
from pathlib import Path

from heatcheck.data.batch import LabelledImages
from heatcheck.data.catalog import IMAGENET_ROOT, PLACES365_ROOT, archive_root
from heatcheck.data.imagenet import ImageNetValidation, read_imagenet
from heatcheck.data.places365 import Places365Validation, read_places365
from heatcheck.data.rendered import Split, metal_color
from heatcheck.data.selection import select_images
from heatcheck.models.registry import Classifier

Archive = ImageNetValidation | Places365Validation
Loader = Callable[[Classifier, int, Split], LabelledImages]


def load_sample(name: str, classifier: Classifier, n: int, *, split: Split = "test") -> LabelledImages:
    """``n`` images of data set ``name`` in the classifier's preprocessing; its predictions do not matter.

    Images of an archive are drawn in a fixed random order of their sorted names, so that every classifier
    gets the same ones and a larger sample begins with a smaller one.

    Args:
        name: ``metal-color``, ``imagenet`` or ``places365``.
        classifier: Decides size and preprocessing.
        n: Number of images.
        split: ``test``, ``heldout`` or ``train``; the archives have their validation images alone, as
            ``test``.

    Raises:
        ValueError: No such data set or split, too few images, or classes that are not the classifier's.
        FileNotFoundError: A data set of the user's is not where its environment variable says.
    """
    if name not in _LOADERS:
        raise ValueError(f"unknown data set {name!r}; known: {', '.join(_LOADERS)}")
    data = _LOADERS[name](classifier, n, split)
    highest = int(data.targets.max())
    if highest >= len(classifier.classes):
        raise ValueError(
            f"data set {name!r} has class {highest}, model {classifier.name!r} knows "
            f"{len(classifier.classes)} classes; choose the model that was trained for it"
        )
    return data


def _metal_color(classifier: Classifier, n: int, split: Split) -> LabelledImages:
    return metal_color(split, n, size=classifier.size)


def _archive(read: Callable[[Path], Archive], root: str) -> Loader:
    def load(classifier: Classifier, n: int, split: Split) -> LabelledImages:
        if split != "test":
            raise ValueError(f"the archive has validation images alone, got split {split!r}; allowed: test")
        archive = read(archive_root(root))
        # Its own labels as predictions: no image is left out for being classified wrongly.
        rows = select_images(archive.ids, archive.targets, archive.targets, n=n, n_held_out=0).test
        return archive.load(rows, classifier.preprocessing, classifier.size)

    return load


_LOADERS: dict[str, Loader] = {
    "metal-color": _metal_color,
    "imagenet": _archive(read_imagenet, IMAGENET_ROOT),
    "places365": _archive(read_places365, PLACES365_ROOT),
}
