"""Training of the Relation Network: ``python -m heatcheck.benchmarks.make_relation_network --data ...``.

``rendered`` makes the weights that ship with the package, ``complex`` goes on from them, and ``clevr`` trains
on the real data with the published recipe, which needs a GPU and days.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from heatcheck.benchmarks.relation_card import card, clevr_card, mean_image, stage_record, write_network
from heatcheck.benchmarks.relation_clevr import Published, read_split, train_published
from heatcheck.benchmarks.relation_complex import ComplexQuestions, complex_arrays
from heatcheck.benchmarks.relation_measures import family_accuracies, simple_accuracies
from heatcheck.benchmarks.relation_plans import (
    COMPLEX,
    SHARES,
    SIMPLE,
    ComplexPlan,
    Plan,
    make_world,
    train_complex,
    train_simple,
)
from heatcheck.models.relation_network import SIZES, RelationNetwork
from heatcheck.models.relation_training import fold, unfold
from heatcheck.models.shipped import load_shipped, read_manifest, weights_folder

SIMPLE_NAME, COMPLEX_NAME, CLEVR_NAME = (
    "relation_network",
    "relation_network_complex",
    "relation_network_clevr",
)
SIMPLE_TASK = "simple questions of CLEVR-XAI's forms about rendered scenes of three to ten objects"
COMPLEX_TASK = "complex questions of CLEVR's 90 forms, and simple ones, about rendered scenes"


def make_simple(
    folder: Path,
    plan: Plan = SIMPLE,
    *,
    checkpoints: Path | None = None,
    n_tested: int = 4096,
    workers: int = 1,
) -> Path:
    """Path of weights trained on simple questions, written with manifest and mean image.

    Args:
        folder: Where the files are written.
        plan: What to do.
        checkpoints: Where an interrupted training left its state.
        n_tested: Questions about unseen scenes on which the accuracy in the manifest is measured.
        workers: Processes that render.
    """
    seen = make_world("train", plan.n_scenes, plan.size, shares=SHARES, workers=workers)
    unseen = make_world("heldout", plan.n_unseen, plan.size, workers=workers)
    network, runs = train_simple(plan, seen, unseen, checkpoints)
    fold(network)
    how = dict(plan.relations)
    stages = (plan.encoder, plan.question, *how)
    records = [stage_record(stage, runs[stage.name], how.get(stage)) for stage in stages]
    accuracy = simple_accuracies(
        network, unseen.lesson, unseen.questions, n_tested, folded=True, precise=True
    )
    manifest = {
        **card(network, SIMPLE_TASK, records),
        "seed": plan.seed,
        "n_scenes": plan.n_scenes,
        "encoder_batch": plan.batch,
        "shares_of_asked_attributes": list(SHARES),
        "unseen": {"n_scenes": plan.n_unseen, "n_questions": n_tested, **accuracy},
    }
    return write_network(network, SIMPLE_NAME, manifest, mean_image(seen.lesson.images), folder)


def make_complex(
    folder: Path,
    plan: ComplexPlan = COMPLEX,
    *,
    start: Path | None = None,
    checkpoints: Path | None = None,
    n_tested: int = 4096,
    workers: int = 1,
) -> Path:
    """Path of weights trained further on complex questions, written with manifest and mean image.

    Args:
        folder: Where the files are written.
        plan: What to do.
        start: Folder of the weights trained on simple questions; the package's own by default.
        checkpoints: Where an interrupted training left its state.
        n_tested: Simple questions about unseen scenes on which an accuracy in the manifest is measured.
        workers: Processes that render.
    """
    begin = start or weights_folder()
    size = int(read_manifest(SIMPLE_NAME, begin)["size"])
    network = RelationNetwork(size)
    origin = load_shipped(network, SIMPLE_NAME, begin)
    network.cnn.to(memory_format=torch.channels_last)
    unfold(network)
    seen = make_world("train", plan.n_scenes, size, shares=SHARES, workers=workers)
    unseen = make_world("heldout", plan.n_unseen, size, workers=workers)
    runs = train_complex(plan, network, seen, unseen, folder=checkpoints, workers=workers)
    fold(network)
    how = dict(plan.relations)
    records = [stage_record(stage, runs[stage.name], how.get(stage)) for stage in (plan.question, *how)]
    source = ComplexQuestions(complex_arrays("heldout", plan.n_unseen, workers=workers), unseen.questions)
    manifest = {
        **card(network, COMPLEX_TASK, records),
        "began_from": {"name": SIMPLE_NAME, "sha256": origin["sha256"]},
        "seed": plan.seed,
        "n_scenes": plan.n_scenes,
        "share_of_simple_questions": plan.share,
        "unseen": {
            "n_scenes": plan.n_unseen,
            "simple": simple_accuracies(
                network, unseen.lesson, unseen.questions, n_tested, folded=True, precise=True
            ),
            "complex": family_accuracies(network, unseen.lesson, source, folded=True),
        },
    }
    return write_network(network, COMPLEX_NAME, manifest, mean_image(seen.lesson.images), folder)


def make_clevr_network(
    folder: Path,
    root: Path,
    cache: Path,
    recipe: Published,
    *,
    size: int = 128,
    device: str = "cpu",
    checkpoints: Path | None = None,
    partial: bool = False,
) -> Path:
    """Path of weights trained on CLEVR v1.0, written with manifest and mean image.

    Args:
        folder: Where the files are written.
        root: Folder with ``images``, ``questions`` and ``scenes``.
        cache: Where decoded images are kept.
        recipe: How to train.
        size: Side of the images in pixels.
        device: Where to train.
        checkpoints: Where an interrupted training left its state.
        partial: Leave out questions about images that are not there.
    """
    data = read_split(root, "train", cache, size=size, partial=partial)
    validation = read_split(root, "val", cache, size=size, partial=partial)
    network, curve = train_published(data, validation, recipe, size=size, device=device, folder=checkpoints)
    manifest = clevr_card(network, asdict(recipe), curve)
    return write_network(network, CLEVR_NAME, manifest, mean_image(data.images.pixels), folder)


def main(arguments: Sequence[str] | None = None) -> Path:
    """Path of the weights that were made as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=("rendered", "complex", "clevr"), default="rendered")
    parser.add_argument("--into", type=Path, default=weights_folder(), help="where weights are written")
    parser.add_argument("--checkpoints", type=Path, help="where the state is kept between runs")
    parser.add_argument("--workers", type=int, default=1, help="processes that render")
    parser.add_argument("--root", type=Path, help="folder of CLEVR v1.0")
    parser.add_argument("--cache", type=Path, help="where decoded images are kept; in the root by default")
    parser.add_argument("--partial", action="store_true", help="leave out images that are not there")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--epochs", type=int, default=Published.epochs)
    parser.add_argument("--size", type=int, default=128, choices=SIZES)
    options = parser.parse_args(arguments)
    if options.data == "rendered":
        return make_simple(options.into, checkpoints=options.checkpoints, workers=options.workers)
    if options.data == "complex":
        return make_complex(options.into, checkpoints=options.checkpoints, workers=options.workers)
    if options.root is None:
        parser.error("--data clevr needs --root, the folder of CLEVR v1.0")
    return make_clevr_network(
        options.into,
        options.root,
        options.cache or options.root / "decoded",
        Published(epochs=options.epochs),
        size=options.size,
        device=options.device,
        checkpoints=options.checkpoints,
        partial=options.partial,
    )


if __name__ == "__main__":
    # One thread: a second one brings little here, and steps are counted in processor time.
    torch.set_num_threads(1)
    main()
