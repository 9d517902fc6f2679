"""What a comparison of the benchmarks depends on, and the settings it gives to each of them."""

from collections.abc import Mapping
from typing import Any

import pydantic

from heatcheck.attribution.estimator_protocols import CONTROLS
from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.attribution.registry import METHODS, check_options
from heatcheck.benchmarks import clevr_xai, deletion, idsds, roar
from heatcheck.benchmarks.comparison_columns import BENCHMARKS, Benchmark
from heatcheck.benchmarks.idsds_methods import STUDY
from heatcheck.benchmarks.roar_settings import KNOWING
from heatcheck.benchmarks.shared_settings import (
    check_different,
    check_machine,
    load_methods,
    registered_by,
)
from heatcheck.runtime.plugins import added_by, plugins_behind

Own = dict[str, Any]
# Names that mean something else in one of the benchmarks.
_TAKEN = frozenset({*ESTIMATORS, *KNOWING})
# What the comparison decides for all benchmarks alike.
_COMMON = ("preset", "methods", "options", "plugins", "seed", "device", "workers", "on", "memory")
_DECIDED: Mapping[Benchmark, tuple[str, ...]] = {
    "clevr_xai": (*_COMMON, "variants", "n_controls", "n_wrong"),
    "deletion": (*_COMMON, "counted_model", "shown", "shown_model", "shown_options", "n_shown"),
    "idsds": (*_COMMON, "models", "tuned", "detailed", "compared", "originals", "incremental", "profile"),
    "roar": (*_COMMON, "estimators"),
}
_MODELS: Mapping[Benchmark, type[pydantic.BaseModel]] = {
    "clevr_xai": clevr_xai.Settings,
    "deletion": deletion.Settings,
    "idsds": idsds.Settings,
    "roar": roar.Settings,
}


class Settings(pydantic.BaseModel):
    """Everything a comparison depends on; the chapter's parameters.

    Attributes:
        preset: Name of the preset, a label in every row.
        methods: Registered methods and controls; ``random`` is always among them.
        options: Options of methods, by method, the same in every benchmark.
        plugins: Python files that register own methods or models; their methods are run with the others,
            or those of a file that ``methods`` names.
        benchmarks: Which benchmarks are run.
        classifiers: Classifiers of images that deletion and single deletion explain, the main one first.
        tuned: For a classifier, the same one after fine-tuning with patch deletion.
        clevr_xai: Further settings of CLEVR-XAI alone, such as ``{"n_simple": 64}``.
        deletion: Further settings of the deletion benchmark alone.
        idsds: Further settings of the single-deletion benchmark alone.
        roar: Further settings of remove and retrain alone.
        seeds: Seeds of stochastic methods; with those after the first, the main classifiers are explained
            again in every benchmark but remove and retrain.
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
    benchmarks: list[Benchmark] = pydantic.Field(default=list(BENCHMARKS), min_length=1)
    classifiers: list[str] = pydantic.Field(default=["small/resnet8"], min_length=1)
    tuned: dict[str, str] = {"small/resnet8": "small/resnet8-tuned"}
    clevr_xai: Own = {}
    deletion: Own = {}
    idsds: Own = {}
    roar: Own = {}
    seeds: list[int] = pydantic.Field(default=[0], min_length=1)
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
    named = list(dict.fromkeys([*settings.methods, "random"]))
    check_different("methods", settings.methods)
    check_different("benchmarks", settings.benchmarks)
    check_different("classifiers", settings.classifiers)
    check_different("seeds", settings.seeds)
    methods = load_methods(named, settings.plugins)
    for name in dict.fromkeys([*methods, *settings.options]):
        check_options(name, settings.options.get(name, {}))
    if taken := [
        name for name in methods if name in _TAKEN or (name in STUDY and plugins_behind(METHODS[name]))
    ]:
        raise ValueError(
            f"{', '.join(taken)}: the single-deletion study or remove and retrain calls something of its own "
            "so; register the method under another name"
        )
    for benchmark in BENCHMARKS:
        _check_own(benchmark, getattr(settings, benchmark))
    check_machine(settings.device, settings.memory, settings.on)
    return settings.model_copy(update={"methods": methods})


def options_of(settings: Settings, method: str) -> dict[str, Any]:
    """All options of ``method``, those not given at their defaults, so that no benchmark has its own."""
    return check_options(method, settings.options.get(method, {}))


def clevr_settings(settings: Settings, methods: list[str], *, seed: int) -> clevr_xai.Settings:
    """Settings of CLEVR-XAI for ``methods``: no variants, control experiments or wrong answers."""
    few: Own = {"n_complex": 0, "variants": [], "n_controls": 0, "n_wrong": 0}
    return clevr_xai.Settings(**_common(settings, methods, seed), **few | settings.clevr_xai)


def deletion_settings(
    settings: Settings, classifier: str, methods: list[str], *, seed: int
) -> deletion.Settings:
    """Settings of the deletion benchmark for ``methods`` that explain ``classifier``."""
    data = settings.deletion.get("counted", "metal-color")
    shown: Own = {"counted_model": classifier, "shown": data, "shown_model": classifier, "n_shown": 1}
    return deletion.Settings(**_common(settings, methods, seed), **shown | settings.deletion)


def idsds_settings(settings: Settings, classifier: str, methods: list[str], *, seed: int) -> idsds.Settings:
    """Settings of single and incremental deletion for ``methods`` that explain ``classifier``.

    The profile is the one in which a method is what its name says.
    """
    own: Own = {"models": [classifier], "incremental": methods, "profile": "corrected"}
    if classifier in settings.tuned:
        own["tuned"] = {classifier: settings.tuned[classifier]}
    return idsds.Settings(**_common(settings, methods, seed), **own | settings.idsds)


def roar_settings(settings: Settings, methods: list[str]) -> roar.Settings:
    """Settings of remove and retrain for ``methods``; the rankings of its own controls have no options."""
    common = _common(settings, methods, settings.seeds[0])
    options = {name: own for name, own in common.pop("options").items() if name not in CONTROLS}
    return roar.Settings(estimators=common.pop("methods"), options=options, **common, **settings.roar)


def _common(settings: Settings, methods: list[str], seed: int) -> Own:
    return {
        "preset": settings.preset,
        "methods": methods,
        "options": {name: options_of(settings, name) for name in methods},
        "plugins": _plugins(settings, methods),
        "seed": seed,
        "device": settings.device,
        "workers": settings.workers,
        "on": settings.on,
        "memory": settings.memory,
    }


def _plugins(settings: Settings, methods: list[str]) -> list[str]:
    """Plug-in files without those whose methods a benchmark cannot take: it would add them.

    Raises:
        ValueError: Such a file registers a model or a fill too, which the benchmark may need.
    """
    kept = []
    for path in settings.plugins:
        own = registered_by(path)
        if not own or set(own) & set(methods):
            kept.append(path)
        elif len(added_by(path)) > len(own):
            raise ValueError(
                f"a benchmark cannot take {', '.join(own)} of {path}, which registers a model or fill too; "
                "put methods and models in files of their own"
            )
    return kept


def _check_own(benchmark: Benchmark, own: Mapping[str, Any]) -> None:
    decided = [name for name in own if name in _DECIDED[benchmark]]
    allowed = [name for name in _MODELS[benchmark].model_fields if name not in _DECIDED[benchmark]]
    if decided:
        raise ValueError(
            f"{benchmark} sets {', '.join(decided)}, which the comparison decides for all benchmarks alike"
        )
    if unknown := [name for name in own if name not in allowed]:
        raise ValueError(f"{benchmark} sets {', '.join(unknown)}; allowed: {', '.join(allowed)}")
