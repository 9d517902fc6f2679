"""Training of the design-study family: ``python -m heatcheck.benchmarks.make_design_weights [NAME ...]``.

Every member is trained on the scenes of the localization set and then fine-tuned with patch deletion. A
member whose weights are there and were made by the same plan is left as it is, so a stopped run resumes.
"""

import dataclasses
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.benchmarks.make_weights import image_statistics, normalized
from heatcheck.data.batch import LabelledImages
from heatcheck.data.rendered import metal_color
from heatcheck.data.scenes import COLORS
from heatcheck.data.shader import default_shader, shader_hash
from heatcheck.models.patch_deletion import FineTuning, Tuned, alignment, fine_tune, shuffled
from heatcheck.models.registry import Normalization
from heatcheck.models.shipped import WeightsError, load_shipped, read_manifest, save_weights
from heatcheck.models.small_family import FACTORS, FAMILY, Member, file_name, small_folder
from heatcheck.models.state_dict import own_randomness
from heatcheck.models.training import Recipe, flip_horizontally, train

# Minutes on one CPU core, for networks that were trained in minutes.
CPU_TUNING = FineTuning(epochs=6, batch_size=64, learning_rate=1e-2, step=2, keep="last")
_UNCHANGED = Normalization((0.0,) * 3, (1.0,) * 3)


@dataclass(frozen=True)
class Plan:
    """What the family is trained on and how.

    Attributes:
        n_train: Training images.
        n_heldout: Images on which fine-tuning is watched, epoch by epoch.
        n_test: Images on which the accuracies in the manifests are measured, and as many of the training
            images.
        size: Side of the images in pixels.
        epochs: Of training; each member's own number by default.
        tuning: How to fine-tune; the learning rate and the loss are each member's own.
        seed: Of initial weights, order and augmentation.
    """

    n_train: int = 8000
    n_heldout: int = 500
    n_test: int = 1000
    size: int = 64
    epochs: int | None = None
    tuning: FineTuning = CPU_TUNING
    seed: int = 0


class Split(NamedTuple):
    """Normalized images ``(N, 3, H, W)`` and their classes."""

    images: Tensor
    targets: Tensor


class Splits(NamedTuple):
    """The three splits, normalized for one member, and what they were normalized with."""

    train: Split
    heldout: Split
    test: Split
    normalization: Normalization


def make_family(folder: Path, names: Sequence[str] = (), plan: Plan | None = None) -> list[Path]:
    """Paths of the weights of all members called ``names``, by default of the whole family.

    Args:
        folder: Where weights and manifests are written.
        names: Keys of ``FAMILY``.
        plan: What to train on and how.

    Raises:
        ValueError: There is no such member.
    """
    unknown = sorted(set(names) - set(FAMILY))
    if unknown:
        raise ValueError(f"no members {', '.join(unknown)}; known: {', '.join(FAMILY)}")
    chosen = plan or Plan()
    return [path for name in names or FAMILY for path in make_member(FAMILY[name], folder, chosen)]


def make_member(member: Member, folder: Path, plan: Plan) -> tuple[Path, Path]:
    """Paths of the weights of ``member`` before and after fine-tuning, trained where they are missing."""
    splits = load_splits(plan, binary=member.binary)
    base, tuned = (file_name(member.name, tuned=after) for after in (False, True))
    module = member.build(len(COLORS)).to(memory_format=torch.channels_last)
    facts = _facts(member, splits, plan)
    if not _is_made(folder, base, facts):
        module, seconds = _train(member, splits, plan)
        measured = {"cpu_seconds": seconds, "accuracy": _accuracies(module, splits, plan)}
        save_weights(module, base, {**facts, **measured}, folder)
    before = load_shipped(module, base, folder)
    start = {**facts, "started_from": before["sha256"], "tuning": dataclasses.asdict(tuning(member, plan))}
    if not _is_made(folder, tuned, start):
        result, seconds = _tune(module, member, splits, plan)
        measured = {
            "cpu_seconds": seconds,
            "kept_epoch": result.kept_epoch,
            "history": result.history,
            "accuracy_before": before["accuracy"],
            "accuracy": _accuracies(result.module, splits, plan),
        }
        save_weights(result.module, tuned, {**start, **measured}, folder)
    return folder / f"{base}.safetensors", folder / f"{tuned}.safetensors"


