"""B-cos networks: what they compute is exactly a linear map of the input that the input itself chose.

Boehle, Singh, Fritz, Schiele 2024, "B-cos Alignment for Inherently Interpretable CNNs and Vision
Transformers": layers without biases or activations that scale a linear response by its cosine.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_NORM_EPSILON = 1e-6
_COSINE_EPSILON = 1e-6


class Encode(nn.Module):
    """``(N, 3, H, W)`` images in [0, 1] to ``(N, 6, H, W)``: the colors and one minus the colors.

    So every pixel has the same sum over channels, and a dark pixel can be evidence as well as a bright one.
    """

    def forward(self, images: Tensor) -> Tensor:
        """The six channels of ``images``."""
        return torch.cat([images, 1 - images], dim=1)


class UnitConv2d(nn.Conv2d):
    """Convolution with filters of norm one and without bias; the stored length of a filter has no effect."""

    def forward(self, x: Tensor) -> Tensor:
        """Linear responses of ``x``."""
        lengths = torch.linalg.vector_norm(self.weight, dim=(1, 2, 3), keepdim=True)
        responses: Tensor = self._conv_forward(x, self.weight / lengths, None)
        return responses


class BcosConv2d(nn.Module):
    """B-cos convolution: a linear response of unit filters times its cosine to the patch, to the power B - 1.

    ``|s / n| * s`` for B = 2 and ``(|s / n| + 1e-6)**(B - 1) * s`` otherwise, ``s`` the linear response and
    ``n = sqrt(sum of squares in the window + 1e-6)`` (Boehle et al. 2024, eq. 3).

    Attributes:
        explaining: Gradients treat the cosine as a constant; see ``explanation_mode``.

    Args:
        channels_in: Channels that come in.
        channels: Channels that go out.
        kernel_size: Side of the window.
        stride: Step between windows.
        padding: Zeros added at each border.
        b: The exponent B, at least 1.
    """

    def __init__(
        self,
        channels_in: int,
        channels: int,
        kernel_size: int = 1,
        stride: int = 1,
        padding: int = 0,
        *,
        b: float = 2.0,
    ) -> None:
        super().__init__()
        self.linear = UnitConv2d(channels_in, channels, kernel_size, stride, padding, bias=False)
        self.window = (kernel_size, stride, padding)
        self.b = b
        self.explaining = False

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, H, W)`` to ``(N, channels, h, w)``."""
        response: Tensor = self.linear(x)
        cosine = response.abs() / self.patch_norms(x)
        scale = cosine if self.b == 2 else (cosine + _COSINE_EPSILON).pow(self.b - 1)
        return (scale.detach() if self.explaining else scale) * response

    def patch_norms(self, x: Tensor) -> Tensor:
        """Norm of what each window of ``x`` sees, ``(N, 1, h, w)``."""
        size, stride, padding = self.window
        squares = x.square().sum(dim=1, keepdim=True)
        means = F.avg_pool2d(
            squares, size, stride, padding
        )  # padding counts, so this is the sum over size**2
        return (means * size**2 + _NORM_EPSILON).sqrt()


class UncenteredNorm(nn.Module):
    """Batch normalization that neither subtracts the mean nor adds a bias: ``x weight / sqrt(var + eps)``.

    In training ``var`` is the centered, biased variance of the batch.

    Attributes:
        explaining: In training mode, gradients treat the batch's variance as a constant.

    Args:
        channels: Channels of the input.
        momentum: Share of a batch in the running variance.
        eps: Added to the variance.
    """

    def __init__(self, channels: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(channels))
        self.running_var: Tensor
        self.register_buffer("running_var", torch.ones(channels))
        self.momentum, self.eps = momentum, eps
        self.explaining = False

    def forward(self, x: Tensor) -> Tensor:
        """``x`` ``(N, C, H, W)``, rescaled."""
        variance = self.running_var
        if self.training:
            variance = x.var(dim=(0, 2, 3), correction=0)
            self.running_var.lerp_(variance.detach().to(self.running_var.dtype), self.momentum)
            variance = variance.detach() if self.explaining else variance
        scale = self.weight / (variance + self.eps).sqrt()
        return x * scale[:, None, None]


