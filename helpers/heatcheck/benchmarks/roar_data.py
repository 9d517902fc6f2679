"""What networks of the remove-and-retrain benchmark are trained and tested on, opened once per process."""

from functools import lru_cache
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from heatcheck.benchmarks.roar_settings import Settings
from heatcheck.data.parts import Part, RetrainingSet, training_mean
from heatcheck.data.retraining_sets import load_retraining_set
from heatcheck.models.registry import IMAGENET, Normalization

Split = Literal["train", "test"]
SPLITS: tuple[Split, ...] = ("train", "test")
# Training images whose colors decide the standard deviation.
_SCALE = 1024


class DataKey(NamedTuple):
    """Names the images of a run; the process that needs them opens them."""

    name: str
    n_train: int | None
    n_test: int | None
    size: int | None
    seed: int
    published: bool


class Data(NamedTuple):
    """Images of a run.

    Attributes:
        images: Training and test images.
        mean: ``(3,)`` float32 in [0, 1]: what removed units become.
        normalization: Of all networks; removed units are 0 afterwards.
    """

    images: RetrainingSet
    mean: Tensor
    normalization: Normalization


def data_key(settings: Settings) -> DataKey:
    """Key of the images that ``settings`` ask for."""
    published = settings.protocol == "release"
    return DataKey(settings.data, settings.n_train, settings.n_test, settings.size, settings.seed, published)


@lru_cache(maxsize=2)
def load_data(key: DataKey) -> Data:
    """Images of ``key``, with the color of removed units.

    That color is the training images' mean, by which networks then normalize; the released code has
    ImageNet's mean and deviation for all data sets.

    Raises:
        ValueError: There is no such data set, or not as many images.
        FileNotFoundError: A data set of the user's is not where its environment variable says.
    """
    found = load_retraining_set(
        key.name, n_train=key.n_train, n_test=key.n_test, size=key.size, seed=key.seed
    )
    if key.published:
        return Data(found, torch.tensor(IMAGENET.mean), IMAGENET)
    mean = training_mean(found.train)
    deviation = _deviation(found.train)
    return Data(found, mean, Normalization(tuple(mean.tolist()), tuple(deviation.tolist())))


def part_of(data: Data, split: Split) -> Part:
    """Training or test images."""
    return data.images.train if split == "train" else data.images.test


def _deviation(part: Part) -> Tensor:
    """Standard deviation of the colors of at most ``_SCALE`` training images, ``(3,)`` float32."""
    pixels = torch.from_numpy(part.images[:_SCALE].copy()).double() / 255
    return pixels.flatten(0, 2).std(0, correction=0).float()
