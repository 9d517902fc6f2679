"""Trained Relation Networks written down: weights, mean image, and how they came about."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from heatcheck.benchmarks.relation_stages import Relating
from heatcheck.data.clevr.vocabulary import ANSWERS, N_TOKENS
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.models.shipped import save_weights
from heatcheck.models.stages import Run, Stage

AIDS = (
    "encoder pretraining on the attributes of cells from exact masks",
    "question encoder pretraining on the slots of programs",
    "some pairs per step, in permutations, that stand for all",
    "loss on deciding pairs from exact masks",
    "shape asked for more often than other attributes",
)
LIMITS = (
    "Only for scenes rendered by this project. Networks trained on such renders answer far fewer questions "
    "about images rendered with Blender, so these weights must not be evaluated on CLEVR or CLEVR-XAI."
)


def mean_image(images: NDArray[np.uint8], *, chunk: int = 500) -> Tensor:
    """Mean ``(3, S, S)`` float32 in [0, 1] of images ``(N, S, S, 3)``, to half precision.

    Args:
        images: sRGB.
        chunk: Images per partial sum; sums are of whole numbers, so the result does not depend on it.
    """
    total = np.zeros(images.shape[1:], dtype=np.int64)
    for start in range(0, len(images), chunk):
        total += images[start : start + chunk].sum(axis=0, dtype=np.int64)
    mean = torch.from_numpy(total / (255 * len(images)))
    return mean.permute(2, 0, 1).contiguous().half().float()


def stage_record(stage: Stage, run: Run, how: Relating | None = None) -> dict[str, Any]:
    """What a stage was to do and what happened, with its learning curve."""
    return {
        **asdict(stage),
        **(asdict(how) if how else {}),
        "steps": run.steps,
        "cpu_seconds": round(run.seconds, 3),
        "curve": run.curve,
    }


def without_aids(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Time and share of the stages that used the answer loss alone and all pairs."""
    total = sum(record["cpu_seconds"] for record in records)
    alone = sum(
        record["cpu_seconds"]
        for record in records
        if "rounds" in record and record["rounds"] is None and not any(record["pair_aid"])
    )
    return {"cpu_seconds": round(alone, 3), "share": round(alone / total, 4)}


def card(network: RelationNetwork, task: str, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the weights are, what they are not for, and how they were made."""
    return {
        "source": "trained by this project on its own rendered scenes",
        "license": "Apache-2.0",
        "made_by": "python -m heatcheck.benchmarks.make_relation_network",
        "task": task,
        "limits": LIMITS,
        **_form(network),
        "shader_sha256": shader_hash(default_shader()),
        "precision": "bfloat16 autocast in training; accuracies in float32",
        "cpu_seconds": round(sum(record["cpu_seconds"] for record in records), 1),
        "aids": list(AIDS),
        "answer_loss_alone_with_all_pairs": without_aids(records),
        "stages": list(records),
    }


def clevr_card(
    network: RelationNetwork, record: Mapping[str, Any], curve: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    """What weights trained on CLEVR are and how they were made."""
    best = max(curve, key=lambda row: row["accuracy"])
    return {
        "source": "trained on CLEVR v1.0 (Johnson et al. 2017, CC BY 4.0) by the published recipe",
        "license": "Apache-2.0",
        "made_by": "python -m heatcheck.benchmarks.make_relation_network --data clevr",
        "task": "questions of CLEVR v1.0",
        **_form(network),
        "recipe": dict(record),
        "epoch": best["epoch"],
        "validation_accuracy": best["accuracy"],
        "curve": [dict(row) for row in curve],
    }


def write_network(
    network: RelationNetwork, name: str, manifest: Mapping[str, Any], mean: Tensor, folder: Path
) -> Path:
    """Path of the weights, written with their manifest and the mean training image.

    Args:
        network: Trained, with ``f1`` in the form it ships in.
        name: File name without suffix.
        manifest: Model card.
        mean: ``(3, S, S)`` mean training image.
        folder: Where the three files are written.
    """
    network.to(memory_format=torch.contiguous_format).eval()
    content = safetensors.torch.save({"mean_image": mean.half()})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}_mean_image.safetensors").write_bytes(content)
    means = [round(value, 5) for value in mean.mean(dim=(1, 2)).tolist()]
    extra = {"mean_image_sha256": hashlib.sha256(content).hexdigest(), "channel_means": means}
    return save_weights(network, name, {**manifest, **extra}, folder)


def _form(network: RelationNetwork) -> dict[str, Any]:
    """What goes in and out."""
    return {
        "architecture": "heatcheck.models.relation_network.RelationNetwork",
        "n_parameters": sum(weight.numel() for weight in network.parameters()),
        "classes": list(ANSWERS),
        "n_words": N_TOKENS,
        "size": network.size,
        "mean": [0.0, 0.0, 0.0],
        "std": [1.0, 1.0, 1.0],
        "torch": torch.__version__,
    }
