"""BagNets: the logits are the mean of those of small windows, each judged by itself.

Brendel & Bethge 2019, "Approximating CNNs with Bag-of-local-Features models works surprisingly well on
ImageNet": a ResNet without padding in which most 3 x 3 convolutions are 1 x 1.
"""

from collections.abc import Sequence

from torch import Tensor, nn


class BagBottleneck(nn.Module):
    """1 x 1, k x k and 1 x 1 convolutions without padding, and a shortcut cropped to their size.

    Args:
        channels_in: Channels that come in.
        channels: Inner channels.
        channels_out: Channels that go out.
        stride: Of the middle convolution.
        kernel_size: ``k``, 1 or 3.
    """

    def __init__(
        self, channels_in: int, channels: int, channels_out: int, *, stride: int, kernel_size: int
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, kernel_size, stride, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU()
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )
        self.relu3 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, H, W)`` to ``(N, channels_out, h, w)``."""
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.relu2(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        height, width = y.shape[-2:]
        result: Tensor = self.relu3(y + self.downsample(x)[..., :height, :width])
        return result


class BagNet(nn.Module):
    """Bag of local features: a classifier of windows whose logits are averaged.

    Window ``(r, c)`` covers pixels ``[r stride, r stride + receptive_field)`` of the rows and likewise of the
    columns; what no window covers at the lower and right border is not seen.

    Attributes:
        receptive_field: Side of a window in pixels.
        stride: Step between windows in pixels.

    Args:
        n_classes: Number of classes ``K``.
        n_wide: Stages, from the first, whose first block has a 3 x 3 convolution; it sets the window.
        depths: Blocks per stage; each stage doubles the channels.
        strides: Of the first block of each stage.
        width: Channels of the stem.
        expansion: Channels out of a block per inner channel.
        momentum: Of the stem's batch normalization.
    """

    def __init__(
        self,
        n_classes: int,
        *,
        n_wide: int,
        depths: Sequence[int] = (3, 4, 6, 3),
        strides: Sequence[int] = (2, 2, 2, 1),
        width: int = 64,
        expansion: int = 4,
        momentum: float = 0.001,
    ) -> None:
        super().__init__()
        self.receptive_field, self.stride = _window(n_wide, strides)
        self.conv1 = nn.Conv2d(3, width, 1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width, momentum=momentum)
        self.relu = nn.ReLU()
        channels = width
        self.stages = [f"layer{number}" for number in range(1, len(depths) + 1)]
        for place, (name, depth) in enumerate(zip(self.stages, depths, strict=True)):
            inner = width * 2**place
            blocks = []
            for number in range(depth):
                stride, kernel_size = (strides[place], 3 if place < n_wide else 1) if not number else (1, 1)
                block = BagBottleneck(
                    channels, inner, inner * expansion, stride=stride, kernel_size=kernel_size
                )
                blocks.append(block)
                channels = inner * expansion
            self.add_module(name, nn.Sequential(*blocks))
        self.fc = nn.Linear(channels, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of normalized images ``(N, 3, H, W)``, the mean over windows."""
        logits: Tensor = self.fc(self.features(images).mean(dim=(2, 3)))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """Features of every window, ``(N, C, h, w)``.

        Raises:
            ValueError: The images are smaller than a window.
        """
        if min(images.shape[-2:]) < self.receptive_field:
            raise ValueError(
                f"images of {tuple(images.shape[-2:])} pixels are smaller than a window of "
                f"{self.receptive_field}; give larger images"
            )
        x: Tensor = self.relu(self.bn1(self.conv2(self.conv1(images))))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return x

    def window_logits(self, images: Tensor) -> Tensor:
        """Logits of every window, ``(N, K, h, w)``; their mean over positions is the network's output."""
        logits: Tensor = self.fc(self.features(images).movedim(1, -1))
        return logits.movedim(-1, 1)


def bagnet33(n_classes: int = 1000) -> BagNet:
    """BagNet of windows of 33 pixels."""
    return BagNet(n_classes, n_wide=4)


def bagnet17(n_classes: int = 1000) -> BagNet:
    """BagNet of windows of 17 pixels."""
    return BagNet(n_classes, n_wide=3)


def bagnet9(n_classes: int = 1000) -> BagNet:
    """BagNet of windows of 9 pixels."""
    return BagNet(n_classes, n_wide=2)


def _window(n_wide: int, strides: Sequence[int]) -> tuple[int, int]:
    """Side of and step between windows, in pixels."""
    side, step = 3, 1  # of the stem
    for place, stride in enumerate(strides):
        side += 2 * step if place < n_wide else 0
        step *= stride
    return side, step
