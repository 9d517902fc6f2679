"""All methods on the recorded full-size Relation Network, and what holds for any such network."""

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tests.recorded_network import recorded_network
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from heatcheck.attribution.catalog import load_catalog
from heatcheck.attribution.gradient import completeness_gap
from heatcheck.attribution.lrp_report import RelevanceReport, relevance_report
from heatcheck.attribution.registry import attribute
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.runtime.memory import memory_budget

load_catalog()
CHANNELS = (0.463, 0.460, 0.453)
SEEN = (slice(None), slice(127), slice(127))  # the network does not read the last row and column


class Recorded(NamedTuple):
    """The recorded network with its images and questions, float64."""

    network: RelationNetwork
    images: Tensor
    question: tuple[Tensor, Tensor]
    targets: Tensor
    record: dict[str, Any]


@pytest.fixture(scope="module")
def recorded() -> Recorded:
    network, images, tokens, lengths, record = recorded_network()
    return Recorded(network, images, (tokens, lengths), torch.tensor(record["predicted_class"]), record)


class RecordedNoise:
    """Stands for the generator of random numbers: the noise of the recorded smoothing cases."""

    def __init__(self, draws: np.ndarray) -> None:
        self.draws = draws

    def take(self, rows: Any) -> "RecordedNoise":
        """Noise of the images at ``rows``."""
        return RecordedNoise(self.draws[:, rows])

    def normal(self, sample: int, like: Tensor) -> Tensor:
        """Noise of one copy; the last row and column get none."""
        noise = torch.zeros_like(like)
        noise[:, *SEEN] = torch.from_numpy(self.draws[sample])
        return noise


IG = {"n_steps": 20, "baseline": "constant", "value": CHANNELS}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "gradient": ("gradient", {}),
    "gradient_squared": ("gradient-squared", {}),
    "gradient_x_input": ("input-x-gradient", {}),
    "integrated_gradients_mean_channel_right20": ("integrated-gradients", {**IG, "quadrature": "right"}),
    "integrated_gradients_mean_channel_mid20": ("integrated-gradients", IG),
    "integrated_gradients_zero_mid20": ("integrated-gradients", {"n_steps": 20}),
    "guided_backprop_all_relus": ("guided-backprop", {}),
    "guided_backprop_cnn_relus_only": ("guided-backprop", {"within": "cnn"}),
    "deconvnet_all_relus": ("deconvnet", {}),
    "smoothgrad_4": ("smoothgrad", {"n_samples": 4, "noise_scale": 0.05}),
    "smoothgrad_squared_4": ("smoothgrad-squared", {"n_samples": 4, "noise_scale": 0.05}),
    "vargrad_4": ("vargrad", {"n_samples": 4, "noise_scale": 0.05}),
    "lrp_alpha1beta0_box_bn_merged_forward": ("lrp", {}),
    "lrp_alpha1beta0_box_bn4_pass": ("lrp", {"batch_norm": "last-passed"}),
    "lrp_alpha1beta0_box_bn_pass": ("lrp", {"batch_norm": "all-passed"}),
}


def test_every_recorded_attribution_is_tested(recorded: Recorded) -> None:
    assert set(CASES) == set(recorded.record["attributions"])
    assert len(CASES) == 15


