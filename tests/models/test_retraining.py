"""Training that a seed decides: order, resuming, precision, and evaluation of all images."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from heatcheck.models.retrain_draws import batch_rows, derived_seed, generator_of
from heatcheck.models.retrain_recipes import Precision, RetrainRecipe
from heatcheck.models.retraining import continued, evaluate, make_optimizer, retrain

RECIPE = RetrainRecipe("own", "adamw", 0.02, 8, epochs=4, weight_decay=0.01, seed=5)
SGD = replace(RECIPE, optimizer="sgd-nesterov", learning_rate=0.1)


@dataclass(frozen=True)
class Held:
    """Images in memory, each batch with a little noise; asks for later steps may be forbidden."""

    images: Tensor
    targets: Tensor
    stop: int | None = None

    def __len__(self) -> int:
        return len(self.images)

    def training(self, steps: range, recipe: RetrainRecipe) -> Iterator[tuple[Tensor, Tensor]]:
        for step, rows in zip(steps, batch_rows(steps, len(self), recipe), strict=True):
            if step == self.stop:
                raise KeyboardInterrupt
            noise = torch.randn(self.images[rows].shape, generator=generator_of(recipe.seed, "noise", step))
            yield self.images[rows] + 0.01 * noise, self.targets[rows]


def build() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(16, 3),
    )


@pytest.fixture(scope="module")
def held() -> Held:
    generator = torch.Generator().manual_seed(0)
    targets = torch.arange(21) % 3
    images = torch.randn((21, 3, 4, 4), generator=generator)
    images[torch.arange(21), targets] += 2  # one channel tells the class
    return Held(images, targets)


def weights(module: nn.Module) -> Tensor:
    return torch.cat([value.flatten().double() for value in module.state_dict().values()])


def test_a_network_learns_what_can_be_learned(held: Held) -> None:
    recipe = replace(RECIPE, epochs=30)
    trained = retrain(build, held, recipe)
    assert not trained.module.training
    assert len(trained.history) == 27  # epochs of 3 batches of 8, of 21 images 30 times
    assert trained.history[-1]["loss"] < 0.5 * trained.history[0]["loss"]
    assert evaluate(trained.module, [(held.images, held.targets)]).accuracy > 0.9


@pytest.mark.parametrize("recipe", [RECIPE, SGD], ids=lambda recipe: recipe.optimizer)
def test_the_seed_alone_decides_the_weights(held: Held, recipe: RetrainRecipe) -> None:
    before = torch.default_generator.get_state()
    first = weights(retrain(build, held, recipe).module)
    torch.rand(1)  # another state of the caller's generator
    assert torch.equal(first, weights(retrain(build, held, recipe).module))
    assert not torch.equal(first, weights(retrain(build, held, replace(recipe, seed=6)).module))
    torch.default_generator.set_state(before)


def test_the_callers_generator_is_not_advanced(held: Held) -> None:
    before = torch.default_generator.get_state()
    retrain(build, held, RECIPE)
    assert torch.equal(before, torch.default_generator.get_state())


@pytest.mark.parametrize("recipe", [RECIPE, SGD], ids=lambda recipe: recipe.optimizer)
@pytest.mark.parametrize("stop", [0, 4, 9])
def test_a_stopped_run_goes_on_to_the_same_weights_bit_for_bit(
    held: Held, recipe: RetrainRecipe, stop: int, tmp_path: Path
) -> None:
    whole = retrain(build, held, recipe)
    path = tmp_path / "run" / "state.pt"
    with pytest.raises(KeyboardInterrupt):
        retrain(build, replace(held, stop=stop), recipe, checkpoint=path)
    resumed = retrain(build, held, recipe, checkpoint=path)
    assert torch.equal(weights(whole.module), weights(resumed.module))
    assert whole.history == resumed.history
    assert [file.name for file in path.parent.iterdir()] == ["state.pt"]


def test_a_finished_run_is_not_trained_again(held: Held, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    first = retrain(build, held, RECIPE, checkpoint=path)
    again = retrain(build, replace(held, stop=0), RECIPE, checkpoint=path)
    assert torch.equal(weights(first.module), weights(again.module))
    assert not again.module.training


def test_a_checkpoint_of_another_run_or_a_damaged_one_is_refused(held: Held, tmp_path: Path) -> None:
    path = tmp_path / "state.pt"
    retrain(build, held, RECIPE, checkpoint=path)
    with pytest.raises(ValueError, match="another recipe"):
        retrain(build, held, replace(RECIPE, seed=6), checkpoint=path)
    fewer = Held(held.images[:20], held.targets[:20])
    with pytest.raises(ValueError, match="number of images"):
        retrain(build, fewer, RECIPE, checkpoint=path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"damaged.*delete"):
        retrain(build, held, RECIPE, checkpoint=path)


def test_going_on_from_trained_weights_leaves_the_first_network_as_it_was(held: Held) -> None:
    explained = retrain(build, held, RECIPE).module.requires_grad_(False)
    before = weights(explained)
    tuned = retrain(continued(explained), held, replace(RECIPE, epochs=1)).module
    assert torch.equal(before, weights(explained))
    assert not any(weight.requires_grad for weight in explained.parameters())
    assert 0 < float((weights(tuned) - before).abs().max()) < 10
    untouched = retrain(continued(explained), held, replace(RECIPE, epochs=1, learning_rate=1e-12)).module
    torch.testing.assert_close(
        dict(untouched.named_parameters())["5.weight"], dict(explained.named_parameters())["5.weight"]
    )


def test_every_epoch_shows_each_image_once_in_an_order_of_its_own() -> None:
    rows = torch.cat(list(batch_rows(range(63), 21, RECIPE)))  # 63 batches of 8 are 24 epochs of 21
    epochs = rows.view(24, 21)
    assert all(sorted(epoch.tolist()) == list(range(21)) for epoch in epochs)
    assert len({tuple(epoch.tolist()) for epoch in epochs}) == 24
    assert {len(part) for part in batch_rows(range(63), 21, RECIPE)} == {8}


def test_the_batches_of_later_steps_do_not_depend_on_earlier_ones() -> None:
    whole = list(batch_rows(range(12), 21, RECIPE))
    assert all(
        torch.equal(*pair) for pair in zip(whole[5:], batch_rows(range(5, 12), 21, RECIPE), strict=True)
    )


def test_a_batch_may_hold_more_images_than_there_are() -> None:
    batches = list(batch_rows(range(3), 3, RECIPE))
    assert [len(rows) for rows in batches] == [8, 8, 8]
    assert set(Counter(torch.cat(batches).tolist()).values()) == {8}


def test_seeds_of_different_purposes_and_runs_differ() -> None:
    seeds = {derived_seed(seed, word, step) for seed in (0, 1, -1) for word in "ab" for step in range(50)}
    assert len(seeds) == 300
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_passes_of_a_step_add_up_to_the_gradient_of_the_whole_step(held: Held) -> None:
    def plain() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

    once = retrain(plain, held, SGD)
    thrice = retrain(plain, held, replace(SGD, images_per_pass=3))
    torch.testing.assert_close(weights(once.module), weights(thrice.module), rtol=0, atol=1e-6)
    assert once.history[-1]["loss"] == pytest.approx(thrice.history[-1]["loss"], rel=1e-5)


def test_the_first_step_of_sgd_is_the_gradient_of_the_smoothed_loss_and_the_decayed_weights(
    held: Held,
) -> None:
    recipe = replace(
        SGD, epochs=None, steps=1, weight_decay=0.5, label_smoothing=0.1, warmup_epochs=0.0, momentum=0.9
    )

    def plain() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

    module = retrain(plain, held, replace(recipe, learning_rate=1e-30)).module
    before = {name: weight.detach().clone() for name, weight in module.named_parameters()}
    images, targets = next(held.training(range(1), recipe))
    loss = F.cross_entropy(module(images), targets, label_smoothing=0.1)
    loss = loss + 0.5 * sum((weight**2).sum() / 2 for weight in module.parameters())
    loss.backward()  # type: ignore[no-untyped-call]
    after = dict(retrain(plain, held, recipe).module.named_parameters())
    for name, weight in module.named_parameters():
        # Nesterov's first step is 1 + momentum gradients long.
        expected = before[name] - 0.1 * 1.9 * weight.grad if weight.grad is not None else before[name]
        torch.testing.assert_close(after[name].detach(), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("recipe", [RECIPE, SGD], ids=lambda recipe: recipe.optimizer)
def test_normalization_layers_do_not_decay_and_the_classifiers_bias_does(recipe: RetrainRecipe) -> None:
    module = build()
    decayed, free = make_optimizer(module, recipe).param_groups
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.01, 0.0)
    names = {id(weight): name for name, weight in module.named_parameters()}
    assert {names[id(weight)] for weight in decayed["params"]} == {"0.weight", "5.weight", "5.bias"}
    assert {names[id(weight)] for weight in free["params"]} == {"1.weight", "1.bias"}


def test_half_precision_trains_weights_that_stay_float32(held: Held) -> None:
    trained = retrain(build, held, replace(RECIPE, precision="bfloat16"))
    assert all(weight.dtype == torch.float32 for weight in trained.module.parameters())
    full = retrain(build, held, RECIPE)
    assert trained.history[0]["loss"] == pytest.approx(full.history[0]["loss"], rel=0.02)
    assert trained.history[0]["loss"] != full.history[0]["loss"]


def test_a_loss_that_is_no_number_stops_the_run(held: Held) -> None:
    with pytest.raises(FloatingPointError, match="lower the learning rate"):
        retrain(build, held, RECIPE, loss=lambda logits, _: logits.mean() * torch.nan)


def test_training_without_images_is_refused(held: Held) -> None:
    with pytest.raises(ValueError, match="at least one"):
        retrain(build, Held(held.images[:0], held.targets[:0]), RECIPE)


@pytest.mark.parametrize("chunk", [1, 5, 8, 21])
def test_all_images_are_evaluated_whatever_the_batches(held: Held, chunk: int) -> None:
    module = build().train()
    module[0].eval()  # type: ignore[index]
    batches = zip(torch.split(held.images, chunk), torch.split(held.targets, chunk), strict=True)
    modes = [part.training for part in module.modules()]
    found = evaluate(module, batches)
    assert [part.training for part in module.modules()] == modes
    logits = module.eval()(held.images)
    torch.testing.assert_close(found.losses, F.cross_entropy(logits, held.targets, reduction="none"))
    assert torch.equal(found.predictions, logits.argmax(dim=1))
    assert torch.equal(found.correct, found.predictions == held.targets)
    assert found.accuracy == pytest.approx(int(found.correct.sum()) / 21)


def test_an_evaluation_without_images_is_refused() -> None:
    with pytest.raises(ValueError, match="no batch"):
        evaluate(build(), [])


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_training_on_cuda_begins_as_on_the_cpu(held: Held, precision: Precision) -> None:
    def plain() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(48, 3))

    recipe = replace(RECIPE, epochs=1)
    ours = retrain(plain, held, recipe).history[0]["loss"]
    there = retrain(plain, held, replace(recipe, precision=precision), device="cuda").history[0]["loss"]
    assert there == pytest.approx(ours, rel=1e-4 if precision == "float32" else 0.05)
