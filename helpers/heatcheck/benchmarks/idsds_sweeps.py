"""Runs beside the main one: other noise, other baselines, another profile, another output, one model each."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from heatcheck.benchmarks import idsds
from heatcheck.benchmarks.idsds import Results, Settings
from heatcheck.benchmarks.idsds_methods import Profile, study_row
from heatcheck.benchmarks.idsds_scores import Outputs, Score, single_score, without_twins
from heatcheck.benchmarks.idsds_settings import Variant, main_model
from heatcheck.benchmarks.idsds_tables import difference_interval, score_table
from heatcheck.metrics.resampling import mean_intervals
from heatcheck.runtime.store import ResultsStore

# Smoothed methods with the method that they smooth.
SMOOTHED: Mapping[str, str] = {
    "ixg-smoothgrad": "input-x-gradient",
    "ig-smoothgrad": "integrated-gradients",
}
# Tables never mix profiles, so the other one has a run of its own.
OTHER_PROFILE: Mapping[Profile, Profile] = {"reference": "corrected", "corrected": "reference"}
PATH, UNIFORM = "integrated-gradients", "ig-uniform"
FIXED_BASELINES = ("black", "white", "blur")
_ENDS = ("mean", "low", "high")


def side_run(
    settings: Settings,
    store: ResultsStore,
    methods: Sequence[str],
    *,
    n_images: int,
    variants: Mapping[str, Variant] | None = None,
    profile: Profile | None = None,
    seed: int | None = None,
    softmax: bool = False,
) -> Results | None:
    """Another run of the first detailed model after fine-tuning; None without methods.

    What it shares with the main run is not computed again.

    Args:
        settings: Of the main run.
        store: Where finished cells are found and kept.
        methods: Methods to run.
        n_images: How many images of the main run, at most.
        variants: Further methods by names of their own.
        profile: Another profile.
        seed: Another seed.
        softmax: Also explain the probability.

    Raises:
        ValueError: The main run has no detailed model, or as in ``idsds.run``.
    """
    if not methods:
        return None
    model = main_model(settings)
    changes: dict[str, Any] = {
        "methods": list(methods),
        "variants": dict(variants or {}),
        "models": [model],
        "tuned": {name: tuned for name, tuned in settings.tuned.items() if name == model},
        "n_images": min(n_images, settings.n_images),
        "n_train": 0,
        "detailed": [model] if softmax else [],
        "compared": None,
        "originals": "none",
        "softmax": softmax,
        **{name: [] for name in ("grids", "fills", "set_sizes", "incremental", "updated")},
    }
    optional = {"profile": profile, "seed": seed}
    changes |= {name: value for name, value in optional.items() if value is not None}
    return idsds.run(settings.model_copy(update=changes), store)


def side_score(results: Results) -> Score:
    """Headline score of the one model of a side run."""
    return single_score(results.final(results.settings.models[0]), results.headline)


def noise_variants(scales: Sequence[float]) -> dict[str, Variant]:
    """The smoothed methods at several standard deviations of the noise, by name."""
    return {
        noise_name(method, scale): Variant(
            method=method, options={"noise": "absolute", "noise_scale": float(scale)}
        )
        for method in SMOOTHED
        for scale in scales
    }


def noise_name(method: str, scale: float) -> str:
    """Name of a smoothed method at one standard deviation of the noise."""
    return f"{method}, std {scale:g}"


def noise_table(results: Results | None, scales: Sequence[float], *, seed: int = 0) -> pd.DataFrame:
    """Scores of smoothed methods by the noise, with the unsmoothed ones as noise 0.

    Args:
        results: Of a run with ``noise_variants(scales)``; None gives no row.
        scales: Standard deviations in the space of the model's inputs.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``method, base, row, transform, noise, mean, low, high, difference, difference_low,
        difference_high, n``; the difference is to the unsmoothed method, paired over images.
    """
    rows = []
    score = None if results is None else side_score(results)
    for method, base in SMOOTHED.items():
        for transform in ("raw", "abs"):
            if score is None or (base, transform) not in score.values:
                continue
            plain = score.values[base, transform].to_numpy(dtype=float)
            for scale in (0.0, *sorted(scales)):
                name = base if scale == 0 else noise_name(method, scale)
                if (name, transform) not in score.values:
                    continue
                values = score.values[name, transform].to_numpy(dtype=float)
                fixed = {"method": method, "base": base, "row": study_row(method, transform)}
                fixed |= {"transform": transform}
                rows.append({**fixed, "noise": float(scale), **compared(values, plain, seed=seed)})
    columns = ["method", "base", "row", "transform", "noise", *_ENDS, *_DIFFERENCE, "n"]
    return pd.DataFrame(rows, columns=columns)


def baseline_variants(scales: Sequence[float]) -> dict[str, Variant]:
    """Integrated gradients from further baselines, by name."""
    shared = {"baseline": "uniform", "shared_noise": True}
    return {
        **{f"uniform ±{scale:g}": _path(noise_scale=float(scale), **shared) for scale in scales},
        **{name: _path(baseline=name) for name in FIXED_BASELINES},
    }


def baseline_table(
    results: Results | None, by_seed: Mapping[int, Results | None], *, seed: int = 0
) -> pd.DataFrame:
    """Scores of integrated gradients by the baseline, and by the seed of the uniform one.

    Args:
        results: Of a run with ``baseline_variants``, where the first method is from zero; None: no row.
        by_seed: Runs of ``ig-uniform`` with other seeds.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``label, transform, mean, low, high, difference, difference_low, difference_high, n``; the
        difference is to the baseline zero, paired over images.
    """
    rows: list[dict[str, Any]] = []
    if results is not None:
        score = side_score(results)
        columns = {name: _baseline_label(name) for name in dict.fromkeys(name for name, _ in score.columns)}
        tables = [(label, score, name) for name, label in columns.items() if name != UNIFORM]
        tables += [
            (f"uniform ±1, seed {number}", side_score(one), UNIFORM)
            for number, one in by_seed.items()
            if one is not None
        ]
        for transform in ("raw", "abs"):
            if (PATH, transform) not in score.values:
                continue
            plain = score.values[PATH, transform].to_numpy(dtype=float)
            for label, own, name in tables:
                values = own.values[name, transform].to_numpy(dtype=float)
                rows.append({"label": label, "transform": transform, **compared(values, plain, seed=seed)})
    return pd.DataFrame(rows, columns=["label", "transform", *_ENDS, *_DIFFERENCE, "n"])


def profile_table(results: Results | None, *, seed: int = 0) -> pd.DataFrame:
    """A ``score_table`` of a side run with names and intervals as text, the best on top; None: no row."""
    if results is None:
        return pd.DataFrame(columns=["row", "profile", "mean", "low", "high", "n", "n_excluded"])
    table = score_table([side_score(results)], profile=results.settings.profile, seed=seed)
    table = table[table["row"] != ""]
    return table.sort_values("mean", ascending=False, na_position="last", kind="stable")


def output_table(results: Results | None, *, seed: int = 0) -> pd.DataFrame:
    """Scores when the logit is explained and dropped, the probability, or only dropped the probability.

    Args:
        results: Of a run with ``softmax``; None gives no row.
        seed: Seed of the bootstrap.

    Returns:
        Columns ``method, transform, output, mean, low, high, difference, difference_low, difference_high,
        n``; the difference is to the logit, paired over images.
    """
    rows = []
    if results is not None:
        subject = results.final(results.settings.models[0])
        logit = single_score(subject, results.headline)
        plain, kept = logit.values, set(without_twins(logit).columns)
        outputs: tuple[Outputs, ...] = ("logit", "probability", "drop")
        for output in outputs:
            score = single_score(subject, results.headline, output=output)
            for method, transform in score.columns:
                if (method, transform) not in kept:
                    continue
                values = score.values[method, transform].to_numpy(dtype=float)
                base = plain[method, transform].to_numpy(dtype=float)
                fixed = {"method": method, "transform": transform, "output": output}
                rows.append({**fixed, **compared(values, base, seed=seed)})
    return pd.DataFrame(rows, columns=["method", "transform", "output", *_ENDS, *_DIFFERENCE, "n"])


_DIFFERENCE = ("difference", "difference_low", "difference_high")


def compared(values: np.ndarray, plain: np.ndarray, *, seed: int) -> dict[str, float | int]:
    """Mean of ``values`` ``(N,)`` and its paired difference to ``plain``, each with its interval."""
    ends = [float(part[0]) for part in mean_intervals(values[:, None], n_resamples=1000, seed=seed)]
    found = difference_interval(values, plain, seed=seed)
    named = dict(zip((*_ENDS, *_DIFFERENCE), (*ends, *found[:3]), strict=True))
    return {**named, "n": int((~np.isnan(values)).sum())}


def _path(**options: Any) -> Variant:
    return Variant(method=PATH, options=options)


def _baseline_label(name: str) -> str:
    return "zero" if name == PATH else name
