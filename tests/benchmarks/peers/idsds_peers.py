"""Single deletion as a plain loop in the shape of the published protocol, with captum's attributions.

Every method asks the model again for every patch, with a graph, and SciPy ranks image by image.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from captum.attr import InputXGradient, IntegratedGradients, LayerGradCam, NoiseTunnel
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional as F

Attribution = Callable[[Tensor, Tensor], Tensor]


def loop_scores(
    model: nn.Module, images: Tensor, targets: Tensor, explain: Attribution, *, absolute: bool, grid: int = 4
) -> Tensor:
    """Scores ``(N,)`` float64 of one method, everything of it computed anew."""
    maps = explain(images, targets).sum(1)
    maps = maps.abs() if absolute else maps
    return loop_correlations(loop_sums(maps, grid), loop_drops(model, images, targets, grid))


def loop_sums(maps: Tensor, grid: int) -> Tensor:
    """Sums ``(N, P * P)`` of maps ``(N, H, W)``, patch by patch."""
    side = maps.shape[1] // grid
    columns = [
        maps[:, row * side : (row + 1) * side, column * side : (column + 1) * side].sum((1, 2)).detach()
        for row in range(grid)
        for column in range(grid)
    ]
    return torch.stack(columns, 1)


def loop_drops(model: nn.Module, images: Tensor, targets: Tensor, grid: int) -> Tensor:
    """Drops ``(N, P * P)`` of the target's logit, one batch of copies per patch."""
    rows = torch.arange(len(images))
    intact = model(images)[rows, targets]
    side = images.shape[2] // grid
    drops = []
    for row in range(grid):
        for column in range(grid):
            copies = images.clone()
            copies[:, :, row * side : (row + 1) * side, column * side : (column + 1) * side] = 0
            drops.append((intact - model(copies)[rows, targets]).detach().cpu())
    return torch.stack(drops, 1)


def loop_correlations(sums: Tensor, drops: Tensor) -> Tensor:
    """Rank correlations ``(N,)`` float64, image by image; NaN where undefined."""
    pairs = zip(sums.numpy(), drops.numpy(), strict=True)
    return torch.tensor([float(stats.spearmanr(*pair).statistic) for pair in pairs], dtype=torch.float64)


def captum_product(model: nn.Module) -> Attribution:
    """Input x gradient."""
    method = InputXGradient(model)
    return lambda images, targets: method.attribute(images, target=targets)


def captum_smooth_product(model: nn.Module) -> Attribution:
    """Its mean over 4 copies with noise of deviation 1."""
    tunnel = NoiseTunnel(InputXGradient(model))
    options: dict[str, Any] = {"nt_type": "smoothgrad", "nt_samples": 4, "stdevs": 1.0}
    return lambda images, targets: tunnel.attribute(images, target=targets, **options)


def captum_path(model: nn.Module, baseline: Tensor | None = None) -> Attribution:
    """Integrated gradients with 50 Gauss-Legendre nodes, all at once as captum does by itself."""
    method = IntegratedGradients(model)

    def explain(images: Tensor, targets: Tensor) -> Tensor:
        start = None if baseline is None else baseline.expand_as(images)
        maps: Tensor = method.attribute(images, start, target=targets, n_steps=50)
        return maps

    return explain


def captum_grad_cam(model: nn.Module, layer: nn.Module) -> Attribution:
    """Grad-CAM at ``layer``, rectified, then enlarged."""
    method = LayerGradCam(model, layer)

    def explain(images: Tensor, targets: Tensor) -> Tensor:
        coarse = method.attribute(images, target=targets, relu_attributions=True)
        size = (images.shape[2], images.shape[3])
        return F.interpolate(coarse, size=size, mode="bilinear", align_corners=False)

    return explain


def random_tables(n: int, n_patches: int) -> tuple[Tensor, Tensor]:
    """Two tables ``(n, n_patches)`` float64 of normal numbers, some of them tied."""
    generator = np.random.default_rng(5)
    first, second = generator.normal(size=(2, n, n_patches)).round(2)
    return torch.from_numpy(first), torch.from_numpy(second)
