"""Trained weights that ship with the package, each with a manifest that says where they come from."""

import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import safetensors.torch
from torch import nn

from heatcheck.models.registry import Classifier, Normalization
from heatcheck.models.state_dict import load_by_name


class WeightsError(ValueError):
    """Shipped weights that are missing, changed or do not fit, with what to do about it."""


def weights_folder() -> Path:
    """Folder of the shipped weights and manifests."""
    return Path(str(resources.files("heatcheck"))) / "assets" / "weights"


def read_manifest(name: str, folder: Path | None = None) -> dict[str, Any]:
    """Manifest of the weights called ``name``: source, license, how they were made, hash, accuracy.

    Args:
        name: File name without suffix.
        folder: Where it lies; the package's own folder by default.

    Raises:
        WeightsError: There is no such manifest, or it is damaged.
    """
    path = (folder or weights_folder()) / f"{name}.json"
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"cannot read the manifest {path}: {error}; install the package again") from error
    if not isinstance(manifest, dict) or "sha256" not in manifest:
        raise WeightsError(f"the manifest {path} names no sha256; install the package again")
    return manifest


def load_shipped(module: nn.Module, name: str, folder: Path | None = None) -> dict[str, Any]:
    """Manifest of the weights ``name``, after they were loaded into ``module``, which is set to evaluation.

    Args:
        module: Of the architecture the weights were trained for; it is changed.
        name: File name without suffix of ``name.safetensors`` and ``name.json``.
        folder: Where the two lie; the package's own folder by default.

    Raises:
        WeightsError: A file is missing, or the weights are not those the manifest describes.
        ValueError: The weights belong to another architecture; the module is then as it was.
    """
    manifest = read_manifest(name, folder)
    path = (folder or weights_folder()) / f"{name}.safetensors"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise WeightsError(f"cannot read the weights {path}: {error}; install the package again") from error
    found = hashlib.sha256(content).hexdigest()
    if found != manifest["sha256"]:
        raise WeightsError(
            f"weights {path} have sha256 {found}, their manifest says {manifest['sha256']}; "
            "install the package again"
        )
    load_by_name(module, safetensors.torch.load(content), name=type(module).__name__, source=str(path))
    module.eval()
    return manifest


def shipped_classifier(name: str, module: nn.Module, weights: str, folder: Path | None = None) -> Classifier:
    """Classifier ``name`` of shipped weights, in evaluation mode, with what their manifest says of images.

    Args:
        name: Name in every table.
        module: Of the architecture the weights were trained for; it is changed.
        weights: File name without suffix.
        folder: Where the files lie; the package's own folder by default.

    Raises:
        WeightsError: A file is missing, or the weights are not those the manifest describes.
        ValueError: The weights belong to another architecture.
    """
    manifest = load_shipped(module, weights, folder)
    normalization = Normalization(tuple(manifest["mean"]), tuple(manifest["std"]))
    return Classifier(name, module, int(manifest["size"]), normalization, tuple(manifest["classes"]))


def save_weights(module: nn.Module, name: str, manifest: Mapping[str, Any], folder: Path) -> Path:
    """Path of the weights of ``module``, written with their manifest, to which the file's sha256 is added."""
    content = safetensors.torch.save({key: value.contiguous() for key, value in module.state_dict().items()})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.safetensors"
    path.write_bytes(content)
    document = {"sha256": hashlib.sha256(content).hexdigest(), **manifest}
    path.with_suffix(".json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return path
