"""ResNet-50 as it was retrained for the published benchmark.

Hooker et al. 2019, "A Benchmark for Interpretability Methods in Deep Neural Networks", section 4 and the
released network: stride on the 3 x 3 convolution, no bias in convolutions.
"""

import math

from torch import nn

# Standard deviation of a standard normal that is cut off at two of them.
_CUT_DEVIATION = 0.87962566103423978
CLASSIFIER_DEVIATION = 0.01


def resnet50_published(n_classes: int) -> nn.Module:
    """ResNet-50 of torchvision with the published initial weights, drawn from torch's generator.

    Convolutions: normal, cut off at two deviations, variance ``1 / fan_in``. Scale of the last batch
    normalization of each block: 0, so that every block begins as its shortcut; of the others: 1.
    Classifier: normal with deviation 0.01, bias 0. One thing differs: the padding of strided max pooling is
    torchvision's, one pixel on each side.

    Args:
        n_classes: Number of classes ``K``.
    """
    # Imported here because torchvision takes seconds.
    import torchvision  # noqa: PLC0415

    module: nn.Module = torchvision.models.resnet50(
        weights=None, num_classes=n_classes, zero_init_residual=True
    )
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            _draw_convolution(layer)
        elif isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=CLASSIFIER_DEVIATION)
            nn.init.zeros_(layer.bias)
    return module


def _draw_convolution(layer: nn.Conv2d) -> None:
    fan_in = layer.weight[0].numel()
    deviation = math.sqrt(1 / fan_in) / _CUT_DEVIATION
    nn.init.trunc_normal_(layer.weight, std=deviation, a=-2 * deviation, b=2 * deviation)
