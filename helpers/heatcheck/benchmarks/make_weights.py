"""Training of the weights that ship with the package: ``python -m heatcheck.benchmarks.make_weights``."""

import time
from pathlib import Path

import torch
from torch import Tensor

from heatcheck.data.rendered import metal_color
from heatcheck.data.scenes import COLORS
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.registry import Normalization
from heatcheck.models.resnet8 import METAL_COLOR, ResNet8
from heatcheck.models.shipped import save_weights, weights_folder
from heatcheck.models.state_dict import own_randomness
from heatcheck.models.training import METAL_COLOR_RECIPE, Recipe, accuracy, flip_horizontally, train


def make_metal_color(
    folder: Path,
    *,
    n_train: int = 8000,
    n_test: int = 1000,
    size: int = 64,
    recipe: Recipe = METAL_COLOR_RECIPE,
) -> Path:
    """Path of the weights of ``resnet8-metal-color``, trained and written with their manifest.

    Args:
        folder: Where ``resnet8_metal_color.safetensors`` and ``.json`` are written.
        n_train: Training images.
        n_test: Images of other scenes on which the accuracy in the manifest is measured.
        size: Side of the images in pixels.
        recipe: How to train.
    """
    data, unseen = metal_color("train", n_train, size=size), metal_color("test", n_test, size=size)
    statistics = image_statistics(data.images)
    with own_randomness(recipe.seed):
        model = ResNet8(len(COLORS)).to(memory_format=torch.channels_last)
    start = time.process_time()
    train(
        model,
        normalized(data.images, statistics),
        data.targets,
        recipe,
        augment=flip_horizontally,
        label=METAL_COLOR,
    )
    seconds = time.process_time() - start
    measured = {
        "n_train": n_train,
        "cpu_seconds": round(seconds, 1),
        "n_test": n_test,
        "test_accuracy": accuracy(model, normalized(unseen.images, statistics), unseen.targets),
    }
    manifest = {**_origin(size, statistics, recipe), **measured}
    return save_weights(model, METAL_COLOR, manifest, folder)


def image_statistics(images: Tensor) -> Normalization:
    """Mean and standard deviation per channel of ``images`` ``(N, C, H, W)``, to four digits."""
    pixels = images.transpose(0, 1).flatten(1).double()
    mean, std = pixels.mean(dim=1).tolist(), pixels.std(dim=1, correction=0).tolist()
    return Normalization(tuple(round(value, 4) for value in mean), tuple(round(value, 4) for value in std))


def normalized(images: Tensor, statistics: Normalization) -> Tensor:
    """``images`` ``(N, C, H, W)`` in [0, 1] minus mean, over standard deviation, in memory channels-last.

    In that order a CPU trains the network a quarter faster.
    """
    shape = (1, -1, 1, 1)
    result = (images - torch.tensor(statistics.mean).view(shape)) / torch.tensor(statistics.std).view(shape)
    return result.contiguous(memory_format=torch.channels_last)


def _origin(size: int, statistics: Normalization, recipe: Recipe) -> dict[str, object]:
    """What the weights are and how they were made."""
    return {
        "source": "trained by this project on its own rendered scenes",
        "license": "Apache-2.0",
        "made_by": "python -m heatcheck.benchmarks.make_weights",
        "task": "color of the only metal object among three to five objects",
        "architecture": "heatcheck.models.resnet8.ResNet8",
        "classes": list(COLORS),
        "size": size,
        "mean": list(statistics.mean),
        "std": list(statistics.std),
        "seed": recipe.seed,
        "epochs": recipe.epochs,
        "shader_sha256": shader_hash(default_shader()),
        "torch": torch.__version__,
    }


if __name__ == "__main__":
    make_metal_color(weights_folder())
