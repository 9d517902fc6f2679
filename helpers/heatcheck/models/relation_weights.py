"""Shipped Relation Networks, with the mean image they were trained on."""

import hashlib
from dataclasses import replace
from pathlib import Path

import safetensors.torch
from torch import Tensor

from heatcheck.data.clevr.vocabulary import ANSWERS
from heatcheck.models.registry import Classifier, register_model
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.shipped import WeightsError, read_manifest, shipped_classifier, weights_folder

SIMPLE, COMPLEX = "relation_network", "relation_network_complex"


def shipped_relation_network(name: str, weights: str, folder: Path | None = None) -> Classifier:
    """Classifier called ``name`` with the shipped ``weights``; it takes images, tokens and lengths.

    Args:
        name: Name in every table.
        weights: File name without suffix.
        folder: Where the files lie; the package's own folder by default.

    Raises:
        WeightsError: A file is missing or changed, or the answers are in another order.
    """
    classifier = shipped_classifier(name, RelationNetwork(), weights, folder)
    if classifier.classes != ANSWERS:
        raise WeightsError(f"the manifest of {weights} lists other answers; install the package again")
    sha256 = read_manifest(weights, folder)["mean_image_sha256"]
    return replace(classifier, mean_image=_mean_image(weights, sha256, folder or weights_folder()))


def _mean_image(weights: str, sha256: str, folder: Path) -> Tensor:
    """Mean training image ``(3, H, W)`` float32 in [0, 1]."""
    path = folder / f"{weights}_mean_image.safetensors"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(
            f"cannot read the mean image {path}: {error}; install the package again"
        ) from error
    if hashlib.sha256(content).hexdigest() != sha256:
        raise WeightsError(f"mean image {path} is not the one in the manifest; install the package again")
    mean: Tensor = safetensors.torch.load(content)["mean_image"]
    return mean.float()


@register_model("relation-network")
def relation_network() -> Classifier:
    """Relation Network that answers simple questions about rendered scenes.

    Raises:
        ValueError: The shipped weights are missing, changed or of another architecture.
    """
    return shipped_relation_network("relation-network", SIMPLE)


@register_model("relation-network-complex")
def relation_network_complex() -> Classifier:
    """Relation Network that went on from ``relation-network`` to complex questions about rendered scenes.

    Raises:
        ValueError: The shipped weights are missing, changed or of another architecture.
    """
    return shipped_relation_network("relation-network-complex", COMPLEX)
