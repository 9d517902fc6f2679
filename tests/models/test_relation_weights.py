"""The Relation Network that ships with the package."""

import pytest
import torch

from heatcheck.data.clevr.batch import load_questions
from heatcheck.data.clevr.embedded import load_embedded
from heatcheck.data.clevr.vocabulary import ANSWERS
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.registry import MODELS, Factory
from heatcheck.models.relation_weights import (
    COMPLEX,
    SIMPLE,
    relation_network,
    relation_network_complex,
)
from heatcheck.models.shipped import read_manifest


def test_the_shipped_network_answers_simple_questions_about_scenes_it_has_not_seen() -> None:
    asked = load_questions(load_embedded(kind="simple"), "simple", 100, names=())
    network = relation_network().module
    with torch.no_grad():
        found = network(asked.images, asked.tokens, asked.lengths).argmax(dim=1)
    assert (found == asked.answers).double().mean() >= 0.9


def test_the_other_network_answers_more_complex_questions_than_always_yes_or_no_would() -> None:
    asked = load_questions(load_embedded(kind="complex"), "complex", 100, names=())
    network = relation_network_complex().module
    with torch.no_grad():
        found = network(asked.images, asked.tokens, asked.lengths).argmax(dim=1)
    most = asked.answers.bincount().max().double() / len(asked)
    assert (found == asked.answers).double().mean() > most + 0.1


@pytest.mark.parametrize(
    ("name", "make", "weights"),
    [
        ("relation-network", relation_network, SIMPLE),
        ("relation-network-complex", relation_network_complex, COMPLEX),
    ],
)
def test_the_classifier_is_registered_with_what_its_inputs_look_like(
    name: str, make: Factory, weights: str
) -> None:
    assert MODELS[name] is make
    classifier = make()
    assert classifier.classes == ANSWERS
    assert classifier.size == 128
    assert classifier.normalization == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    assert not classifier.module.training
    mean = classifier.mean_image
    assert mean is not None
    assert mean.shape == (3, 128, 128)
    means = read_manifest(weights)["channel_means"]
    torch.testing.assert_close(mean.mean(dim=(1, 2)), torch.tensor(means), rtol=0, atol=1e-4)


def test_the_manifest_tells_accuracies_curves_and_aids() -> None:
    manifest = read_manifest(SIMPLE)
    assert manifest["shader_sha256"] == shader_hash(default_shader())
    assert manifest["license"] == "Apache-2.0"
    assert manifest["n_parameters"] == 484_548
    assert manifest["unseen"]["accuracy"] >= 0.95
    assert manifest["unseen"]["n_questions"] >= 4000
    assert {"shape", "size", "material", "color"} <= manifest["unseen"].keys()
    assert manifest["answer_loss_alone_with_all_pairs"]["share"] >= 0.3
    assert manifest["aids"]
    assert all(stage["curve"] for stage in manifest["stages"])


def test_the_manifest_of_the_other_network_tells_accuracies_by_kind_of_question() -> None:
    unseen = read_manifest(COMPLEX)["unseen"]
    assert unseen["simple"]["accuracy"] >= 0.95
    assert unseen["complex"]["all"]["n"] >= 4000
    assert {"zero_hop", "one_hop", "comparison", "same_relate", "single_and"} <= unseen["complex"].keys()


def test_the_network_in_canonical_form_gives_the_same_answers() -> None:
    asked = load_questions(load_embedded(kind="simple"), "simple", 8, names=())
    network = relation_network().module
    with torch.no_grad():
        expected = network(asked.images, asked.tokens, asked.lengths)
        found = network.canonical()(asked.images, asked.tokens, asked.lengths)  # type: ignore[operator]
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
