"""The conditions of a remove-and-retrain run: what ranks, what goes, and how networks are judged."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from heatcheck.attribution.estimator_protocols import CONTROLS
from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.attribution.registry import is_control
from heatcheck.benchmarks.image_changes import Mode
from heatcheck.benchmarks.roar_settings import KNOWING, MATCHED, PROBES, Fill, Settings

Way = Literal["scratch", "finetune", "evaluator", "none", "leak"]
# Ranking of the images with nothing removed.
INTACT = "intact"
_APART = "/"


class Condition(NamedTuple):
    """One network and what it is tested on.

    Attributes:
        ranking: What ranks the units: an estimator, ``intact``, or a control made from an estimator's maps,
            such as ``grad/shuffle`` or ``grad/gaussian``.
        mode: ``roar`` removes the units that rank first, ``kar`` keeps nothing else.
        percent: Percent of the units; 0 for intact images.
        fill: What stands in place of removed units.
        way: ``scratch``: retrained from random weights; ``finetune``: the explained network, trained on;
            ``evaluator``: one network trained on random masks; ``none``: the explained network as it is;
            ``leak``: trained from random weights on the masks alone.
        checkpoint: Number of the explained network.
        run: Number of the retraining.
    """

    ranking: str
    mode: Mode
    percent: int
    fill: Fill
    way: Way
    checkpoint: int
    run: int

    @property
    def estimator(self) -> str:
        """Estimator whose maps the ranking comes from."""
        return self.ranking.partition(_APART)[0]

    @property
    def control(self) -> str:
        """What was made of them, ``shuffle`` for example; empty for the estimator itself."""
        return self.ranking.partition(_APART)[2]


def derived(estimator: str, control: str) -> str:
    """Name of the ranking that ``control`` makes of the maps of ``estimator``."""
    return f"{estimator}{_APART}{control}"


def label(ranking: str) -> str:
    """Name of a ranking in tables and figures, as in the paper where it has one: ``SG-SQ-GRAD``."""
    estimator, _, control = ranking.partition(_APART)
    known = ESTIMATORS.get(estimator) or CONTROLS.get(estimator)
    name = known.label if known else estimator.upper() if estimator in KNOWING else estimator
    return f"{name}, {control}" if control else name


def is_model_based(ranking: str) -> bool:
    """Whether a ranking comes from maps of the explained network, and from nothing else."""
    return _APART not in ranking and needs_network(ranking)


def needs_network(ranking: str) -> bool:
    """Whether the levels of a ranking differ between explained networks."""
    estimator = ranking.partition(_APART)[0]
    return not (estimator in CONTROLS or estimator in (*KNOWING, INTACT) or is_control(estimator))


def comes_from_maps(ranking: str) -> bool:
    """Whether the levels of a ranking are those of maps, filtered or not, which are stored."""
    estimator, _, control = ranking.partition(_APART)
    drawn = estimator in CONTROLS and CONTROLS[estimator].method == "random"
    return control not in MATCHED and not drawn and estimator not in (*KNOWING, INTACT)


def conditions(settings: Settings) -> list[Condition]:
    """All conditions of a run but those of recursive retraining, each once."""
    return list(dict.fromkeys(_conditions(settings)))


def intact(settings: Settings, run: int) -> Condition:
    """Networks retrained on images that went through the pipeline with nothing removed."""
    return Condition(INTACT, "roar", 0, settings.fill, "scratch", 0, run)


class _Block(NamedTuple):
    """Rankings that are tested at the same percents in the same way."""

    rankings: Sequence[str]
    percents: Sequence[int]
    fill: Fill
    way: Way
    n_runs: int


def _conditions(settings: Settings) -> Iterator[Condition]:
    yield from (intact(settings, run) for run in range(settings.n_runs))
    for block in _blocks(settings):
        yield from _grid(settings, block)


def _blocks(settings: Settings) -> Iterator[_Block]:
    everything, fill, n_runs = settings.estimators, settings.fill, settings.n_runs
    extra = settings.extra_percents or settings.percents
    yield _Block(everything, settings.percents, fill, "scratch", n_runs)
    for names, controls in ((settings.matched, MATCHED), (settings.probes, PROBES)):
        rankings = [derived(name, control) for name in names for control in controls]
        yield _Block(rankings, extra, fill, "scratch", n_runs)
    yield _Block(settings.leaks, extra, fill, "leak", n_runs)
    yield _Block(settings.road, extra, "road", "scratch", n_runs)
    yield _Block(settings.finetuned, extra, fill, "finetune", n_runs)
    if settings.evaluator:
        yield _Block(everything, settings.percents, fill, "evaluator", n_runs)
    yield _Block(everything, settings.percents, fill, "none", 1)
    if settings.road:
        named = [name for name in everything if name != "random-redrawn"]
        yield _Block(named, settings.percents, "road", "none", 1)


def _grid(settings: Settings, block: _Block) -> Iterator[Condition]:
    for ranking in block.rankings:
        # Rankings that ignore the explained network are the same for all of them.
        alike = block.way not in {"none", "finetune"} and not needs_network(ranking)
        for checkpoint in range(1 if alike else settings.n_checkpoints):
            for mode in settings.modes:
                for percent in block.percents:
                    for run in range(block.n_runs):
                        yield Condition(ranking, mode, percent, block.fill, block.way, checkpoint, run)
