"""ImageNet's training images beside its validation images, which are the test images here."""

from pathlib import Path

from heatcheck.data.imagenet import read_imagenet
from heatcheck.data.imagenet_classes import imagenet_wnids, name_some
from heatcheck.data.imagenet_labels import WNID
from heatcheck.data.loading import list_images
from heatcheck.data.parts import Published
from heatcheck.data.splits import Listed, SplitArchive, split_archive

IMAGENET = Published(1_000, 1_281_167, 50_000)
_FOLDERS = ("train", "ILSVRC2012_img_train", "ILSVRC/Data/CLS-LOC/train", "Data/CLS-LOC/train")


def read_imagenet_splits(
    root: Path | str,
    *,
    partial: bool = False,
    classes: tuple[str, ...] | None = None,
    published: Published = IMAGENET,
) -> SplitArchive:
    """Training and validation images under ``root``.

    Args:
        root: Folder of the archive. Training images lie in one folder per WordNet id, in ``train`` or where
            the archives of the challenge and of its Kaggle edition unpack them; validation images as
            ``read_imagenet`` says.
        partial: Accept missing images and classes.
        classes: WordNet ids in the order of the classifier's outputs; by default the 1000 of ImageNet.
        published: Numbers the whole archive has.

    Raises:
        FileNotFoundError: Images, classes or labels are missing; the message names them.
        ValueError: A folder is no class, or the numbers are not those published.
    """
    names = classes or imagenet_wnids()
    folder = _train_folder(Path(root))
    there = sorted(path.name for path in folder.iterdir() if path.is_dir() and WNID.fullmatch(path.name))
    unknown = sorted(set(there) - set(names))
    if unknown:
        raise ValueError(f"{folder} has {len(unknown)} folders that are no class: {name_some(unknown)}")
    index = {wnid: position for position, wnid in enumerate(names)}
    train = [Listed(path.stem, path, index[wnid]) for wnid in there for path in list_images(folder / wnid)]
    validation = read_imagenet(root, with_boxes=False, partial=partial, classes=names)
    images = zip(validation.ids, validation.paths, validation.targets.tolist(), strict=True)
    test = [Listed(*image) for image in images]
    return split_archive("imagenet", names, train, test, published, partial=partial)


def _train_folder(root: Path) -> Path:
    found = next((root / name for name in _FOLDERS if (root / name).is_dir()), None)
    if found is None:
        raise FileNotFoundError(
            f"no training images of ImageNet under {root}; looked for {', '.join(_FOLDERS)}, each with one "
            "folder per WordNet id"
        )
    return found
