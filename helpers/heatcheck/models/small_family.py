"""A family of small classifiers of rendered scenes that differ in one factor at a time.

Each is registered twice: ``small/<name>`` as trained, and ``small/<name>-tuned`` after fine-tuning with
patch deletion. ``python -m heatcheck.benchmarks.make_design_weights`` trains them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType

from torch import nn

from heatcheck.models.design.bagnet import BagNet
from heatcheck.models.design.bcos import BcosResNet
from heatcheck.models.design.fixup import FixupResNet
from heatcheck.models.registry import Classifier, Factory, register_model
from heatcheck.models.shipped import shipped_classifier, weights_folder
from heatcheck.models.small_networks import SmallResNet, SmallVGG, small_vit

PREFIX = "small/"
TUNED = "-tuned"
FOLDER = "small"
WIDTH = 12
# The attributes of a member that a design study varies.
FACTORS = ("kind", "depth", "width", "norm", "bias", "receptive_field")


@dataclass(frozen=True)
class Member:
    """One network of the family and what sets it apart.

    Attributes:
        name: Its name, ``resnet8`` for ``small/resnet8``.
        build: Number of classes to the network with random weights.
        kind: Backbone: ``resnet``, ``vgg``, ``bagnet``, ``bcos`` or ``vit``.
        depth: Layers with weights on the longest path.
        width: Channels of the first stage, or length of a token.
        norm: ``batch``, ``layer``, ``uncentered`` or ``none``.
        bias: ``full``; ``scalar``, one number per layer; or ``none``.
        receptive_field: Side in pixels of what one position of the last map sees; None for the whole image.
        learning_rate: Largest one that trains it well.
        epochs: Of training.
        tuning_rate: Learning rate with which fine-tuning starts.
        binary: Trained with binary cross-entropy, on images in [0, 1] that are not normalized.
    """

    name: str
    build: Callable[[int], nn.Module] = field(repr=False)
    kind: str
    depth: int
    width: int = WIDTH
    norm: str = "batch"
    bias: str = "full"
    receptive_field: int | None = None
    learning_rate: float = 3e-3
    epochs: int = 12
    tuning_rate: float = 1e-2
    binary: bool = False


def file_name(name: str, *, tuned: bool) -> str:
    """Name without suffix of the weights of member ``name``, before or after fine-tuning."""
    return f"{name}{TUNED if tuned else ''}".replace("-", "_")


def small_folder() -> Path:
    """Folder of the family's weights and manifests."""
    return weights_folder() / FOLDER


def small_classifier(name: str, *, tuned: bool, folder: Path | None = None) -> Classifier:
    """Classifier ``small/<name>`` or ``small/<name>-tuned``, in evaluation mode.

    Args:
        name: A key of ``FAMILY``.
        tuned: After fine-tuning with patch deletion.
        folder: Where the weights lie; the package's own folder by default.

    Raises:
        ValueError: The weights are missing, changed or of another architecture.
    """
    return shipped_classifier(
        f"{PREFIX}{name}{TUNED if tuned else ''}",
        FAMILY[name].build(N_CLASSES),
        file_name(name, tuned=tuned),
        folder or small_folder(),
    )


def _fixup(*, biased: bool) -> Callable[[int], nn.Module]:
    return partial(FixupResNet, biased=biased, depths=(1, 1, 1), width=WIDTH, bottleneck=False, small=True)


def _bagnet(n_wide: int) -> Callable[[int], nn.Module]:
    return partial(
        BagNet,
        n_wide=n_wide,
        depths=(1, 1, 1),
        strides=(2, 2, 1),
        width=16,
        expansion=1,
        momentum=0.1,
    )


def _bcos(n_classes: int) -> nn.Module:
    return BcosResNet(n_classes, depths=(1, 1, 1), width=WIDTH, bottleneck=False, small=True)


N_CLASSES = 8
_MEMBERS = (
    Member("resnet8", partial(SmallResNet, width=WIDTH), "resnet", 8),
    Member("resnet14", partial(SmallResNet, n_blocks=2, width=WIDTH), "resnet", 14),
    Member("resnet20", partial(SmallResNet, n_blocks=3, width=WIDTH), "resnet", 20),
    Member("resnet8-wide", partial(SmallResNet, width=2 * WIDTH), "resnet", 8, width=2 * WIDTH),
    Member(
        "resnet8-fixup",
        _fixup(biased=True),
        "resnet",
        8,
        norm="none",
        bias="scalar",
        learning_rate=2e-3,
        epochs=36,
        tuning_rate=1e-3,
    ),
    Member(
        "resnet8-x",
        _fixup(biased=False),
        "resnet",
        8,
        norm="none",
        bias="none",
        learning_rate=2e-3,
        epochs=36,
        tuning_rate=1e-3,
    ),
    Member("vgg8-bn", partial(SmallVGG, width=WIDTH, normalized=True), "vgg", 8),
    Member(
        "vgg8",
        partial(SmallVGG, width=WIDTH),
        "vgg",
        8,
        norm="none",
        learning_rate=2e-3,
        epochs=36,
        tuning_rate=1e-3,
    ),
    Member(
        "vgg8-x",
        partial(SmallVGG, width=WIDTH, biased=False),
        "vgg",
        8,
        norm="none",
        bias="none",
        learning_rate=2e-3,
        epochs=36,
        tuning_rate=1e-3,
    ),
    Member("bagnet17", _bagnet(3), "bagnet", 12, width=16, receptive_field=17),
    Member("bagnet9", _bagnet(2), "bagnet", 12, width=16, receptive_field=9),
    Member("bagnet5", _bagnet(1), "bagnet", 12, width=16, receptive_field=5),
    Member(
        "bcos-resnet8",
        _bcos,
        "bcos",
        8,
        norm="uncentered",
        bias="none",
        tuning_rate=3e-3,
        binary=True,
    ),
    Member(
        "vit",
        small_vit,
        "vit",
        10,
        width=48,
        norm="layer",
        learning_rate=2.5e-3,
        epochs=48,
        tuning_rate=1e-3,
    ),
)
FAMILY: Mapping[str, Member] = MappingProxyType({member.name: member for member in _MEMBERS})


def _factory(name: str, *, tuned: bool) -> Factory:
    def factory() -> Classifier:
        return small_classifier(name, tuned=tuned)

    return factory


for _member in _MEMBERS:
    register_model(f"{PREFIX}{_member.name}")(_factory(_member.name, tuned=False))
    register_model(f"{PREFIX}{_member.name}{TUNED}")(_factory(_member.name, tuned=True))
