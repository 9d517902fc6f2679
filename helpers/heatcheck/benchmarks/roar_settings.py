"""What a run of the remove-and-retrain benchmark depends on, and whether it can run."""

import dataclasses
from typing import Annotated, Any, Literal

import pydantic

from heatcheck.attribution.estimator_protocols import CONTROLS, Protocol, get_protocol
from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.attribution.registry import METHODS, check_options
from heatcheck.benchmarks.image_changes import Mode
from heatcheck.benchmarks.shared_settings import check_different, check_machine, load_methods
from heatcheck.data.retraining_sets import RETRAINING_SETS
from heatcheck.metrics.levels import Aggregate, Granularity, Ties
from heatcheck.models.networks import network_builder
from heatcheck.models.retrain_recipes import RECIPES, RetrainRecipe

Fill = Literal["mean", "road"]
# Rankings that follow from masks or classes instead of maps.
KNOWING = ("oracle", "inverse-oracle", "leaky")
MATCHED = ("shuffle", "shuffle-class", "roll")
PROBES = ("max-filter", "gaussian")
_RECIPE_OF = {"shape-material-size": "color-material", "cifar10": "color-material"}
Percent = Annotated[int, pydantic.Field(ge=1, le=99)]


class Settings(pydantic.BaseModel):
    """Everything a run of this benchmark depends on; the chapter's parameters.

    Attributes:
        preset: Name of the preset, a label in every row.
        protocol: Reading of the published protocol: ``paper``, ``release`` or ``recommended``.
        estimators: What ranks the pixels: the 18 estimators, controls, ``oracle``, ``inverse-oracle``,
            ``leaky``, and registered methods. ``random`` is always among them.
        options: Options of registered methods, by method.
        plugins: Python files that register own methods or networks; their methods are run with the others.
        data: Data set that networks are retrained on.
        n_train: Training images; None for all.
        n_test: Test images; None for all.
        size: Side of the images in pixels; by default that of the data set.
        recipe: Recipe of training; by default that of the data set.
        epochs: Passes over the training images, instead of the recipe's.
        percents: Percent of the units that are removed or kept.
        modes: ``roar`` removes them, ``kar`` keeps nothing else.
        n_runs: Retrainings of every condition; run ``s`` has the same initial weights, order and
            augmentation in all of them.
        n_checkpoints: Explained networks.
        granularity: ``element`` ranks channel values, ``pixel`` positions; by default the protocol's.
        aggregate: How channels are joined for ``pixel``; by default the estimator's.
        ties: Which of equal units comes first: the lower ``index``, or a ``hash``.
        fill: What stands in place of removed units: the training images' ``mean`` color, or ``road``.
        target: Which class is explained: the ``predicted`` one, or the ``label``, which leaks it.
        n_samples: Noisy copies of the ensembles, instead of the protocol's.
        n_steps: Gradients of integrated gradients, instead of the protocol's.
        extra_percents: Percents of everything below.
        matched: Estimators that are compared with controls made from their own maps.
        probes: Estimators whose maps are also ranked after filters that add nothing about the network.
        leaks: Estimators whose masks alone are learned from.
        road: Estimators that are also retrained with imputed pixels.
        road_sigma: Standard deviation of the noise on imputed pixels, in [0, 1].
        finetuned: Estimators for which the explained network is also fine-tuned instead of retrained.
        evaluator: Whether one network trained on random masks judges all estimators.
        recursive: Estimators whose maps are made anew with each retrained network.
        seed: Seed of everything random.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:<index>``.
        workers: Processes that compute when the device is a CPU; 0 is one per core.
        on: Where cells are computed: ``local``, ``ray`` or ``ray://<host>:<port>``.
        memory: Extra memory routines may use, such as ``512MB``; None leaves it to the device.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    preset: str = "quick"
    protocol: Literal["paper", "release", "recommended"] = "recommended"
    estimators: list[str]
    options: dict[str, dict[str, Any]] = {}
    plugins: list[str] = []
    data: str = "color-material"
    n_train: int | None = pydantic.Field(default=2000, ge=2)
    n_test: int | None = pydantic.Field(default=1000, ge=2)
    size: int | None = pydantic.Field(default=None, ge=8)
    recipe: str | None = None
    epochs: float | None = pydantic.Field(default=None, gt=0)
    percents: list[Percent] = pydantic.Field(default=[10, 30, 50, 70, 90], min_length=1)
    modes: list[Mode] = pydantic.Field(default=["roar", "kar"], min_length=1)
    n_runs: int = pydantic.Field(default=3, ge=1)
    n_checkpoints: int = pydantic.Field(default=1, ge=1)
    granularity: Granularity | None = None
    aggregate: Aggregate | None = None
    ties: Ties = "index"
    fill: Fill = "mean"
    target: Literal["predicted", "label"] = "predicted"
    n_samples: int | None = pydantic.Field(default=None, ge=1)
    n_steps: int | None = pydantic.Field(default=None, ge=1)
    extra_percents: list[Percent] = []
    matched: list[str] = []
    probes: list[str] = []
    leaks: list[str] = []
    road: list[str] = []
    road_sigma: float = pydantic.Field(default=0.01, ge=0)
    finetuned: list[str] = []
    evaluator: bool = False
    recursive: list[str] = []
    seed: int = 0
    device: str = "auto"
    workers: int = pydantic.Field(default=1, ge=0)
    on: str = "local"
    memory: str | None = None

    @property
    def methods(self) -> list[str]:
        """What ranks the units, by the name that all benchmarks have for what they test."""
        return self.estimators


def check(settings: Settings) -> Settings:
    """``settings`` with the methods of their plug-ins, refused if they cannot run, before anything does.

    Raises:
        ValueError: A name, option or size is not allowed; the message says what is.
        PluginError: A plug-in cannot be used.
    """
    named = list(dict.fromkeys(["random", *settings.estimators]))
    check_different("estimators", settings.estimators)
    estimators = load_methods(named, settings.plugins)
    settings = settings.model_copy(update={"estimators": estimators})
    if settings.data not in RETRAINING_SETS:
        raise ValueError(f"unknown data set {settings.data!r}; known: {', '.join(RETRAINING_SETS)}")
    _check_rankings(settings)
    _check_numbers(settings)
    if fixed := [name for name in settings.options if name in CONTROLS]:
        raise ValueError(
            f"options name {', '.join(fixed)}, whose rankings the protocol fixes; leave them out"
        )
    for name, options in settings.options.items():
        check_options(name, options)
    recipe_of(settings)
    check_machine(settings.device, settings.memory, settings.on)
    return settings


def protocol_of(settings: Settings) -> Protocol:
    """Reading of the published protocol with the numbers that the settings replace."""
    protocol = get_protocol(settings.protocol)
    own = {name: getattr(settings, name) for name in ("granularity", "n_samples", "n_steps")}
    return protocol._replace(**{name: value for name, value in own.items() if value is not None})


def recipe_of(settings: Settings, seed: int = 0) -> RetrainRecipe:
    """How networks are trained in run ``seed``.

    Raises:
        ValueError: There is no such recipe or network.
    """
    name = settings.recipe or _RECIPE_OF.get(settings.data, settings.data)
    if name not in RECIPES:
        raise ValueError(f"unknown recipe {name!r}; known: {', '.join(RECIPES)}")
    recipe = dataclasses.replace(RECIPES[name], seed=seed)
    if settings.protocol == "recommended" and recipe.augmentation == "published":
        # No resizing after removal, which would mix kept and removed pixels.
        recipe = dataclasses.replace(recipe, augmentation="recommended")
    if settings.epochs is not None:
        recipe = dataclasses.replace(recipe, epochs=settings.epochs, steps=None)
    network_builder(recipe.network, 2)
    return recipe


def _check_rankings(settings: Settings) -> None:
    known = {*ESTIMATORS, *CONTROLS, *KNOWING, *METHODS}
    if unknown := [name for name in settings.estimators if name not in known]:
        raise ValueError(
            f"unknown estimators {', '.join(unknown)}; known: "
            f"{', '.join([*ESTIMATORS, *CONTROLS, *KNOWING])}, and the registered methods: see "
            "`heatcheck methods`"
        )
    for field in ("matched", "probes", "leaks", "road", "finetuned", "recursive"):
        if missing := [name for name in getattr(settings, field) if name not in settings.estimators]:
            raise ValueError(
                f"{field} names {', '.join(missing)}; it must be among the estimators of the run"
            )
    if refused := [name for name in settings.recursive if name in KNOWING or name in CONTROLS]:
        raise ValueError(f"recursive names {', '.join(refused)}; only maps of a network can be made anew")


def _check_numbers(settings: Settings) -> None:
    for field in ("percents", "extra_percents"):
        values = getattr(settings, field)
        if sorted(set(values)) != values:
            raise ValueError(f"{field} must be different and rising, got {values}")
    if extra := sorted(set(settings.extra_percents) - set(settings.percents)):
        raise ValueError(f"extra_percents has {extra}; they must be among percents {settings.percents}")
    imputes = settings.fill == "road" or settings.road
    if imputes and protocol_of(settings).granularity != "pixel":
        raise ValueError("imputation replaces whole pixels; set granularity to 'pixel' or fill to 'mean'")
