import pytest
import torch
from torch import Tensor


@pytest.fixture
def images() -> Tensor:
    return torch.randn(5, 3, 9, 11, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def keep() -> Tensor:
    mask = torch.rand(5, 1, 9, 11, generator=torch.Generator().manual_seed(1)) < 0.6
    mask[3], mask[4] = True, False
    return mask
