"""What a run of the deletion benchmark depends on, and whether it can run."""

from typing import Any

import pydantic

from heatcheck.attribution.registry import check_options, get_method
from heatcheck.benchmarks.shared_settings import check_fill, check_machine, load_methods
from heatcheck.metrics.boxes import Region, Threshold
from heatcheck.metrics.curves import Spacing
from heatcheck.metrics.localization import GroundTruth
from heatcheck.metrics.ordering import Ties
from heatcheck.metrics.pooling import POOLINGS, SIGNED

# The threshold where no held-out images choose one, as a fraction of a map's maximum.
DEFAULT_ALPHA = 0.15
# Grid of thresholds that are multiples of a map's mean (Fong & Vedaldi 2017).
MEAN_ALPHAS = tuple(round(0.5 * step, 1) for step in range(1, 21))


class Settings(pydantic.BaseModel):
    """Everything a run of this benchmark depends on; the chapter's parameters.

    Attributes:
        preset: Name of the preset, a label in every row.
        methods: Registered methods and variants.
        options: Options of methods, by method.
        shown_options: Options that differ on the shown images, which are larger.
        poolings: Pooling over channels, by method; each method has a default.
        plugins: Python files that register own methods or models; their methods are run with the others.
        shown: Data set that is shown image by image.
        shown_model: Its classifier.
        n_shown: How many images are shown.
        counted: Data set the statistics come from.
        counted_model: Its classifier.
        weights: Weights of torchvision and timm models, by model: a file, ``hub`` or ``random``.
        n_classes: Number of classes of such weights, by model, where it is not the model's default.
        n_images: How many images are counted.
        n_heldout: How many further images choose thresholds.
        fills: What replaces deleted pixels on the counted images; the first one is the headline.
        insertion_fill: What insertion starts from.
        ties: Order of equal pixels: ``stable``, ``random`` or ``mean``.
        step: Pixels changed per step; by default a twenty-eighth of the image.
        spacing: ``uniform`` steps, or ``exact`` fractions of the pixels.
        max_fraction: Share of the pixels changed in the end.
        threshold: What a box's threshold is a fraction of: ``max``, ``mean``, ``value`` or ``energy``.
        region: ``tight`` box, or that of the largest ``component`` (by area, or by relevance:
            ``component-mass``).
        ground_truth: ``best`` overlap with one true box, or with the ``union`` of all.
        strict: An object is found from an overlap of more than one half, instead of at least.
        seed: Seed of everything random.
        device: ``auto``, ``cpu``, ``cuda`` or ``cuda:<index>``.
        workers: Processes that compute when the device is a CPU; 0 is one per core.
        on: ``local``, or a Ray cluster: ``ray`` or ``ray://HOST:PORT``.
        memory: Extra memory routines may use, such as ``512MB``; None leaves it to the device.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    preset: str = "quick"
    methods: list[str]
    options: dict[str, dict[str, Any]] = {}
    shown_options: dict[str, dict[str, Any]] = {}
    poolings: dict[str, str] = {}
    plugins: list[str] = []
    shown: str = "photographs"
    shown_model: str = "efficientnet-lite0"
    n_shown: int = pydantic.Field(default=6, ge=1)
    counted: str = "metal-color"
    counted_model: str = "resnet8-metal-color"
    weights: dict[str, str] = {}
    n_classes: dict[str, int] = {}
    n_images: int = pydantic.Field(default=100, ge=2)
    n_heldout: int = pydantic.Field(default=100, ge=0)
    fills: list[str] = pydantic.Field(default=["zero"], min_length=1)
    insertion_fill: str = "blur"
    ties: Ties = "stable"
    step: int | None = pydantic.Field(default=None, ge=1)
    spacing: Spacing = "uniform"
    max_fraction: float = pydantic.Field(default=1.0, gt=0, le=1)
    threshold: Threshold = "max"
    region: Region = "tight"
    ground_truth: GroundTruth = "best"
    strict: bool = False
    seed: int = 0
    device: str = "auto"
    workers: int = pydantic.Field(default=1, ge=0)
    on: str = "local"
    memory: str | None = None


def check(settings: Settings) -> Settings:
    """``settings`` with the methods of their plug-ins, refused if they cannot run, before anything does.

    Raises:
        ValueError: A name, option or size is not allowed; the message says what is.
        PluginError: A plug-in cannot be used.
    """
    methods = load_methods(settings.methods, settings.plugins)
    # A preset may hold options of methods that are not run this time; a name that is no method is a mistake.
    for options in (settings.options, settings.shown_options):
        for name in dict.fromkeys([*methods, *options]):
            check_options(name, options.get(name, {}))
    for name, pooling in settings.poolings.items():
        get_method(name)
        if pooling not in (SIGNED, *POOLINGS):
            raise ValueError(f"unknown pooling {pooling!r}; known: {SIGNED}, {', '.join(POOLINGS)}")
    for fill in (*settings.fills, settings.insertion_fill):
        check_fill(fill)
    check_machine(settings.device, settings.memory, settings.on)
    return settings.model_copy(update={"methods": methods})


def pooling_of(settings: Settings, method: str) -> str:
    """How the channels of ``method`` are joined: the user's choice, else the method's default."""
    return settings.poolings.get(method, get_method(method).pooling)


def default_alpha(settings: Settings) -> float:
    """Threshold of the boxes where no held-out images choose one."""
    # Multiples of the mean and fractions of the maximum have different grids.
    return 1.0 if settings.threshold == "mean" else DEFAULT_ALPHA
