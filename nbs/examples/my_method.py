"""A method of one's own: the gradient's size, weighted by how far a pixel is from the image's mean color."""

import torch
from torch import Tensor, nn

from heatcheck.attribution.registry import register


@register("contrast-gradient", family="own")
def contrast_gradient(
    model: nn.Module, images: Tensor, targets: Tensor, *, power: float = 1.0, **_: object
) -> Tensor:
    """Size of the gradient times the distance from the mean color."""
    inputs = images.clone().requires_grad_()  # (N, C, H, W)
    logits = model(inputs)  # (N, K)
    (gradient,) = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), inputs)
    distance = (images - images.mean((2, 3), keepdim=True)).abs() ** power
    return gradient.abs() * distance
