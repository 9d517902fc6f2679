"""What a run of the single-deletion benchmark depends on, and whether it can run."""

from typing import Any, Literal

import pydantic

from heatcheck.attribution.registry import METHODS
from heatcheck.benchmarks.heatmaps import MethodRequest
from heatcheck.benchmarks.idsds_methods import STUDY, Profile, is_applicable, method_request
from heatcheck.benchmarks.shared_settings import check_different, check_fill, check_machine, load_methods
from heatcheck.metrics.incremental import Direction
from heatcheck.metrics.patches import Transform
from heatcheck.models.registry import Classifier

Positive = pydantic.PositiveInt


class Variant(pydantic.BaseModel):
    """A method of the run under another name with other options, for comparisons such as noise levels."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    method: str
    options: dict[str, Any] = {}


class Settings(pydantic.BaseModel):
    """Everything a run of this benchmark depends on; the chapter's parameters.

    Attributes:
        preset: Name of the preset, a label in every row.
        profile: ``reference``, as the published numbers were made, or ``corrected``.
        methods: Methods of the study, or any registered method.
        options: Options of methods that win over those of the profile, by method.
        variants: Further methods, by a name of your own: ``{"method": ..., "options": {...}}`` each.
        plugins: Python files that register own methods or models; their methods are run with the others.
        data: Data set.
        models: Classifiers as they were trained.
        tuned: For a model, the same one after fine-tuning with patch deletion, both by registered name.
        weights: Weights of torchvision and timm models, by model: a file, ``hub`` or ``random``.
        n_classes: Number of classes of such weights, by model, where it is not the model's default.
        n_images: How many images are scored, right or wrong.
        n_train: How many training images accuracy under deletion is also measured on.
        transforms: What is done to each pixel before patches are summed.
        grid: Patches per side of the headline score.
        fill: What deleted patches become in the headline score.
        detailed: Models that are also scored by everything below; by default the first one.
        compared: Methods of the other models, some of ``methods``; by default all of them.
        originals: Which models are explained before fine-tuning too, where there is an after: ``all``, the
            ``detailed`` ones or ``none``. The others are only asked what they answer.
        grids: Further grids.
        fills: Further deletion values.
        softmax: Also score methods that explain the probability, by drops of the probability.
        set_sizes: Numbers of patches that are deleted together, as a second opinion.
        n_sets: Random sets of each size.
        incremental: Methods that are scored by incremental deletion; empty: none.
        updated: Those of them whose maps are also made anew at every step.
        n_incremental: How many of the images that is done on.
        n_steps: Steps of incremental deletion.
        directions: ``ascending`` deletes the least relevant pixels first.
        seed: Seed of everything random.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:<index>``.
        workers: Processes that compute when the device is a CPU; 0 is one per core.
        on: ``local``, or a Ray cluster: ``ray`` or ``ray://HOST:PORT``.
        memory: Extra memory routines may use, such as ``512MB``; None leaves it to the device.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    preset: str = "quick"
    profile: Profile = "reference"
    methods: list[str]
    options: dict[str, dict[str, Any]] = {}
    variants: dict[str, Variant] = {}
    plugins: list[str] = []
    data: str = "metal-color"
    models: list[str] = pydantic.Field(default=["resnet8-metal-color"], min_length=1)
    tuned: dict[str, str] = {}
    weights: dict[str, str] = {}
    n_classes: dict[str, int] = {}
    n_images: int = pydantic.Field(default=200, ge=2)
    n_train: int = pydantic.Field(default=0, ge=0)
    transforms: list[Transform] = pydantic.Field(default=["raw", "abs", "relu"], min_length=1)
    grid: Positive = 4
    fill: str = "zero"
    detailed: list[str] | None = None
    compared: list[str] | None = None
    originals: Literal["all", "detailed", "none"] = "all"
    grids: list[Positive] = []
    fills: list[str] = []
    softmax: bool = False
    set_sizes: list[Positive] = []
    n_sets: Positive = 32
    incremental: list[str] = []
    updated: list[str] = []
    n_incremental: Positive = 50
    n_steps: Positive = 32
    directions: list[Direction] = pydantic.Field(default=["ascending"], min_length=1)
    seed: int = 0
    device: str = "auto"
    workers: int = pydantic.Field(default=1, ge=0)
    on: str = "local"
    memory: str | None = None

    @property
    def extra_models(self) -> list[str]:
        """Models that are scored by everything."""
        return self.models[:1] if self.detailed is None else self.detailed

    @property
    def all_grids(self) -> list[int]:
        """The headline grid and the further ones, each once."""
        return list(dict.fromkeys([self.grid, *self.grids]))

    @property
    def all_fills(self) -> list[str]:
        """The headline deletion value and the further ones, each once."""
        return list(dict.fromkeys([self.fill, *self.fills]))


