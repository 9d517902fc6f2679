"""The Relation Network of the recorded right answers, made from its recipe."""

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from heatcheck.models.relation_network import RelationNetwork

GOLDEN = Path(__file__).parent / "golden" / "clevr_xai.json"


class GoldenNetwork(NamedTuple):
    """The recorded full-size network with its two images and questions, float64."""

    network: RelationNetwork
    images: Tensor
    tokens: Tensor
    lengths: Tensor
    record: dict[str, Any]


def recorded_network() -> GoldenNetwork:
    """The network with the weights, images and questions of the recipe, in evaluation mode."""
    record = json.loads(GOLDEN.read_text(encoding="utf-8"))["relation_network_full_size"]
    network = RelationNetwork().double().eval()
    _draw_weights(network, record["weight_recipe"])
    tokens = torch.tensor(record["question_tokens"])
    lengths = torch.tensor(record["question_lengths"])
    return GoldenNetwork(network, _golden_images(), tokens, lengths, record)


@torch.no_grad()
def _draw_weights(network: RelationNetwork, recipe: list[dict[str, Any]]) -> None:
    random = np.random.RandomState(2022)
    state = network.state_dict()
    for entry in recipe:
        name = _own_name(entry["parameter"])
        formula = entry["formula"]
        offset, scale = formula.removeprefix("abs(").removesuffix(")").removesuffix(" * normal").split(" + ")
        values = float(offset) + float(scale) * random.standard_normal(entry["shape"])
        state[name].copy_(torch.from_numpy(np.abs(values) if formula.startswith("abs") else values))
    network.embedding.weight[0] = 0.0


def _own_name(name: str) -> str:
    if name.startswith(("conv", "bn")):
        return f"cnn.{name}"
    return name.replace("word_embeddings", "embedding")


def _golden_images() -> Tensor:
    noise = np.random.RandomState(7).random_sample((2, 3, 128, 128))
    y, x = np.meshgrid(np.arange(128) / 127, np.arange(128) / 127, indexing="ij")
    images = np.empty((2, 3, 128, 128))
    for b in range(2):
        for c in range(3):
            waves = np.sin((3 + b + 2 * c) * math.pi * x + 0.7 * c) * np.cos((2 + c) * math.pi * y + 0.3 * b)
            images[b, c] = np.clip(0.45 + 0.25 * waves + 0.1 * (noise[b, c] - 0.5), 0, 1)
    return torch.from_numpy(images)