@pytest.mark.parametrize("case", CASES)
def test_the_map_is_the_recorded_one(case: str, recorded: Recorded) -> None:
    method, options = CASES[case]
    network, images, question, targets, record = recorded
    if method == "integrated-gradients":
        # Twenty gradients each: one of the two images is enough.
        images, targets, question = images[:1], targets[:1], (question[0][:1], question[1][:1])
    if "n_samples" in options:
        # The noise is relative to the range of what the network reads.
        images = images.clone()
        images[:, :, 127], images[:, :, :, 127] = 0.5, 0.5
        draws = np.random.RandomState(33).standard_normal((4, 2, 3, 127, 127))
        options = {**options, "generator": RecordedNoise(draws)}
    maps = attribute(method, network, images, targets, forward_args=question, **options)
    # The recorded relevances come from a program that leaves a stabilizer in the merged normalizations.
    tolerance = 1e-4 if case.startswith("lrp") else 1e-8
    places = record["sampled_flat_positions"]
    for found, expected in zip(maps, record["attributions"][case]["per_image"], strict=False):
        seen = found[SEEN]
        assert float(found.abs().sum()) == pytest.approx(float(seen.abs().sum()), abs=1e-12)
        sums = {"sum": seen.sum(), "abs_sum": seen.abs().sum(), "l2": seen.norm(), "max": seen.max()}
        for name, value in sums.items():
            assert float(value) == pytest.approx(expected[name], rel=tolerance), name
        sampled = torch.tensor(expected["sampled_values"], dtype=torch.float64)
        largest = max(abs(expected["max"]), abs(expected["min"]))
        assert float((seen.flatten()[places] - sampled).abs().max()) <= tolerance * largest
        blocks = found.abs().amax(dim=0).view(16, 8, 16, 8).sum(dim=(1, 3))
        table = torch.tensor(expected["maxnorm_block_sums_16x16"], dtype=torch.float64)
        assert float((blocks - table).abs().max()) <= max(tolerance, 1e-6) * float(table.max())


