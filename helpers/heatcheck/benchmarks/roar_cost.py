"""What a remove-and-retrain study costs, computed from its settings: trainings, passes, bytes, GPU hours."""

from collections import Counter
from collections.abc import Sequence

import pandas as pd

from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.benchmarks.image_changes import Mode
from heatcheck.benchmarks.retraining_modes import MODES
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_conditions import INTACT, conditions, is_model_based
from heatcheck.benchmarks.roar_settings import Settings, protocol_of
from heatcheck.models.retrain_recipes import RECIPES

# Training and test images of the published data sets (Hooker et al. 2019, section 4).
PUBLISHED_SETS = {
    "ImageNet": ("imagenet", 1_281_167, 50_000),
    "Birdsnap": ("birdsnap", 47_386, 2_443),
    "Food-101": ("food101", 75_750, 25_250),
}
# The published study: estimators, thresholds, kinds of removal, runs.
PUBLISHED_GRID = (18, 5, 2, 5)
# Floating-point operations of one forward pass of ResNet-50 at 224 x 224, two per multiply-add.
FORWARD_FLOP = 8.2e9
# Images per second and GPU, assumed where nobody has measured: training, and one gradient of the input.
TRAINING_RATE, GRADIENT_RATE = 3_000.0, 5_000.0


def training_counts(settings: Settings) -> pd.DataFrame:
    """How many networks a run trains, and how often one is tested, by purpose.

    Returns:
        Columns ``purpose, trainings, tests``; the last row adds them up.
    """
    tests: Counter[str] = Counter()
    for condition in conditions(settings):
        tests[_purpose(condition.ranking, condition.way, condition.fill, settings)] += 1
    rows = [("explained network", settings.n_checkpoints, settings.n_checkpoints)]
    if settings.evaluator:
        rows.append(("evaluator on random masks", settings.n_runs, 0))
    untrained = (MODES["none"], MODES["evaluator"])
    rows += [(name, 0 if name in untrained else count, count) for name, count in tests.items()]
    if settings.recursive:
        count = len(settings.recursive) * settings.n_runs * len(settings.percents)
        rows.append(("recursive removal", count, count))
    table = pd.DataFrame(rows, columns=["purpose", "trainings", "tests"])
    table.loc[len(table)] = ["all", *table[["trainings", "tests"]].sum()]
    return table


def _purpose(ranking: str, way: str, fill: str, settings: Settings) -> str:
    if way == "leak":
        return "masks alone"
    if way in ("none", "evaluator", "finetune"):
        return MODES[way]  # type: ignore[index]
    if ranking == INTACT:
        return "nothing removed"
    if "/" in ranking:
        return "controls made from maps"
    return "estimators, imputed pixels" if fill != settings.fill else "estimators, ROAR and KAR"


def passes_per_image(estimators: Sequence[str], n_samples: int, n_steps: int, *, shared: bool = True) -> int:
    """Forward and backward passes that maps of ``estimators`` take for one image.

    Args:
        estimators: Names; others than the 18 count nothing.
        n_samples: Noisy copies of the ensembles.
        n_steps: Gradients of integrated gradients.
        shared: Ensembles of one base share their noisy copies; otherwise each takes its own.
    """
    cost = {"grad": 1, "gb": 1, "ig": n_steps}
    known = [ESTIMATORS[name] for name in estimators if name in ESTIMATORS]
    single = {one.base for one in known if one.ensemble == "none"}
    # A squared mean comes with the mean.
    ensembles = {(one.base, one.ensemble) for one in known if one.ensemble != "none"}
    bases = [base for base, _ in ensembles]
    copied = set(bases) if shared else bases
    return sum(cost[base] for base in single) + n_samples * sum(cost[base] for base in copied)


def storage_table(
    n_images: int, size: int, *, n_estimators: int, percents: Sequence[int], modes: Sequence[Mode]
) -> pd.DataFrame:
    """Bytes of rank maps in several forms, and of modified data sets that are never written here.

    Args:
        n_images: Training and test images.
        size: Side of the square images in pixels.
        n_estimators: Estimators that are stored; random rankings and squares of others take no space.
        percents: Thresholds.
        modes: Kinds of removal.

    Returns:
        Columns ``what, per_estimator, all``, in bytes.
    """
    pixels = n_images * size * size
    kinds = [
        ("maps, float32, channel values", 12 * pixels),
        ("percent levels, 8 bits, channel values", 3 * pixels),
        ("threshold levels, 4 bits, channel values", -(-3 * pixels // 2)),
        ("percent levels, 8 bits, pixels", pixels),
        ("threshold levels, 4 bits, pixels", -(-pixels // 2)),
        ("modified data sets, 8 bits", 3 * pixels * len(percents) * len(modes)),
    ]
    rows = [(what, size, n_estimators * size) for what, size in kinds]
    return pd.DataFrame(rows, columns=["what", "per_estimator", "all"])


def run_storage(results: Results) -> pd.DataFrame:
    """``storage_table`` of a run's own images and model-based estimators."""
    images, settings = results.data.images, results.settings
    n_images = len(images.train) + len(images.test)
    stored = [name for name in settings.estimators if is_model_based(name)]
    size = int(images.train.images.shape[1])
    return storage_table(
        n_images, size, n_estimators=len(stored), percents=settings.percents, modes=settings.modes
    )


def published_cost(
    *, training_rate: float = TRAINING_RATE, gradient_rate: float = GRADIENT_RATE
) -> pd.DataFrame:
    """What the published study takes, from its recipes and grid; rates are assumptions to be replaced.

    Args:
        training_rate: Training images per second and GPU.
        gradient_rate: Gradients of the input per second and GPU.

    Returns:
        Columns ``data, trainings, images_seen`` (per training), ``flop`` (of all), ``training_hours``,
        ``map_hours`` (GPU hours), ``map_bytes`` (4-bit pixel levels) and ``set_bytes`` (modified data sets
        that one would have to write).
    """
    n_estimators, n_percents, n_modes, n_runs = PUBLISHED_GRID
    trainings = n_estimators * n_percents * n_modes * n_runs
    passes = passes_per_image(list(ESTIMATORS), 15, 25)
    rows = []
    for name, (recipe, n_train, n_test) in PUBLISHED_SETS.items():
        steps, n_images = RECIPES[recipe].n_steps(n_train), n_train + n_test
        seen = steps * RECIPES[recipe].batch_size
        stored = storage_table(
            n_images, 224, n_estimators=n_estimators, percents=range(n_percents), modes=("roar", "kar")
        ).set_index("what")["all"]
        rows.append(
            {
                "data": name,
                "trainings": trainings,
                "images_seen": seen,
                # A backward pass takes twice a forward pass.
                "flop": 3.0 * FORWARD_FLOP * seen * trainings,
                "training_hours": seen * trainings / training_rate / 3600,
                "map_hours": passes * n_images / gradient_rate / 3600,
                "map_bytes": int(stored["threshold levels, 4 bits, pixels"]),
                "set_bytes": int(stored["modified data sets, 8 bits"]),
            }
        )
    return pd.DataFrame(rows)


def run_passes(settings: Settings) -> tuple[int, int]:
    """Passes per image of a run's maps: with noisy copies shared, and each estimator by itself."""
    protocol = protocol_of(settings)
    together, apart = (
        passes_per_image(settings.estimators, protocol.n_samples, protocol.n_steps, shared=shared)
        for shared in (True, False)
    )
    return together, apart