def check(settings: Settings) -> Settings:
    """``settings`` with the methods of their plug-ins, refused if they cannot run, before anything does.

    Raises:
        ValueError: A name, option or size is not allowed; the message says what is.
        PluginError: A plug-in cannot be used.
    """
    methods = load_methods(settings.methods, settings.plugins)
    methods = list(dict.fromkeys([*methods, *settings.variants]))
    check_different("models", settings.models)
    for name in dict.fromkeys([*methods, *settings.options]):
        _check_method(name, settings)
    _check_parts("incremental", settings.incremental, methods)
    _check_parts("updated", settings.updated, settings.incremental)
    _check_parts("tuned", list(settings.tuned), settings.models)
    _check_parts("detailed", settings.extra_models, settings.models)
    _check_parts("compared", settings.compared or [], methods)
    for fill in settings.all_fills:
        check_fill(fill)
    cells = settings.grid**2
    if any(size > cells for size in settings.set_sizes):
        raise ValueError(f"set_sizes must be at most {cells} patches, got {settings.set_sizes}")
    check_machine(settings.device, settings.memory, settings.on)
    return settings.model_copy(update={"methods": methods})


def methods_of(settings: Settings, classifier: Classifier) -> list[str]:
    """Methods of the run that explain this classifier, in the order of the settings."""
    return [name for name in settings.methods if is_applicable(_method_of(settings, name), classifier.module)]


def main_model(settings: Settings) -> str:
    """The model that is looked at closely: the first detailed one.

    Raises:
        ValueError: There is none.
    """
    if not settings.extra_models:
        raise ValueError("detailed names no model; name the one that is looked at closely")
    return settings.extra_models[0]


def explaining(settings: Settings, classifier: Classifier, model: str, *, tuned: bool) -> list[str]:
    """Methods that explain a classifier of the run, in the order of the settings.

    Args:
        settings: Of the run.
        classifier: The classifier.
        model: Name of the model it is a stage of.
        tuned: Whether it is the fine-tuned stage.
    """
    detailed = model in settings.extra_models
    chosen = settings.originals == "all" or (settings.originals == "detailed" and detailed)
    if not tuned and model in settings.tuned and not chosen:
        return []
    names = methods_of(settings, classifier)
    if detailed or settings.compared is None:
        return names
    return [name for name in names if name in settings.compared]


def request_of(settings: Settings, name: str) -> MethodRequest:
    """Registered method and options behind a method or variant of the run."""
    variant = settings.variants.get(name)
    if variant is None:
        return method_request(name, settings.profile, settings.options.get(name))
    options = {**settings.options.get(variant.method, {}), **variant.options}
    return method_request(variant.method, settings.profile, options)


def _method_of(settings: Settings, name: str) -> str:
    return settings.variants[name].method if name in settings.variants else name


def _check_method(name: str, settings: Settings) -> None:
    known = {*STUDY, *METHODS}
    if name in settings.variants and name in known:
        raise ValueError(f"variant {name!r} has the name of a method; choose another")
    if _method_of(settings, name) not in known:
        raise ValueError(f"unknown method {_method_of(settings, name)!r}; known: {', '.join(sorted(known))}")
    request_of(settings, name)


def _check_parts(what: str, names: list[str], whole: list[str]) -> None:
    strangers = [name for name in names if name not in whole]
    if strangers:
        raise ValueError(f"{what} names {', '.join(strangers)}; allowed: {', '.join(whole) or 'none'}")
