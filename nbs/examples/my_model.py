"""A model of one's own: the shipped network, averaged over an image and its mirror image."""

import dataclasses

from torch import Tensor, nn

from heatcheck.models.catalog import get_classifier
from heatcheck.models.registry import Classifier, register_model


class MirrorAverage(nn.Module):
    """Mean logits of an image and its mirror image."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, images: Tensor) -> Tensor:
        """Logits ``(N, K)`` of images ``(N, 3, H, W)``."""
        logits: Tensor = (self.module(images) + self.module(images.flip(-1))) / 2
        return logits


@register_model("resnet8-mirror")
def resnet8_mirror() -> Classifier:
    """The classifier: a module together with what its inputs must look like."""
    shipped = get_classifier("resnet8-metal-color")
    return dataclasses.replace(shipped, name="resnet8-mirror", module=MirrorAverage(shipped.module))