@pytest.mark.parametrize("layer", ["conv4", "relu4", "bn4"])
def test_grad_cam_at_each_layer_is_the_recorded_one(layer: str, recorded: Recorded) -> None:
    maps = attribute(
        "grad-cam",
        recorded.network,
        recorded.images,
        recorded.targets,
        forward_args=recorded.question,
        layer=f"cnn.{layer}",
    )
    expected = recorded.record["grad_cam"][layer]
    assert maps.sum(dim=(1, 2, 3)).tolist() == pytest.approx(expected["upsampled_128_sum"], rel=1e-8)
    blocks = maps.view(2, 16, 8, 16, 8).sum(dim=(2, 4))
    table = torch.tensor(expected["upsampled_128_block_sums_16x16"], dtype=torch.float64)
    torch.testing.assert_close(blocks, table, rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def budget(recorded: Recorded) -> RelevanceReport:
    network, images, question, targets, _ = recorded
    return relevance_report(network, images, targets, forward_args=question)


def test_every_layer_holds_the_recorded_relevance(recorded: Recorded, budget: RelevanceReport) -> None:
    totals = recorded.record["lrp_relevance_budget"]["layer_totals"]
    found = [budget.start, *(layer.incoming for layer in budget.layers)]
    assert len(found) == len(totals) == 13
    for values, expected in zip(found, totals, strict=True):
        assert values.tolist() == pytest.approx(expected, rel=1e-9)
    names = [layer.name for layer in budget.layers]
    convolutions = [f"cnn.conv{n}" for n in (4, 3, 2, 1)]
    assert names == ["f3", "f2", "f1", "sum", "g4", "g3", "g2", "g1", *convolutions]


def test_question_coordinates_and_features_share_the_recorded_parts(
    recorded: Recorded, budget: RelevanceReport
) -> None:
    parts = recorded.record["lrp_relevance_budget"]["parts"]
    assert budget.further_inputs.tolist() == pytest.approx(parts["question"], rel=1e-9)
    assert budget.constants.tolist() == pytest.approx(parts["coordinates"], rel=1e-9)
    features = {layer.name: layer.outgoing for layer in budget.layers}["cnn.conv4"]
    assert features.tolist() == pytest.approx(parts["features"], rel=1e-9)


def test_the_deconvnet_map_is_the_same_for_every_image_and_question(recorded: Recorded) -> None:
    maps = attribute(
        "deconvnet", recorded.network, recorded.images, torch.tensor([16, 16]), forward_args=recorded.question
    )
    torch.testing.assert_close(maps[0], maps[1])
    guided = attribute(
        "guided-backprop",
        recorded.network,
        recorded.images,
        torch.tensor([16, 16]),
        forward_args=recorded.question,
    )
    assert float((guided[0] - guided[1]).abs().max()) > 0.1 * float(guided.abs().max())


def test_fifty_midpoints_from_the_mean_of_each_channel_are_complete_to_a_percent() -> None:
    network, images, question = small_network()
    targets = torch.tensor([3, 5])
    mean_image = torch.tensor(CHANNELS, dtype=torch.float64).view(3, 1, 1).expand(3, 64, 64)
    named, plain = (
        attribute("integrated-gradients", network, images, targets, forward_args=question, **options)
        for options in (
            {"baseline": "mean-channel", "mean_image": mean_image},
            {"baseline": "constant", "value": CHANNELS},
        )
    )
    torch.testing.assert_close(named, plain)
    gap = completeness_gap(network, images, targets, named, baseline=mean_image, forward_args=question)
    assert bool((gap <= 0.01 * named.sum(dim=(1, 2, 3)).abs()).all())


def test_epsilon_relevance_of_the_network_is_input_times_gradient(recorded: Recorded) -> None:
    network, images, question, targets, _ = recorded
    expected = attribute("input-x-gradient", network, images, targets, forward_args=question)
    found = attribute("lrp-epsilon", network, images, targets, forward_args=question, epsilon=1e-12)
    assert float((found - expected).abs().max()) <= 1e-6 * float(expected.abs().max())


@pytest.mark.parametrize("name", ["lrp", "lrp-alpha2-beta1", "lrp-epsilon-alpha", "lrp-epsilon"])
@pytest.mark.parametrize("batch_norm", ["merged", "all-passed"])
def test_what_layers_absorb_is_what_is_missing_at_the_end(name: str, batch_norm: str) -> None:
    network, images, question = small_network()
    report = relevance_report(
        network, images, torch.tensor([3, 5]), forward_args=question, method=name, batch_norm=batch_norm
    )
    absorbed = torch.stack([layer.absorbed for layer in report.layers]).sum(dim=0)
    torch.testing.assert_close(absorbed, report.absorbed, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(report.image, report.heatmaps.sum(dim=(1, 2, 3)))


def test_the_report_has_the_maps_of_the_method(recorded: Recorded, budget: RelevanceReport) -> None:
    network, images, question, targets, _ = recorded
    torch.testing.assert_close(
        budget.heatmaps, attribute("lrp", network, images, targets, forward_args=question)
    )


def test_relevance_is_never_negative_with_alpha1_beta0() -> None:
    network, images, (tokens, lengths) = small_network()
    maps = attribute(
        "lrp", network, images, torch.tensor([3, 3]), forward_args=(tokens, lengths), start="one"
    )
    assert float(maps.min()) >= 0
    assert float(maps.max()) > 0


def test_the_caller_gets_its_tensors_and_its_network_back_as_they_were() -> None:
    network, images, question = small_network()
    known = [set(vars(tensor)) for tensor in (images, *question)]
    attribute("lrp", network, images, torch.tensor([3, 5]), forward_args=question)
    assert [set(vars(tensor)) for tensor in (images, *question)] == known
    assert network.factored


@pytest.mark.parametrize("name", ["lrp", "lrp-alpha2-beta1", "lrp-epsilon-gamma-box", "gradient"])
def test_chunks_keep_the_pairs_of_a_batch_within_the_budget(name: str) -> None:
    network, images, (tokens, lengths) = small_network()
    network, images = network.float(), images.float().repeat(12, 1, 1, 1)
    question = (tokens.repeat(12, 1), lengths.repeat(12))
    targets = torch.arange(24)
    with memory_budget("12MB"), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        attribute(name, network, images, targets, forward_args=question)
    live = most = 0
    for event in sorted(record.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            live += event.nbytes()
            most = max(most, live)
    # All at once would need five times as much.
    assert 0 < most < 14_000_000


def small_network() -> tuple[RelationNetwork, Tensor, tuple[Tensor, Tensor]]:
    """Network for 64 pixels with random weights, two images and two questions, float64."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(4)
        network = RelationNetwork(64).double().eval()
        images = torch.rand(2, 3, 64, 64, dtype=torch.float64)
    return network, images, (torch.tensor([[5, 9, 2], [7, 3, 0]]), torch.tensor([3, 2]))
