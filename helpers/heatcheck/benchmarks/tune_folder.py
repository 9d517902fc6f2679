"""Fine-tuning of any classifier with patch deletion on a folder of images, ImageNet's by default recipe.

``python -m heatcheck.benchmarks.tune_folder design/resnet50 IMAGENET --weights resnet50-0676ba61.pth``
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import typer
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from heatcheck.models.catalog import get_classifier
from heatcheck.models.design.catalog import find_design
from heatcheck.models.patch_deletion import (
    Batches,
    Deletions,
    FineTuning,
    delete_patches,
    draw_deletions,
    fine_tune,
)
from heatcheck.models.registry import Classifier
from heatcheck.models.shipped import save_weights
from heatcheck.models.training import Loss


class Folders(NamedTuple):
    """Training and validation images, each in one folder per class; classes are in alphabetical order."""

    train: datasets.ImageFolder
    val: datasets.ImageFolder


def tune_folder(
    classifier: Classifier, folder: Path, into: Path, recipe: FineTuning, *, workers: int = 8
) -> Path:
    """Path of the fine-tuned weights of ``classifier``, written with their manifest.

    Training images are cropped at random to the input's size (8 to 100 % of the area, sides 3:4 to 4:3) and
    mirrored by a fair coin; validation images are resized to 8/7 of the input's side, their center is used.

    Args:
        classifier: Its module is changed; it trains on the module's device.
        folder: Has ``train`` and ``val``, each with one folder per class.
        into: The file to write, ``.safetensors``.
        recipe: How to fine-tune.
        workers: Processes that decode images.

    Raises:
        FileNotFoundError: There are no images.
        ValueError: The classifier has another number of classes than the folder.
    """
    folders = open_folders(classifier, folder)
    generator = torch.Generator().manual_seed(recipe.seed)
    loader = DataLoader(
        folders.train, recipe.batch_size, shuffle=True, num_workers=workers, generator=generator
    )
    batches: Callable[[int], Batches] = lambda _epoch: loader  # noqa: E731 - a loader shuffles anew each time
    val = DataLoader(folders.val, recipe.batch_size, num_workers=workers)
    measure = partial(accuracies, batches=val, n_patches=recipe.n_patches)
    before = measure(classifier.module.eval())
    tuned = fine_tune(classifier.module, batches, measure, recipe, label=classifier.name)
    manifest = {
        "source": f"{classifier.name}, fine-tuned with patch deletion",
        "classes": list(classifier.classes),
        "size": classifier.size,
        "mean": list(classifier.normalization.mean),
        "std": list(classifier.normalization.std),
        "tuning": dataclasses.asdict(recipe),
        "n_train": len(folders.train),
        "accuracy_before": before,
        "history": tuned.history,
        "kept_epoch": tuned.kept_epoch,
        "torch": torch.__version__,
    }
    return save_weights(tuned.module, into.stem, manifest, into.parent)


def open_folders(classifier: Classifier, folder: Path) -> Folders:
    """Images below ``folder``, decoded as ``classifier`` needs them.

    Raises:
        FileNotFoundError: There are no images.
        ValueError: The classifier has another number of classes than the folder.
    """
    size, to_input = classifier.size, [transforms.ToTensor(), transforms.Normalize(*classifier.normalization)]
    cropped = transforms.Compose(
        [transforms.RandomResizedCrop(size), transforms.RandomHorizontalFlip(), *to_input]
    )
    whole = transforms.Compose(
        [transforms.Resize(round(size * 8 / 7)), transforms.CenterCrop(size), *to_input]
    )
    found = Folders(
        datasets.ImageFolder(str(folder / "train"), cropped), datasets.ImageFolder(str(folder / "val"), whole)
    )
    for part in found:
        if len(part.classes) != len(classifier.classes):
            raise ValueError(
                f"{part.root} has {len(part.classes)} classes, {classifier.name} has "
                f"{len(classifier.classes)}"
            )
    return found


@torch.no_grad()
def accuracies(module: nn.Module, *, batches: Batches, n_patches: int) -> dict[str, float]:
    """Accuracy ``intact``, and ``deleted`` with one patch of each image set to zero, drawn once for all.

    Args:
        module: In evaluation mode.
        batches: Normalized images and targets.
        n_patches: Rows and columns of the grid.
    """
    device = next(module.parameters()).device
    generator = torch.Generator().manual_seed(0)
    hits, seen = {"intact": 0, "deleted": 0}, 0
    for images, targets in batches:
        drawn = draw_deletions(len(images), n_patches, generator)
        holed = delete_patches(images, everywhere(drawn), n_patches)
        for name, shown in (("intact", images), ("deleted", holed)):
            hits[name] += int((module(shown.to(device)).argmax(dim=1).cpu() == targets).sum())
        seen += len(images)
    return {name: count / seen for name, count in hits.items()}


def everywhere(deletions: Deletions) -> Deletions:
    """``deletions`` with the chosen patch deleted in every image."""
    deleted: Tensor = torch.ones_like(deletions.deleted)
    return deletions._replace(deleted=deleted)


def _main(
    model: str,
    folder: Path,
    *,
    weights: Annotated[
        str | None, typer.Option(help="File, folder or 'hub' of the starting weights.")
    ] = None,
    into: Annotated[Path, typer.Option(help="The file to write.")] = Path("tuned.safetensors"),
    epochs: int = FineTuning.epochs,
    batch_size: int = FineTuning.batch_size,
    workers: int = 8,
    device: str = "cuda",
) -> None:
    binary = model.startswith("design/") and find_design(model)[0].binary
    loss: Loss = "binary" if binary else "cross-entropy"
    classifier = get_classifier(model, weights=weights, device=device)
    recipe = FineTuning(epochs=epochs, batch_size=batch_size, loss=loss)
    tune_folder(classifier, folder, into, recipe, workers=workers)


if __name__ == "__main__":
    typer.run(_main)
