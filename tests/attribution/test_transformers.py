"""Attention rollout and Chefer's relevance, against recorded transformers and their own definitions."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from heatcheck.attribution.attention import rollout_step
from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.chefer import guarded, share_linear, share_product, share_sum
from heatcheck.attribution.registry import attribute
from heatcheck.attribution.transformers import add_identity, token_map
from heatcheck.models.small_networks import small_vit

load_catalog()
Golden = Callable[[str, str], dict[str, Any]]
METHODS = ("attention-rollout", "chefer-relevance")


def exact(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def seeded(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def token_values(maps: Tensor, patch: int) -> Tensor:
    return maps[:, 0, ::patch, ::patch].flatten(1)


@pytest.fixture
def recorded_vit(golden: Golden) -> nn.Module:
    model = VisionTransformer(
        img_size=8,
        patch_size=4,
        embed_dim=8,
        depth=3,
        num_heads=2,
        mlp_ratio=2,
        num_classes=3,
        norm_layer=partial(nn.LayerNorm, eps=1e-6),
    ).double()
    model.load_state_dict(
        {name: exact(each) for name, each in golden("idsds", "tiny_vit")["weights"].items()}
    )
    return cast(nn.Module, model.eval())


@pytest.fixture
def vit() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        return small_vit(5, size=12, patch=4, width=12, depth=3, heads=3).double().eval()


def test_the_recorded_transformer_is_ours(recorded_vit: nn.Module, golden: Golden) -> None:
    case = golden("idsds", "tiny_vit")
    logits = recorded_vit(exact(case["image"]))
    torch.testing.assert_close(logits[0], exact(case["expected"]["logits"]), atol=1e-6, rtol=0)


def test_recorded_rollout_of_a_transformer(recorded_vit: nn.Module, golden: Golden) -> None:
    case = golden("idsds", "tiny_vit")
    maps = attribute("attention-rollout", recorded_vit, exact(case["image"]), torch.tensor([0]))
    expected = exact(case["expected"]["rollout_start1"])
    torch.testing.assert_close(token_values(maps, 4)[0], expected, atol=1e-6, rtol=0)
    assert torch.equal(maps, token_map(token_values(maps, 4), (8, 8)))


def test_recorded_relevance_of_every_class(recorded_vit: nn.Module, golden: Golden) -> None:
    case = golden("idsds", "tiny_vit")
    images = exact(case["image"]).expand(3, -1, -1, -1)
    maps = attribute("chefer-relevance", recorded_vit, images, torch.arange(3))
    expected = exact([case["expected"]["chefer_start1"][str(target)] for target in range(3)])
    torch.testing.assert_close(token_values(maps, 4), expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("start", [0, 1])
def test_recorded_attention_rolls_out_as_recorded(start: int, golden: Golden) -> None:
    case = golden("idsds", "attention_rollout")
    product = torch.eye(5, dtype=torch.float64)
    for weights in exact(case["attention"])[start:]:
        product = rollout_step(weights[None])[0] @ product
    expected = exact(case["expected"][f"rollout_start{start}"])
    torch.testing.assert_close(product[0, 1:], expected, atol=1e-6, rtol=0)


def test_recorded_relevance_rolls_out_without_normalization(golden: Golden) -> None:
    case = golden("idsds", "attention_rollout")
    row = torch.eye(5, dtype=torch.float64)[:1]
    for relevance in reversed(exact(case["chefer_cams"])[1:]):
        row = row @ add_identity(relevance)
    torch.testing.assert_close(row[0, 1:], exact(case["expected_chefer_start1"]), atol=1e-6, rtol=0)


def test_rollout_needs_no_unfused_attention(vit: nn.Module) -> None:
    images, targets = seeded(1, 2, 3, 12, 12), torch.tensor([0, 1])
    fused = attribute("attention-rollout", vit, images, targets)
    for block in cast(Any, vit).blocks:
        block.attn.fused_attn = not block.attn.fused_attn
    torch.testing.assert_close(attribute("attention-rollout", vit, images, targets), fused)


def test_rollout_of_all_blocks_with_the_class_tokens_own_share_is_one(vit: nn.Module) -> None:
    images = seeded(2, 3, 3, 12, 12)
    maps = attribute("attention-rollout", vit, images, torch.zeros(3, dtype=torch.int64), start_layer=0)
    total = token_values(maps, 4).sum(dim=1)
    assert bool((total > 0).all())
    assert bool((total < 1).all())


def test_rollout_is_the_same_for_every_class_and_relevance_is_not(vit: nn.Module) -> None:
    images = seeded(3, 1, 3, 12, 12).expand(2, -1, -1, -1)
    first, second = attribute("attention-rollout", vit, images, torch.tensor([0, 4]))
    assert torch.equal(first, second)
    first, second = attribute("chefer-relevance", vit, images, torch.tensor([0, 4]))
    assert not torch.allclose(first, second, rtol=1e-2)


def test_relevance_is_never_negative(vit: nn.Module) -> None:
    maps = attribute("chefer-relevance", vit, seeded(4, 4, 3, 12, 12), torch.arange(4))
    assert float(maps.min()) >= 0


def test_single_precision_images_get_the_map_of_double_precision(vit: nn.Module) -> None:
    images, targets = seeded(5, 4, 3, 12, 12).float(), torch.arange(4)
    expected = attribute("chefer-relevance", vit, images.double(), targets)
    found = attribute("chefer-relevance", vit.float(), images, targets)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-8)
    fast = attribute("chefer-relevance", vit, images, targets, double=False)
    torch.testing.assert_close(fast, found, rtol=0.1, atol=1e-3 * float(found.max()))


@pytest.mark.parametrize("method", METHODS)
def test_blocks_that_are_left_out_do_not_count(method: str, vit: nn.Module) -> None:
    images, targets = seeded(6, 2, 3, 12, 12), torch.tensor([1, 2])
    maps = [attribute(method, vit, images, targets, start_layer=start) for start in range(3)]
    assert not torch.allclose(maps[0], maps[1])
    assert not torch.allclose(maps[1], maps[2])
    with pytest.raises(ValueError, match="start_layer is 3, but the model has the blocks 0 to 2"):
        attribute(method, vit, images, targets, start_layer=3)


@pytest.mark.parametrize("method", METHODS)
def test_images_need_not_be_square(method: str) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = VisionTransformer(
            img_size=(8, 12), patch_size=4, embed_dim=8, depth=2, num_heads=2, num_classes=3
        )
    maps = attribute(method, model, torch.rand(2, 3, 8, 12), torch.tensor([0, 2]))
    assert tuple(maps.shape) == (2, 1, 8, 12)
    assert torch.equal(maps, token_map(token_values(maps, 4), (8, 12)))


@pytest.mark.parametrize("method", METHODS)
def test_a_model_without_attention_is_refused(method: str, net: nn.Module) -> None:
    with pytest.raises(ValueError, match="SmallNet is no vision transformer"):
        attribute(method, net, torch.rand(1, 3, 12, 12), torch.tensor([0]))


@pytest.mark.parametrize(("method", "options"), [("attention-rollout", {}), ("chefer-relevance", {})])
@pytest.mark.parametrize("change", [{"qk_norm": True}, {"global_pool": "avg", "class_token": False}])
def test_another_kind_of_transformer_is_refused_instead_of_explained_wrongly(
    method: str, options: dict[str, Any], change: dict[str, Any]
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = VisionTransformer(
            img_size=8, patch_size=4, embed_dim=8, depth=2, num_heads=2, num_classes=3, **change
        )
    with pytest.raises(ValueError, match=r"not that of a plain vision transformer|no class token"):
        attribute(method, model, torch.rand(2, 3, 8, 8), torch.tensor([0, 2]), **options)


def test_relevance_needs_logits_that_come_from_the_class_token_alone(vit: nn.Module) -> None:
    class Warm(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = vit

        def forward(self, images: Tensor) -> Tensor:
            logits: Tensor = self.inner(images) * 2
            return logits

    images = seeded(7, 1, 3, 12, 12)
    assert bool(attribute("attention-rollout", Warm(), images, torch.tensor([0])).isfinite().all())
    with pytest.raises(ValueError, match="what the model does with the class token"):
        attribute("chefer-relevance", Warm(), images, torch.tensor([0]))


def test_tokens_that_tile_no_image_are_refused() -> None:
    with pytest.raises(ValueError, match="5 tokens are no grid of square patches over images of 8 x 8"):
        token_map(torch.rand(1, 5), (8, 8))


def test_a_quotient_by_zero_is_zero_and_by_almost_zero_is_guarded() -> None:
    sums = exact([0.0, 1e-9, -1e-9, 2.0, -4.0])
    found = guarded(torch.ones(5, dtype=torch.float64), sums)
    assert bool(found.isfinite().all())
    torch.testing.assert_close(found[[0, 3, 4]], exact([0.0, 0.5, -0.25]))


def test_a_linear_layer_hands_on_all_relevance() -> None:
    layer = nn.Linear(60, 4).double()
    inputs, relevance = seeded(8, 3, 60), seeded(9, 3, 4)
    found = share_linear(layer, inputs, relevance)
    torch.testing.assert_close(found.sum(dim=1), relevance.sum(dim=1), atol=1e-7, rtol=0)


def test_factors_share_all_relevance_half_and_half() -> None:
    left, right, relevance = seeded(10, 2, 3, 4), seeded(11, 2, 4, 5), seeded(12, 2, 3, 5)
    shares = share_product(left, right, relevance)
    for share in shares:
        torch.testing.assert_close(share.sum(dim=(1, 2)), relevance.sum(dim=(1, 2)) / 2, atol=1e-6, rtol=0)


def test_addends_share_all_relevance_and_none_gets_more_than_all() -> None:
    first, second = seeded(13, 4, 3, 2), seeded(14, 4, 3, 2)
    relevance = seeded(15, 4, 3, 2).abs()
    shares = [share.sum(dim=(1, 2)) for share in share_sum(first, second, relevance)]
    total = relevance.sum(dim=(1, 2))
    torch.testing.assert_close(shares[0] + shares[1], total, atol=1e-6, rtol=0)
    for share in shares:
        assert bool((share >= 0).all())
        assert bool((share <= total + 1e-9).all())
