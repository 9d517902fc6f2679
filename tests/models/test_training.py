import math

import pytest
import torch
from torch import Tensor, nn

from heatcheck.models.training import (
    Recipe,
    accuracy,
    classification_loss,
    flip_horizontally,
    rate_factor,
    train,
)


@pytest.fixture
def stripes() -> tuple[Tensor, Tensor]:
    """Images whose class is the direction of their stripes."""
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(40) % 2
    lines = torch.tensor([1.0, -1.0]).repeat(4)
    rows, columns = lines[:, None].expand(8, 8), lines[None, :].expand(8, 8)
    images = torch.stack([rows if target else columns for target in targets])[:, None]
    return images + 0.1 * torch.randn(images.shape, generator=generator), targets


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveMaxPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 2),
    )


def test_training_learns_and_ends_in_evaluation_mode(stripes: tuple[Tensor, Tensor]) -> None:
    model = train(network(), *stripes, Recipe(epochs=15, batch_size=8, learning_rate=0.02))
    assert not model.training
    assert accuracy(model, *stripes) == 1


def test_the_same_recipe_gives_the_same_weights(stripes: tuple[Tensor, Tensor]) -> None:
    recipe = Recipe(epochs=2, batch_size=16)
    one, other = (train(network(), *stripes, recipe, augment=flip_horizontally) for _ in range(2))
    another = train(network(), *stripes, Recipe(epochs=2, batch_size=16, seed=1), augment=flip_horizontally)
    for key, value in one.state_dict().items():
        torch.testing.assert_close(value, other.state_dict()[key], rtol=0, atol=0)
    assert not torch.equal(one.state_dict()["0.weight"], another.state_dict()["0.weight"])


def test_training_leaves_images_and_global_random_state_alone(stripes: tuple[Tensor, Tensor]) -> None:
    images, targets = stripes
    copy, model = images.clone(), network()
    state = torch.random.get_rng_state()
    train(model, images, targets, Recipe(epochs=1), augment=flip_horizontally)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(images, copy)


def test_the_rate_rises_linearly_and_falls_as_a_cosine() -> None:
    rates = [rate_factor(step, 100, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 11 for step in range(10)])
    assert rates[10] == 1
    assert rates[55] == pytest.approx((1 + math.cos(math.pi / 2)) / 2)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[-1] < 0.01


def test_half_of_the_images_are_mirrored_and_none_changed_otherwise() -> None:
    images = torch.arange(200 * 3 * 2 * 4, dtype=torch.float32).view(200, 3, 2, 4)
    flipped = flip_horizontally(images, torch.Generator().manual_seed(0))
    kept = (flipped == images).flatten(1).all(dim=1)
    mirrored = (flipped == images.flip(-1)).flatten(1).all(dim=1)
    assert (kept ^ mirrored).all()
    assert 70 < kept.sum() < 130


def test_accuracy_does_not_depend_on_the_chunk(stripes: tuple[Tensor, Tensor]) -> None:
    model = network().eval()
    assert len({accuracy(model, *stripes, chunk=chunk) for chunk in (1, 7, 40, 64)}) == 1


def test_images_without_targets_are_refused(stripes: tuple[Tensor, Tensor]) -> None:
    images, targets = stripes
    with pytest.raises(ValueError, match="40 and 39"):
        train(network(), images, targets[:-1], Recipe(epochs=1))
    with pytest.raises(ValueError, match="0 and 0"):
        train(network(), images[:0], targets[:0], Recipe(epochs=1))


def test_a_loss_that_explodes_is_reported(stripes: tuple[Tensor, Tensor]) -> None:
    images, targets = stripes
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        train(network(), images * torch.inf, targets, Recipe(epochs=1))


def test_biases_and_norms_are_not_decayed(stripes: tuple[Tensor, Tensor]) -> None:
    images, targets = stripes
    still = Recipe(epochs=1, learning_rate=0.1, weight_decay=1.0, batch_size=40, warmup=0.0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 2))
    nn.init.constant_(model[1].weight, 1.0)  # type: ignore[arg-type]
    nn.init.constant_(model[1].bias, 1.0)  # type: ignore[arg-type]
    train(model, torch.zeros_like(images), torch.zeros_like(targets) + torch.arange(40) % 2, still)
    # All gradients vanish: images are zero and both classes are equally frequent.
    assert model[1].weight.mean().item() == pytest.approx(0.9)  # type: ignore[operator]
    assert model[1].bias.mean().item() == pytest.approx(1.0)  # type: ignore[operator]


def test_the_binary_loss_is_the_mean_over_classes_of_one_against_the_rest() -> None:
    logits = torch.tensor([[0.3, -1.2, 2.0], [1.0, 0.0, -0.5]], dtype=torch.float64)
    targets = torch.tensor([2, 0])
    found = classification_loss(logits, targets, "binary")
    right = logits.sigmoid()
    own = torch.tensor([[0, 0, 1], [1, 0, 0]]).bool()
    expected = -torch.where(own, right, 1 - right).log().mean()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(
        classification_loss(logits, targets), -logits.log_softmax(1)[[0, 1], targets].mean()
    )
