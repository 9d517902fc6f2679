"""What a run of the CLEVR-XAI benchmark depends on, and whether it can run."""

from pathlib import Path
from typing import Any, Literal

import pydantic

from heatcheck.attribution.registry import METHODS, check_options
from heatcheck.benchmarks.clevr_xai_questions import GROUND_TRUTHS_OF, KINDS
from heatcheck.benchmarks.clevr_xai_variants import VARIANTS
from heatcheck.benchmarks.shared_settings import check_machine, load_methods
from heatcheck.data.clevr.ground_truth import Kind
from heatcheck.metrics.pooling import POOLINGS

ALL_GROUND_TRUTHS = tuple(dict.fromkeys(name for names in GROUND_TRUTHS_OF.values() for name in names))
# The paper's ten methods, each with the registered methods that are its variants (Arras et al. 2022).
PAPER_METHODS: dict[str, tuple[str, ...]] = {
    "LRP": ("lrp",),
    "Integrated Gradients": ("integrated-gradients", "integrated-gradients-squared"),
    "Guided Backprop": ("guided-backprop", "guided-backprop-squared"),
    "Guided Grad-CAM": ("guided-grad-cam",),
    "SmoothGrad": ("smoothgrad", "smoothgrad-squared"),
    "VarGrad": ("vargrad",),
    "Gradient": ("gradient", "gradient-squared"),
    "Gradient x Input": ("input-x-gradient", "input-x-gradient-squared"),
    "Deconvnet": ("deconvnet", "deconvnet-squared"),
    "Grad-CAM": ("grad-cam",),
}


class Settings(pydantic.BaseModel):
    """Everything a run of this benchmark depends on; the chapter's parameters.

    Attributes:
        preset: Name of the preset, a label in every row.
        methods: Registered methods and variants.
        options: Options of methods, by method.
        plugins: Python files that register own methods or models; their methods are run with the others.
        data: ``embedded`` scenes, the ``release`` that the environment variable names, or another folder that
            is laid out like it.
        model: The model that answers.
        complex_model: The model that answers complex questions, where it is another one.
        weights: File of weights of the relation network that are used instead of those of ``model``.
        n_simple: Most correctly answered simple questions that are explained; 0 leaves them out.
        n_complex: The same for complex questions.
        n_asked: Most questions of each kind that are asked.
        ground_truths: Which masks count, as far as a kind of question has them.
        first: Whether the first non-empty set of a comparison follows the published code or both branches.
        masks: ``stored`` masks where the data has them, or ``computed`` from object masks and programs.
        drop_exist_no: Leave out complex questions about existence whose answer is no.
        fixed_pooling: The one pooling that all methods share where the best is not chosen.
        variants: Groups of variants that are compared with the main setting of their method.
        n_variants: How many questions that comparison takes.
        noise_scales: Grid of noise levels of the smoothing methods.
        noise_samples: Grid of numbers of noisy copies.
        n_controls: How many questions the control experiments take; 0 leaves them out.
        n_wrong: Most wrongly answered questions that are looked at.
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
    plugins: list[str] = []
    data: str = "embedded"
    model: str = "relation-network"
    complex_model: str | None = None
    weights: str | None = None
    n_simple: int = pydantic.Field(default=64, ge=0)
    n_complex: int = pydantic.Field(default=60, ge=0)
    n_asked: int = pydantic.Field(default=256, ge=1)
    ground_truths: list[str] = pydantic.Field(default=list(ALL_GROUND_TRUTHS), min_length=1)
    first: Literal["published", "both-branches"] = "published"
    masks: Literal["stored", "computed"] = "stored"
    drop_exist_no: bool = False
    fixed_pooling: str = "max-norm"
    variants: list[str] = []
    n_variants: int = pydantic.Field(default=24, ge=2)
    noise_scales: list[float] = [0.05, 0.1, 0.2]
    noise_samples: list[int] = [4, 16]
    n_controls: int = pydantic.Field(default=12, ge=0)
    n_wrong: int = pydantic.Field(default=6, ge=0, le=32)
    seed: int = 0
    device: str = "auto"
    workers: int = pydantic.Field(default=1, ge=0)
    on: str = "local"
    memory: str | None = None

    def n_questions(self, kind: Kind) -> int:
        """Most questions of ``kind`` that are explained."""
        return self.n_simple if kind == "simple" else self.n_complex

    def model_of(self, kind: Kind) -> str:
        """Model that answers questions of ``kind``."""
        return self.complex_model or self.model if kind == "complex" else self.model

    def masks_of(self, kind: Kind) -> tuple[str, ...]:
        """Names of the ground truths that are scored for questions of ``kind``."""
        return tuple(name for name in GROUND_TRUTHS_OF[kind] if name in self.ground_truths)


def check(settings: Settings) -> Settings:
    """``settings`` with the methods of their plug-ins, refused if they cannot run, before anything does.

    Raises:
        ValueError: A name, option or size is not allowed; the message says what is.
        PluginError: A plug-in cannot be used.
    """
    methods = load_methods(settings.methods, settings.plugins)
    for name in dict.fromkeys([*methods, *settings.options]):
        check_options(name, settings.options.get(name, {}))
    _check_names("ground truth", settings.ground_truths, ALL_GROUND_TRUTHS)
    _check_names("pooling", [settings.fixed_pooling], tuple(POOLINGS))
    _check_names("variants", settings.variants, tuple(VARIANTS))
    if not settings.n_simple + settings.n_complex:
        raise ValueError("n_simple and n_complex are both 0; ask for some questions")
    for kind in KINDS:
        if settings.n_questions(kind) and not settings.masks_of(kind):
            raise ValueError(
                f"ground_truths {settings.ground_truths} hold none of {kind} questions "
                f"({', '.join(GROUND_TRUTHS_OF[kind])}); name one, or set n_{kind}=0"
            )
    if settings.weights is not None and not Path(settings.weights).is_file():
        raise ValueError(
            f"weights {settings.weights!r} is no file; give a safetensors file of {settings.model!r}"
        )
    if settings.weights is not None and settings.complex_model is not None:
        raise ValueError("weights belong to one model; leave complex_model out, or ask one kind of questions")
    if settings.first == "both-branches" and settings.masks == "stored":
        raise ValueError("stored masks follow first='published'; choose masks='computed' for both branches")
    check_machine(settings.device, settings.memory, settings.on)
    return settings.model_copy(update={"methods": methods})


def paper_method(method: str) -> str:
    """The paper's name for ``method``, or what it is a variant of, or its own name."""
    for name, members in PAPER_METHODS.items():
        if method in members:
            return name
    return METHODS[method].variant_of or method if method in METHODS else method


def _check_names(what: str, names: list[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"unknown {what} {name!r}; known: {', '.join(known)}")