def load_splits(plan: Plan, *, binary: bool) -> Splits:
    """The splits of ``plan``, normalized with the training images' statistics, not at all if ``binary``."""
    parts = (
        metal_color("train", plan.n_train, size=plan.size),
        metal_color("heldout", plan.n_heldout, size=plan.size),
        metal_color("test", plan.n_test, size=plan.size),
    )
    statistics = _UNCHANGED if binary else image_statistics(parts[0].images)
    trained, heldout, test = (_split(part, statistics) for part in parts)
    return Splits(trained, heldout, test, statistics)


def tuning(member: Member, plan: Plan) -> FineTuning:
    """How ``member`` is fine-tuned under ``plan``."""
    loss = recipe(member, plan).loss
    return dataclasses.replace(plan.tuning, learning_rate=member.tuning_rate, loss=loss, seed=plan.seed)


def recipe(member: Member, plan: Plan) -> Recipe:
    """How ``member`` is trained under ``plan``."""
    return Recipe(
        epochs=plan.epochs or member.epochs,
        learning_rate=member.learning_rate,
        seed=plan.seed,
        loss="binary" if member.binary else "cross-entropy",
    )


def _split(data: LabelledImages, statistics: Normalization) -> Split:
    return Split(normalized(data.images, statistics), data.targets)


def _train(member: Member, splits: Splits, plan: Plan) -> tuple[nn.Module, float]:
    how = recipe(member, plan)
    with own_randomness(how.seed):
        module = member.build(len(COLORS)).to(memory_format=torch.channels_last)
    start = time.process_time()
    with own_randomness(how.seed):
        train(module, *splits.train, how, augment=flip_horizontally, label=member.name)
    return module, round(time.process_time() - start, 1)


def _tune(module: nn.Module, member: Member, splits: Splits, plan: Plan) -> tuple[Tuned, float]:
    how = tuning(member, plan)

    def measure(current: nn.Module) -> dict[str, float]:
        return alignment(current, *splits.heldout, how.n_patches)._asdict()

    start = time.process_time()
    batches = shuffled(*splits.train, how, flip_horizontally)
    result = fine_tune(module, batches, measure, how, label=f"{member.name} tuned")
    return result, round(time.process_time() - start, 1)


def _accuracies(module: nn.Module, splits: Splits, plan: Plan) -> dict[str, dict[str, float]]:
    """Accuracy on intact images and on images with one patch deleted, on training and on unseen images."""
    seen = Split(*(part[: plan.n_test] for part in splits.train))
    measured = {
        "train": alignment(module, *seen, plan.tuning.n_patches),
        "test": alignment(module, *splits.test, plan.tuning.n_patches),
    }
    return {
        split: {key: round(value, 5) for key, value in found._asdict().items()}
        for split, found in measured.items()
    }


def _facts(member: Member, splits: Splits, plan: Plan) -> dict[str, Any]:
    """What the weights are and how they were made."""
    return {
        "source": "trained by this project on its own rendered scenes",
        "license": "Apache-2.0",
        "made_by": f"python -m heatcheck.benchmarks.make_design_weights {member.name}",
        "task": "color of the only metal object among three to five objects",
        "architecture": f"heatcheck.models.small_family, {member.name}",
        "factors": {name: getattr(member, name) for name in FACTORS},
        "classes": list(COLORS),
        "size": plan.size,
        "mean": list(splits.normalization.mean),
        "std": list(splits.normalization.std),
        "recipe": dataclasses.asdict(recipe(member, plan)),
        "n_train": plan.n_train,
        "n_heldout": plan.n_heldout,
        "n_test": plan.n_test,
        "shader_sha256": shader_hash(default_shader()),
        "torch": torch.__version__,
    }


def _is_made(folder: Path, name: str, facts: dict[str, Any]) -> bool:
    """Weights ``name`` are in ``folder`` and were made as ``facts`` say; the version of torch may differ."""
    try:
        found = read_manifest(name, folder)
    except WeightsError:
        return False
    return all(found.get(key) == value for key, value in facts.items() if key != "torch")


if __name__ == "__main__":
    make_family(small_folder(), sys.argv[1:])
