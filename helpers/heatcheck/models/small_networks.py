"""Small residual, plain and transformer networks for images of 64 pixels, built alike but for one factor."""

from torch import Tensor, nn

from heatcheck.models.resnet8 import Block


class SmallResNet(nn.Module):
    """Stem and three stages of residual blocks with batch normalization: ResNet-8, -14 or -20.

    He et al. 2016, "Deep Residual Learning for Image Recognition", section 4.2.

    Args:
        n_classes: Number of classes ``K``.
        n_blocks: Blocks per stage; ``6 n_blocks + 2`` layers.
        width: Channels of the stem and the first stage; every further stage doubles them.
    """

    def __init__(self, n_classes: int, *, n_blocks: int = 1, width: int = 12) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, 2, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.stage1 = _stage(width, width, n_blocks, stride=1)
        self.stage2 = _stage(width, 2 * width, n_blocks, stride=2)
        self.stage3 = _stage(2 * width, 4 * width, n_blocks, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(4 * width, n_classes)

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of normalized images ``(N, 3, H, W)``."""
        x = self.relu(self.norm(self.conv(images)))
        x = self.stage3(self.stage2(self.stage1(x)))
        logits: Tensor = self.head(self.flatten(self.pool(x)))
        return logits


class SmallVGG(nn.Module):
    """Six 3 x 3 convolutions in three stages that each end in a max pool, then two dense layers.

    Simonyan & Zisserman 2015, "Very Deep Convolutional Networks for Large-Scale Image Recognition", with a
    first stride of 2 as in ``SmallResNet`` and without dropout.

    Args:
        n_classes: Number of classes ``K``.
        width: Channels of the first stage; every further stage doubles them.
        size: Side of the images in pixels, a multiple of 16.
        normalized: Batch normalization after every convolution, which then needs no bias.
        biased: Biases in every layer without normalization; with neither, the network is positively
            homogeneous.
    """

    def __init__(
        self,
        n_classes: int,
        *,
        width: int = 12,
        size: int = 64,
        normalized: bool = False,
        biased: bool = True,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = 3
        for place in range(3):
            for number in range(2):
                out, stride = width * 2**place, 1 if place or number else 2
                conv = nn.Conv2d(channels, out, 3, stride, padding=1, bias=biased and not normalized)
                nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
                layers += [conv, *([nn.BatchNorm2d(out)] if normalized else []), nn.ReLU()]
                channels = out
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        hidden = 2 * width
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(channels * (size // 16) ** 2, hidden, bias=biased),
            nn.ReLU(),
            nn.Linear(hidden, n_classes, bias=biased),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of normalized images ``(N, 3, size, size)``."""
        logits: Tensor = self.classifier(self.features(images))
        return logits


def small_vit(
    n_classes: int,
    *,
    size: int = 64,
    patch: int = 8,
    width: int = 48,
    depth: int = 4,
    heads: int = 4,
    mlp_ratio: float = 2.0,
) -> nn.Module:
    """Vision transformer of timm with a class token, learned positions and one linear head.

    Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", in the arrangement of ViT-B/16.

    Args:
        n_classes: Number of classes ``K``.
        size: Side of the images in pixels.
        patch: Side of a token in pixels; it should divide the cells of the deletion grid.
        width: Length of a token.
        depth: Number of blocks.
        heads: Attention heads per block.
        mlp_ratio: Hidden units of a block's perceptron per unit of ``width``.
    """
    # Imported here because timm takes seconds, and a run without this model does without it.
    from timm.models.vision_transformer import VisionTransformer  # noqa: PLC0415

    module: nn.Module = VisionTransformer(
        img_size=size,
        patch_size=patch,
        embed_dim=width,
        depth=depth,
        num_heads=heads,
        mlp_ratio=mlp_ratio,
        num_classes=n_classes,
    )
    return module


def _stage(channels_in: int, channels: int, n_blocks: int, *, stride: int) -> nn.Sequential:
    first = Block(channels_in, channels, stride)
    return nn.Sequential(first, *(Block(channels, channels, 1) for _ in range(n_blocks - 1)))
