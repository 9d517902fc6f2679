from typing import TYPE_CHECKING

import pytest
import torch
from torch import nn

from heatcheck.models.relation_network import RelationNetwork

if TYPE_CHECKING:
    from tests.recorded_network import GoldenNetwork

RULES = ("merged", "last-passed", "all-passed")


def small_batch(size: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(3, 3, size, size, generator=generator)
    tokens = torch.tensor([[5, 9, 2, 81], [7, 3, 0, 0], [1, 0, 0, 0]])
    return images, tokens, torch.tensor([4, 2, 1])


def make_network(size: int = 64, *, factored: bool = True) -> RelationNetwork:
    torch.manual_seed(0)
    network = RelationNetwork(size, factored=factored)
    with torch.no_grad():
        for norm in (module for module in network.modules() if isinstance(module, nn.BatchNorm2d)):
            norm.get_buffer("running_mean").uniform_(-0.5, 0.5)
            norm.get_buffer("running_var").uniform_(0.5, 1.5)
            norm.weight.uniform_(0.5, 1.5)
            norm.bias.uniform_(-0.5, 0.5)
    return network.eval()


def test_the_network_has_484548_trained_parameters() -> None:
    trained = sum(weight.numel() for weight in RelationNetwork().parameters())
    assert trained == 484_548


@pytest.mark.parametrize(("size", "side"), [(128, 7), (96, 5), (64, 3)])
def test_the_feature_map_has_the_specified_side(size: int, side: int) -> None:
    features = make_network(size).cnn(torch.zeros(1, 3, size, size))
    assert features.shape == (1, 24, side, side)


def test_logits_equal_the_recorded_ones(golden_network: "GoldenNetwork") -> None:
    network, images, tokens, lengths, record = golden_network
    assert images.sum(dim=(1, 2, 3)).tolist() == pytest.approx(record["image_checks"]["sum"], rel=1e-12)
    logits = network(images, tokens, lengths)
    torch.testing.assert_close(
        logits, torch.tensor(record["logits"], dtype=torch.float64), rtol=1e-8, atol=1e-10
    )
    assert logits.argmax(dim=1).tolist() == record["predicted_class"]


def test_the_encoder_equals_the_recorded_one(golden_network: "GoldenNetwork") -> None:
    features = golden_network.network.cnn(golden_network.images)
    assert list(features.shape) == golden_network.record["encoder_output_shape"]
    recorded = torch.tensor(golden_network.record["encoder_channel_means"], dtype=torch.float64)
    torch.testing.assert_close(features.mean(dim=(2, 3)), recorded, rtol=1e-8, atol=1e-10)


def test_the_gradient_equals_the_recorded_one(golden_network: "GoldenNetwork") -> None:
    network, images, tokens, lengths, record = golden_network
    inputs = images.clone().requires_grad_()
    logits = network(inputs, tokens, lengths)
    (gradient,) = torch.autograd.grad(logits.max(dim=1).values.sum(), inputs)
    for row, recorded in enumerate(record["attributions"]["gradient"]["per_image"]):
        seen = gradient[row, :, :127, :127].flatten()
        assert seen.sum().item() == pytest.approx(recorded["sum"], rel=1e-8)
        assert seen.abs().sum().item() == pytest.approx(recorded["abs_sum"], rel=1e-8)
        places = record["sampled_flat_positions"]
        assert seen[places].tolist() == pytest.approx(recorded["sampled_values"], rel=1e-8, abs=1e-12)
    assert not gradient[:, :, 127].any()
    assert not gradient[:, :, :, 127].any()


@pytest.mark.parametrize("size", [64, 96])
def test_the_factored_form_has_the_values_and_gradients_of_the_plain_form(size: int) -> None:
    images, tokens, lengths = small_batch(size)
    factored, plain = make_network(size).double(), make_network(size, factored=False).double()
    results = []
    for network in (factored, plain):
        inputs = images.double().requires_grad_()
        logits = network(inputs, tokens, lengths)
        (gradient,) = torch.autograd.grad(logits.square().sum(), inputs)
        results.append((logits, gradient))
    torch.testing.assert_close(results[0][0], results[1][0], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_the_canonical_form_gives_the_recorded_logits(golden_network: "GoldenNetwork", rule: str) -> None:
    network, images, tokens, lengths, record = golden_network
    canonical = network.canonical(rule)  # type: ignore[arg-type]
    assert not canonical.factored
    logits = canonical(images, tokens, lengths)
    torch.testing.assert_close(
        logits, torch.tensor(record["logits"], dtype=torch.float64), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize(("rule", "left"), list(zip(RULES, (0, 1, 4), strict=True)))
def test_the_canonical_form_keeps_the_normalizations_that_are_passed(rule: str, left: int) -> None:
    network = make_network()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    canonical = network.canonical(rule)  # type: ignore[arg-type]
    kept = [name for name, module in canonical.cnn.named_children() if isinstance(module, nn.BatchNorm2d)]
    assert kept == ["bn1", "bn2", "bn3", "bn4"][4 - left :]
    assert network.factored
    assert all(torch.equal(before[name], value) for name, value in network.state_dict().items())


def test_pairs_hold_the_first_object_the_second_and_the_question() -> None:
    network = make_network()
    objects = torch.arange(2 * 9 * 26.0).reshape(2, 9, 26)
    question = -torch.arange(2 * 128.0).reshape(2, 128)
    pairs = network.pairs(objects, question)
    assert pairs.shape == (2, 81, 180)
    torch.testing.assert_close(pairs[1, 9 * 4 + 7], torch.cat([objects[1, 4], objects[1, 7], question[1]]))


def test_coordinates_run_from_minus_to_plus_three_halves_at_128_pixels() -> None:
    objects = RelationNetwork().objects(torch.zeros(1, 24, 7, 7))
    assert objects[0, 0, 24:].tolist() == [-1.5, -1.5]
    assert objects[0, 6, 24:].tolist() == [1.5, -1.5]  # last column of the first row
    assert objects[0, 8, 24:].tolist() == [-1.0, -1.0]


def test_the_halves_of_the_first_layer_add_up_to_it() -> None:
    network = make_network()
    objects = torch.rand(2, 9, 26, generator=torch.Generator().manual_seed(1))
    question = torch.rand(2, 128, generator=torch.Generator().manual_seed(2))
    first, second = network.halves(objects, question)
    whole = network.g1(network.pairs(objects, question))
    torch.testing.assert_close(first[:, 4] + second[:, 7], whole[:, 9 * 4 + 7])


def test_what_follows_the_last_word_does_not_matter() -> None:
    network = make_network()
    images, tokens, lengths = small_batch()
    longer = torch.cat([tokens, torch.zeros(3, 5, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(network(images, tokens, lengths), network(images, longer, lengths))
    alone = network(images[1:2], tokens[1:2, :2], lengths[1:2])
    torch.testing.assert_close(network(images, tokens, lengths)[1:2], alone)


def test_the_order_of_the_words_matters() -> None:
    network = make_network()
    codes = network.encode_question(torch.tensor([[5, 9], [9, 5]]), torch.tensor([2, 2]))
    assert not torch.allclose(codes[0], codes[1])


def test_every_relu_is_a_module_of_its_own_used_once_and_not_in_place() -> None:
    network = make_network()
    calls: list[nn.Module] = []
    relus = [module for module in network.modules() if isinstance(module, nn.ReLU)]
    for relu in relus:
        assert not relu.inplace
        relu.register_forward_hook(lambda module, *_: calls.append(module))
    network(*small_batch())
    assert len(calls) == len(relus) == 10
    assert {id(call) for call in calls} == {id(relu) for relu in relus}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda i, t, n: (i[:, :, :60], t, n), r"images must be \(N, 3, 64, 64\)"),
        (lambda i, t, n: (i[:2], t, n), "one question per image"),
        (lambda i, t, n: (i, t[0], n), "one question per image"),
        (lambda i, t, n: (i, t, n[:1]), "one question per image"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(change, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        make_network()(*change(*small_batch()))


def test_other_sizes_rules_and_modes_are_refused() -> None:
    with pytest.raises(ValueError, match="64, 96, 128"):
        RelationNetwork(112)
    with pytest.raises(ValueError, match="merged, last-passed, all-passed"):
        make_network().canonical("none")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="evaluation mode"):
        make_network().train().canonical()
