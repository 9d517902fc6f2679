"""Residual networks without normalization, with scalar biases and scales (Fixup) or with none (X).

Zhang, Dauphin, Ma 2019, "Fixup Initialization: Residual Learning Without Normalization", and Hesse,
Schaub-Meyer, Roth 2021, "Fast Axiomatic Attribution for Neural Networks": without any bias a ReLU network is
positively homogeneous, and input times gradient is the integrated gradient from zero.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class FixupBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, every step with a scalar bias of its own.

    Args:
        channels_in: Channels that come in.
        channels: Channels that go out.
        stride: Of the first convolution.
        biased: With scalar biases and the scale; without, nothing is added or scaled.
    """

    bias1a: nn.Parameter | None
    bias1b: nn.Parameter | None
    bias2a: nn.Parameter | None
    scale: nn.Parameter | None
    bias2b: nn.Parameter | None
    expansion = 1

    def __init__(self, channels_in: int, channels: int, stride: int, *, biased: bool) -> None:
        super().__init__()
        _add_scalars(self, ("bias1a", "bias1b", "bias2a", "scale", "bias2b"), biased=biased)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.downsample = _shortcut(channels_in, channels, stride)
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, H, W)`` to ``(N, channels, H / stride, W / stride)``."""
        shifted = _plus(x, self.bias1a)
        y = self.relu1(_plus(self.conv1(shifted), self.bias1b))
        y = self.conv2(_plus(y, self.bias2a))
        y = _plus(_times(y, self.scale), self.bias2b)
        result: Tensor = self.relu2(y + (x if self.downsample is None else self.downsample(shifted)))
        return result

    @torch.no_grad()
    def start(self, n_blocks: int) -> None:
        """Draw the initial weights for a network of ``n_blocks`` blocks (Zhang et al. 2019, section 3)."""
        _he(self.conv1, n_blocks**-0.5)
        self.conv2.weight.zero_()
        if self.downsample is not None:
            _he(self.downsample, 1.0)


class FixupBottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions and a shortcut; arguments as ``FixupBlock``."""

    bias1a: nn.Parameter | None
    bias1b: nn.Parameter | None
    bias2a: nn.Parameter | None
    bias2b: nn.Parameter | None
    bias3a: nn.Parameter | None
    scale: nn.Parameter | None
    bias3b: nn.Parameter | None
    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int, *, biased: bool) -> None:
        super().__init__()
        scalars = ("bias1a", "bias1b", "bias2a", "bias2b", "bias3a", "scale", "bias3b")
        _add_scalars(self, scalars, biased=biased)
        out = channels * self.expansion
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(channels, out, 1, bias=False)
        self.downsample = _shortcut(channels_in, out, stride)
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, H, W)`` to ``(N, 4 channels, H / stride, W / stride)``."""
        shifted = _plus(x, self.bias1a)
        y = self.relu1(_plus(self.conv1(shifted), self.bias1b))
        y = self.relu2(_plus(self.conv2(_plus(y, self.bias2a)), self.bias2b))
        y = self.conv3(_plus(y, self.bias3a))
        y = _plus(_times(y, self.scale), self.bias3b)
        result: Tensor = self.relu3(y + (x if self.downsample is None else self.downsample(shifted)))
        return result

    @torch.no_grad()
    def start(self, n_blocks: int) -> None:
        """Draw the initial weights for a network of ``n_blocks`` blocks (Zhang et al. 2019, section 3)."""
        _he(self.conv1, n_blocks**-0.25)
        _he(self.conv2, n_blocks**-0.25)
        self.conv3.weight.zero_()
        if self.downsample is not None:
            _he(self.downsample, 1.0)


class FixupResNet(nn.Module):
    """Residual network without normalization.

    Args:
        n_classes: Number of classes ``K``.
        biased: With Fixup's scalar biases and scales and the classifier's biases; without, the network is
            positively homogeneous: ``f(c x) = c f(x)`` for ``c > 0``.
        depths: Blocks per stage; each stage but the first halves the side and doubles the channels.
        width: Channels of the stem.
        bottleneck: Which kind of block.
        small: Stem of small images, 3 x 3 with stride 2; else 7 x 7 with stride 2 and a max pool.
    """

    bias1: nn.Parameter | None
    bias2: nn.Parameter | None

    def __init__(
        self,
        n_classes: int,
        *,
        biased: bool,
        depths: Sequence[int] = (3, 4, 6, 3),
        width: int = 64,
        bottleneck: bool = True,
        small: bool = False,
    ) -> None:
        super().__init__()
        _add_scalars(self, ("bias1", "bias2"), biased=biased)
        kernel, padding = (3, 1) if small else (7, 3)
        self.conv1 = nn.Conv2d(3, width, kernel, 2, padding, bias=False)
        self.relu = nn.ReLU()
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, padding=1)
        kind = FixupBottleneck if bottleneck else FixupBlock
        channels, blocks = width, list[FixupBlock | FixupBottleneck]()
        self.stages = [f"layer{number}" for number in range(1, len(depths) + 1)]
        for place, (name, depth) in enumerate(zip(self.stages, depths, strict=True)):
            stage = []
            for number in range(depth):
                stride = 2 if place and not number else 1
                stage.append(kind(channels, width * 2**place, stride, biased=biased))
                channels = width * 2**place * kind.expansion
            self.add_module(name, nn.Sequential(*stage))
            blocks += stage
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.fc = nn.Linear(channels, n_classes, bias=biased)
        for block in blocks:
            block.start(len(blocks))
        for weight in self.fc.parameters():
            nn.init.zeros_(weight)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of normalized images ``(N, 3, H, W)``."""
        x = self.maxpool(self.relu(_plus(self.conv1(images), self.bias1)))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        logits: Tensor = self.fc(_plus(self.flatten(self.avgpool(x)), self.bias2))
        return logits


def fixup_resnet50(n_classes: int = 1000) -> FixupResNet:
    """ResNet-50 without normalization, with Fixup's scalars."""
    return FixupResNet(n_classes, biased=True)


def x_resnet50(n_classes: int = 1000) -> FixupResNet:
    """ResNet-50 with neither normalization nor any bias or scale."""
    return FixupResNet(n_classes, biased=False)


def _add_scalars(module: nn.Module, names: Sequence[str], *, biased: bool) -> None:
    for name in names:
        start = torch.ones(1) if name == "scale" else torch.zeros(1)
        module.register_parameter(name, nn.Parameter(start) if biased else None)


def _shortcut(channels_in: int, channels: int, stride: int) -> nn.Conv2d | None:
    if stride == 1 and channels_in == channels:
        return None
    return nn.Conv2d(channels_in, channels, 1, stride, bias=False)


def _plus(x: Tensor, bias: Tensor | None) -> Tensor:
    return x if bias is None else x + bias


def _times(x: Tensor, scale: Tensor | None) -> Tensor:
    return x if scale is None else x * scale


def _he(conv: nn.Conv2d, factor: float) -> None:
    """He et al. 2015 with the number of outgoing connections, times ``factor``."""
    fan_out = conv.weight.shape[0] * math.prod(conv.weight.shape[2:])
    nn.init.normal_(conv.weight, std=factor * math.sqrt(2 / fan_out))
