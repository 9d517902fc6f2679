"""The models of the design study by name: how they are built, normalized, and where their weights come from.

Names, starting points and file names are those of Hesse, Schaub-Meyer, Roth 2024, "Benchmarking the
Attribution Quality of Vision Models", and of its published fine-tuned checkpoints. The weights are not
redistributed here; a folder that holds them is named by the environment variable ``HEATCHECK_IDSDS_WEIGHTS``.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType

import torchvision
from torch import Tensor, nn

from heatcheck.data.catalog import archive_root
from heatcheck.data.imagenet_classes import imagenet_names, imagenet_wnids
from heatcheck.models.design import bagnet, bcos, fixup
from heatcheck.models.registry import IMAGENET, Classifier, Normalization
from heatcheck.models.state_dict import load_by_name, own_randomness, read_state_dict

WEIGHTS_VARIABLE = "HEATCHECK_IDSDS_WEIGHTS"
PREFIX = "design/"
TUNED = "-tuned"
CENTERED = Normalization((0.5,) * 3, (0.5,) * 3)
UNCHANGED = Normalization((0.0,) * 3, (1.0,) * 3)
# How the training script of the published checkpoints names its files.
_TUNED_FILE = "{}_imagenet1000_lr0.001_epochs30_step10_checkpoint_best.pth.tar"
# Left by a wrapper class, inside what data parallelism leaves.
_WRAPPER = "model."


@dataclass(frozen=True)
class Design:
    """One model of the study.

    Attributes:
        name: Its name there.
        build: Number of classes to the network with random weights.
        normalization: Of its images.
        n_parameters: Number of its parameters for 1000 classes.
        n_norms: Number of its batch normalizations.
        start: File its fine-tuning starts from, without suffix; None where none is published.
        tuned: File of the published fine-tuned weights; None where there are none.
        tuned_sha256: Hash of that file where one is known.
        binary: Trained with binary instead of categorical cross-entropy.
    """

    name: str
    build: Callable[[int], nn.Module] = field(repr=False)
    normalization: Normalization
    n_parameters: int
    n_norms: int
    start: str | None = None
    tuned: str | None = None
    tuned_sha256: str | None = None
    binary: bool = False


def x_vgg16(n_classes: int = 1000) -> nn.Module:
    """VGG-16 whose 16 layers have no bias, so that it is positively homogeneous (Hesse et al. 2021)."""
    return without_biases(torchvision.models.vgg16(weights=None, num_classes=n_classes))


def without_biases(module: nn.Module) -> nn.Module:
    """``module`` after the biases of all its layers were taken away."""
    for layer in module.modules():
        if getattr(layer, "bias", None) is not None:
            layer.register_parameter("bias", None)
    return module


def load_design(
    name: str,
    *,
    weights: Path | str | None = None,
    n_classes: int | None = None,
    classes: Sequence[str] | None = None,
    device: str = "cpu",
) -> Classifier:
    """Classifier ``design/<name>`` as its study starts from it, or ``design/<name>-tuned`` after fine-tuning.

    Args:
        name: For example ``design/resnet50`` or ``design/resnet50-tuned``.
        weights: A weight file; a folder that holds it under its published name; ``random`` for none. By
            default the folder that ``HEATCHECK_IDSDS_WEIGHTS`` names.
        n_classes: Number of classes; by default that of ``classes``, or 1000.
        classes: Class names in the order of the outputs; by default ImageNet's where there are 1000.
        device: Where to put the model.

    Raises:
        FileNotFoundError: The file is missing, or nothing says where it is.
        ValueError: Unknown model, or weights of another one.
    """
    design, tuned = find_design(name)
    if classes is not None and n_classes not in (None, len(classes)):
        raise ValueError(f"n_classes is {n_classes}, but {len(classes)} class names were given")
    count = len(classes) if classes is not None else n_classes or 1000
    file = None if weights == "random" else weights_file(design, weights, tuned=tuned)
    with own_randomness():
        module = design.build(count)
    if file is not None:
        load_by_name(module, read_design(file), name=name, source=f"weights {file}")
    names = tuple(classes) if classes is not None else _class_names(count)
    wnids = imagenet_wnids() if names == imagenet_names() else None
    module = module.eval().to(device)
    return Classifier(name, module, 224, design.normalization, names, "short256", wnids)


def find_design(name: str) -> tuple[Design, bool]:
    """The design behind ``design/<name>`` or ``design/<name>-tuned``, and whether it is the fine-tuned one.

    Raises:
        ValueError: There is none; the message lists those there are.
    """
    plain = name.removeprefix(PREFIX)
    short = plain.removesuffix(TUNED)
    if not name.startswith(PREFIX) or short not in DESIGNS:
        near = get_close_matches(short, DESIGNS, n=3)
        hint = f"did you mean {', '.join(near)}? " if near else ""
        raise ValueError(
            f"unknown model {name!r}; {hint}known: {', '.join(DESIGNS)}, each as {PREFIX}<name> and "
            f"{PREFIX}<name>{TUNED}"
        )
    return DESIGNS[short], short != plain


def weights_file(design: Design, weights: Path | str | None, *, tuned: bool) -> Path:
    """File with the weights of ``design``: ``weights`` itself, or the published one in the folder it names.

    Raises:
        FileNotFoundError: There is no such file, or nothing says where it is.
    """
    place = archive_root(WEIGHTS_VARIABLE) if weights is None else Path(weights)
    if not place.is_dir():
        return place
    wanted = design.tuned if tuned else design.start
    if wanted is None:
        state = "fine-tuned" if tuned else "starting"
        raise FileNotFoundError(f"{design.name} has no published {state} weights; give the path of a file")
    pattern = wanted if tuned else f"{wanted}.*"
    found = sorted(place.glob(pattern))
    if not found:
        raise FileNotFoundError(f"{place} holds no {pattern}; put the weights of {design.name} there")
    return found[0]


def read_design(path: Path | str) -> dict[str, Tensor]:
    """Tensors by name in a published checkpoint, without the prefixes of its training script.

    Running means are left out where they belong to norms that subtract none, which have no bias.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is damaged, or holds something else than tensors by name.
    """
    tensors = {key.removeprefix(_WRAPPER): value for key, value in read_state_dict(path).items()}
    unused = {
        key
        for key in tensors
        if key.endswith(".running_mean") and f"{key.removesuffix('running_mean')}bias" not in tensors
    }
    batches = {f"{key.removesuffix('running_mean')}num_batches_tracked" for key in unused}
    return {key: value for key, value in tensors.items() if key not in unused | batches}


def is_published(design: Design, path: Path | str) -> bool | None:
    """The file is bit for bit the published fine-tuned one; None where its hash is not known."""
    if design.tuned_sha256 is None:
        return None
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == design.tuned_sha256


def _class_names(count: int) -> tuple[str, ...]:
    names = imagenet_names()
    return names if count == len(names) else tuple(f"class {index}" for index in range(count))


def _torchvision(name: str) -> Callable[[int], nn.Module]:
    def build(n_classes: int) -> nn.Module:
        module: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=n_classes)
        return module

    return build


def _vit_base(n_classes: int) -> nn.Module:
    # Imported here because timm takes seconds, and a run without this model does without it.
    import timm  # noqa: PLC0415

    module: nn.Module = timm.create_model("vit_base_patch16_224", pretrained=False, num_classes=n_classes)
    return module


def _library(name: str, n_parameters: int, n_norms: int, start: str, *, tuned: bool = True) -> Design:
    file = _TUNED_FILE.format(name) if tuned else None
    build = _torchvision(name)
    return Design(name, build, IMAGENET, n_parameters, n_norms, f"{name}-{start}", file, _SHA256.get(name))


_SHA256 = {
    "resnet50": "dc4b6f9424ca154e5fa27aa5f574e4d7d94e2c969979c66ed978d4ef9eb799b4",
    "vgg16": "ec5aad9340d467f6375f784336e3a083e4ee50abc53ecdc8209754d4841f78a4",
    "vit_base_patch16_224": "858fb793a1debb2e03254545e2a57f7533ea9a07a1d2445706afec27e3985033",
}
_VIT = "vit_base_patch16_224"
_ALL = (
    _library("resnet18", 11_689_512, 20, "f37072fd"),
    _library("resnet34", 21_797_672, 36, "b627a593", tuned=False),
    _library("resnet50", 25_557_032, 53, "0676ba61"),
    _library("resnet101", 44_549_160, 104, "63fe2227"),
    _library("resnet152", 60_192_808, 155, "394f9c45"),
    _library("wide_resnet50_2", 68_883_240, 53, "95faca4d"),
    _library("vgg11", 132_863_336, 0, "8a719046"),
    _library("vgg13", 133_047_848, 0, "19584684"),
    _library("vgg16", 138_357_544, 0, "397923af"),
    _library("vgg19", 143_667_240, 0, "dcbb9e9d"),
    _library("vgg16_bn", 138_365_992, 13, "6c64b313"),
    Design(
        "fixup_resnet50",
        fixup.fixup_resnet50,
        IMAGENET,
        25_504_026,
        0,
        tuned=_TUNED_FILE.format("fixup_resnet50"),
    ),
    Design("x_resnet50", fixup.x_resnet50, IMAGENET, 25_502_912, 0, tuned=_TUNED_FILE.format("xresnet50")),
    Design("x_vgg16", x_vgg16, IMAGENET, 138_344_128, 0, tuned=_TUNED_FILE.format("xvgg16")),
    Design(
        _VIT,
        _vit_base,
        CENTERED,
        86_567_656,
        0,
        "jx_vit_base_p16_224-80ecf9dd",
        _TUNED_FILE.format(_VIT),
        _SHA256[_VIT],
    ),
    Design(
        "bcos_resnet50",
        bcos.bcos_resnet50,
        UNCHANGED,
        25_538_880,
        53,
        "resnet_50-ead259efe4",
        _TUNED_FILE.format("bcos_resnet50"),
        binary=True,
    ),
    Design("bcos_resnet18", bcos.bcos_resnet18, UNCHANGED, 11_693_120, 20, binary=True),
    Design(
        "bagnet33",
        bagnet.bagnet33,
        IMAGENET,
        18_310_184,
        53,
        "bagnet32-2ddd53ed",
        _TUNED_FILE.format("bagnet33"),
    ),
    Design("bagnet17", bagnet.bagnet17, IMAGENET, 16_213_032, 53),
    Design("bagnet9", bagnet.bagnet9, IMAGENET, 15_688_744, 53),
)
DESIGNS: Mapping[str, Design] = MappingProxyType({design.name: design for design in _ALL})
