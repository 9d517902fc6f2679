"""ResNet-8, the small classifier of rendered scenes.

He et al. 2016, "Deep Residual Learning for Image Recognition", section 4.2, with one block per stage.
"""

from torch import Tensor, nn

from heatcheck.models.registry import Classifier, register_model
from heatcheck.models.shipped import shipped_classifier

METAL_COLOR = "resnet8_metal_color"


class Block(nn.Module):
    """Two convolutions and a shortcut.

    Every ReLU is a module of its own and not in place, so that attribution methods can hook each.

    Args:
        channels_in: Channels that come in.
        channels: Channels that go out.
        stride: Stride of the first convolution.
    """

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )
        self.relu2 = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """``(N, C, H, W)`` to ``(N, channels, H / stride, W / stride)``."""
        y = self.norm2(self.conv2(self.relu1(self.norm1(self.conv1(x)))))
        result: Tensor = self.relu2(y + self.shortcut(x))
        return result


class ResNet8(nn.Module):
    """Stem and three residual blocks of 16, 32 and 64 channels; about 78,000 parameters.

    Args:
        n_classes: Number of classes ``K``.
        stem_stride: Stride of the first convolution; 2 quarters the cost.
    """

    def __init__(self, n_classes: int, stem_stride: int = 2) -> None:
        super().__init__()
        self.n_classes = n_classes
        self.conv = nn.Conv2d(3, 16, 3, stem_stride, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.block1 = Block(16, 16, 1)
        self.block2 = Block(16, 32, 2)
        self.block3 = Block(32, 64, 2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(64, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of normalized images ``(N, 3, H, W)``."""
        x = self.relu(self.norm(self.conv(images)))  # (N, 16, H / stem, W / stem)
        x = self.block3(self.block2(self.block1(x)))  # (N, 64, H / 4 stem, W / 4 stem)
        logits: Tensor = self.head(self.flatten(self.pool(x)))
        return logits


@register_model("resnet8-metal-color")
def resnet8_metal_color() -> Classifier:
    """ResNet-8 that names the color of the only metal object in a rendered scene.

    Raises:
        ValueError: The shipped weights are missing, changed or of another architecture.
    """
    return shipped_classifier("resnet8-metal-color", ResNet8(8), METAL_COLOR)