class BcosBlock(nn.Module):
    """Residual block of B-cos convolutions and uncentered norms, without activation.

    Args:
        channels_in: Channels that come in.
        channels: Inner channels; a bottleneck puts out four times as many.
        stride: Of the first 3 x 3 convolution.
        bottleneck: 1 x 1, 3 x 3 and 1 x 1 convolutions instead of two of 3 x 3.
    """

    def __init__(self, channels_in: int, channels: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        out = channels * (4 if bottleneck else 1)
        self.bottleneck = bottleneck
        if bottleneck:
            self.conv1 = BcosConv2d(channels_in, channels)
            self.bn1 = UncenteredNorm(channels)
            self.conv2 = BcosConv2d(channels, channels, 3, stride, padding=1)
            self.bn2 = UncenteredNorm(channels)
            self.conv3 = BcosConv2d(channels, out)
            self.bn3 = UncenteredNorm(out)
        else:
            self.conv1 = BcosConv2d(channels_in, channels, 3, stride, padding=1)
            self.bn1 = UncenteredNorm(channels)
            self.conv2 = BcosConv2d(channels, channels, 3, padding=1)
            self.bn2 = UncenteredNorm(channels)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != out:
            self.downsample = nn.Sequential(BcosConv2d(channels_in, out, stride=stride), UncenteredNorm(out))

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, H, W)`` to ``(N, out, H / stride, W / stride)``."""
        y = self.bn2(self.conv2(self.bn1(self.conv1(x))))
        if self.bottleneck:
            y = self.bn3(self.conv3(y))
        result: Tensor = y + self.downsample(x)
        return result


class BcosResNet(nn.Module):
    """Residual B-cos network of images in [0, 1]; the six-channel encoding is its first step.

    Args:
        n_classes: Number of classes ``K``.
        depths: Blocks per stage; each stage but the first halves the side and doubles the channels.
        width: Channels of the stem.
        bottleneck: Which kind of block.
        small: Stem of small images, 3 x 3 with stride 2; else 7 x 7 with stride 2 and an average pool.
    """

    def __init__(
        self,
        n_classes: int,
        *,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        bottleneck: bool = True,
        small: bool = False,
    ) -> None:
        super().__init__()
        self.encode = Encode()
        self.conv1 = BcosConv2d(6, width, 3, 2, padding=1) if small else BcosConv2d(6, width, 7, 2, padding=3)
        self.bn1 = UncenteredNorm(width)
        self.pool = nn.Identity() if small else nn.AvgPool2d(3, 2, padding=1)
        channels = width
        self.stages = [f"layer{number}" for number in range(1, len(depths) + 1)]
        for place, (name, depth) in enumerate(zip(self.stages, depths, strict=True)):
            inner = width * 2**place
            blocks = []
            for number in range(depth):
                stride = 2 if place and not number else 1
                blocks.append(BcosBlock(channels, inner, stride, bottleneck=bottleneck))
                channels = inner * (4 if bottleneck else 1)
            self.add_module(name, nn.Sequential(*blocks))
        self.fc = BcosConv2d(channels, n_classes)
        # Sigmoids of logits near this bias are 1 / K, where training with binary cross-entropy starts best.
        self.logit_bias = -math.log(n_classes - 1)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of ``images`` ``(N, 3, H, W)`` in [0, 1]."""
        return self.score(self.encode(images))

    def score(self, encoded: Tensor) -> Tensor:
        """Logits ``(N, K)`` of ``encoded`` images ``(N, 6, H, W)``."""
        x = self.pool(self.bn1(self.conv1(encoded)))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        # Classes are scored at every position before the mean, so that the whole network stays B-cos.
        maps: Tensor = self.fc(x)
        return maps.mean(dim=(2, 3)) + self.logit_bias

    @contextmanager
    def explanation_mode(self) -> Iterator[None]:
        """Within the block gradients treat all scaling factors as constants.

        Then gradient times encoded input, summed, is the logit without ``logit_bias`` (Boehle et al. 2024,
        eq. 9), up to the stabilizers.
        """
        layers = [layer for layer in self.modules() if isinstance(layer, BcosConv2d | UncenteredNorm)]
        before = [layer.explaining for layer in layers]
        try:
            for layer in layers:
                layer.explaining = True
            yield
        finally:
            for layer, state in zip(layers, before, strict=True):
                layer.explaining = state


def bcos_resnet18(n_classes: int = 1000) -> BcosResNet:
    """B-cos ResNet-18."""
    return BcosResNet(n_classes, depths=(2, 2, 2, 2), bottleneck=False)


def bcos_resnet50(n_classes: int = 1000) -> BcosResNet:
    """B-cos ResNet-50."""
    return BcosResNet(n_classes)
