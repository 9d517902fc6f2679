"""From correct answers of all runs to one row per estimator: areas, RACU, intervals, corrected tests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.metrics.agreement import RankAgreement, agreement_of_draws
from heatcheck.metrics.paired_runs import bootstrap_p_values, resampled_run_means
from heatcheck.metrics.rank_stability import RankStability, rank_intervals, rank_stability
from heatcheck.metrics.resampling import quantiles
from heatcheck.metrics.retraining_curves import GRID, area_between, diff_roar, racu, whole_curves
from heatcheck.metrics.statistics import holm

Array = NDArray[np.float64]
Bits = NDArray[np.bool_]


@dataclass(frozen=True)
class Retrained:
    """Which test images every training run got right; run ``s`` and image ``n`` mean the same everywhere.

    Attributes:
        whole: ``(S, N)`` without removal, through the same pipeline.
        majority: ``(N,)`` whether the image belongs to the majority class of the training images.
        roar: Per estimator ``(P, S, N)`` with the top ``percents`` replaced.
        kar: Per estimator ``(P, S, N)`` with the top ``percents`` kept; may be empty.
        percents: Thresholds ``P`` in per cent.
    """

    whole: Bits
    majority: Bits
    roar: Mapping[str, Bits]
    kar: Mapping[str, Bits]
    percents: Sequence[int] = GRID

    def __post_init__(self) -> None:
        """Refuse tables that do not belong together."""
        shape = (len(self.percents), *self.whole.shape)
        for mode, tables in (("ROAR", self.roar), ("KAR", self.kar)):
            for name, table in tables.items():
                if table.shape != shape:
                    raise ValueError(
                        f"{mode} of {name} has shape {table.shape}; needed: {shape} "
                        "(thresholds, runs, images), the same runs and images as without removal"
                    )
        if self.whole.ndim != 2 or self.majority.shape != self.whole.shape[1:]:
            raise ValueError(
                f"need whole (runs, images) and majority (images,), got {self.whole.shape} "
                f"and {self.majority.shape}"
            )
        if self.kar and list(self.kar) != list(self.roar):
            raise ValueError(f"ROAR ran {list(self.roar)}, KAR {list(self.kar)}; pass the same estimators")


class EstimatorSummary(NamedTuple):
    """One quantity of one estimator against the reference.

    Attributes:
        estimator: Its name.
        quantity: ``RACU``, ``ABC ROAR``, ``ABC KAR`` or ``DiffROAR <percent>``.
        estimate: Value from all runs and images; positive is better than the reference, but DiffROAR, which
            compares an estimator with itself, is positive where the top outweighs the bottom.
        low: Lower end of the bootstrap interval over runs and images, whole curves at a time.
        high: Upper end.
        p_value: Two-sided, that the value is 0.
        p_holm: Corrected for all estimators of the quantity.
        rank: Among the estimators, 1 is best.
        rank_low: Lower end of the rank's interval.
        rank_high: Upper end.
    """

    estimator: str
    quantity: str
    estimate: float
    low: float
    high: float
    p_value: float
    p_holm: float
    rank: float
    rank_low: float
    rank_high: float


def estimator_summaries(
    retrained: Retrained,
    *,
    reference: str = "random",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> list[EstimatorSummary]:
    """RACU, both areas and DiffROAR of every estimator with paired intervals and Holm-corrected tests.

    Args:
        retrained: Correct answers.
        reference: Estimator that the others are compared with: the random ranking, or a matched control.
        level: Coverage of the intervals.
        n_resamples: Number of joint resamples of runs and images.
        seed: Seed of the draws.

    Raises:
        ValueError: The reference was not run, or there is no other estimator.
    """
    draws = _quantities(retrained, reference, n_resamples, seed)
    names = [name for name in retrained.roar if name != reference]
    return [
        summary
        for quantity, (values, samples) in draws.items()
        for summary in _summarize(names, quantity, values, samples, level)
    ]


def roar_kar_agreement(
    retrained: Retrained,
    estimators: Sequence[str] | None = None,
    *,
    reference: str = "random",
    level: float = 0.95,
    n_resamples: int = 2000,
    seed: int = 0,
) -> RankAgreement:
    """Do removing and keeping rank estimators alike? RACU against the KAR area, with intervals.

    Args:
        retrained: Correct answers of both modes.
        estimators: Those that count; by default all but the reference.
        reference: The random ranking.
        level: Coverage of the intervals.
        n_resamples: Number of joint resamples of runs and images.
        seed: Seed of the draws.

    Raises:
        ValueError: KAR was not run, an estimator was not, or there are fewer than two.
    """
    names = [name for name in retrained.roar if name != reference]
    chosen = names if estimators is None else list(estimators)
    if not retrained.kar or len(chosen) < 2 or not set(chosen) <= set(names):
        raise ValueError(
            f"need ROAR and KAR of two or more estimators, got {chosen}; run: {', '.join(names)} "
            f"({'both modes' if retrained.kar else 'ROAR only'})"
        )
    found = _quantities(retrained, reference, n_resamples, seed)
    columns = [names.index(name) for name in chosen]
    values, samples = zip(*(found[quantity] for quantity in ("RACU", "ABC KAR")), strict=True)
    return agreement_of_draws(
        *(value[columns] for value in values), *(sample[:, columns] for sample in samples), level=level
    )


def racu_stability(retrained: Retrained, *, reference: str = "random") -> RankStability:
    """Agreement of the RACU rankings of single runs.

    Raises:
        ValueError: There is only one run, or the reference was not run.
    """
    return rank_stability(run_scores(retrained, reference=reference)["RACU"])


def run_scores(retrained: Retrained, *, reference: str = "random") -> dict[str, Array]:
    """Every quantity of every run ``(S, M)``, estimators as in ``retrained.roar`` but for the reference.

    What spread over seeds, and with several explained models the two-level variance, is computed from.

    Raises:
        ValueError: The reference was not run.
    """
    single = [_point(_of_run(retrained, run), reference) for run in range(retrained.whole.shape[0])]
    return {quantity: np.stack([row[quantity] for row in single]) for quantity in single[0]}


def _of_run(retrained: Retrained, run: int) -> Retrained:
    roar, kar = (
        {name: table[:, [run]] for name, table in mode.items()} for mode in (retrained.roar, retrained.kar)
    )
    return Retrained(retrained.whole[[run]], retrained.majority, roar, kar, retrained.percents)


def _quantities(
    retrained: Retrained, reference: str, n_resamples: int, seed: int
) -> dict[str, tuple[Array, Array]]:
    """Per quantity its value ``(M,)`` and resamples ``(B, M)`` of all estimators but the reference."""
    values = _point(retrained, reference)
    # The majority class is a predictor too; each run of it is the same.
    majority = np.broadcast_to(retrained.majority, retrained.whole.shape)
    tables = [*retrained.roar.values(), *retrained.kar.values()]
    every = np.concatenate([retrained.whole[None], majority[None], *tables])
    draws = resampled_run_means(every, n_resamples=n_resamples, seed=seed)
    curves = draws[:, 2:].reshape(n_resamples, -1, len(retrained.roar), len(retrained.percents))
    modes = (curves[:, 0], curves[:, 1] if retrained.kar else None)
    ends = (draws[:, 0], draws[:, 1])
    samples = _compare(list(retrained.roar), reference, modes, ends, retrained.percents)
    return {quantity: (values[quantity], samples[quantity]) for quantity in samples}


def _point(retrained: Retrained, reference: str) -> dict[str, Array]:
    ends = [np.asarray(table.mean()) for table in (retrained.whole, retrained.majority)]
    modes = [
        np.stack([table.mean((1, 2)) for table in mode.values()]) if mode else None
        for mode in (retrained.roar, retrained.kar)
    ]
    return _compare(list(retrained.roar), reference, modes, ends, retrained.percents)


def _compare(
    names: list[str],
    reference: str,
    modes: Sequence[Array | None],
    ends: Sequence[Array],
    percents: Sequence[int],
) -> dict[str, Array]:
    """Per quantity ``(..., M)`` from accuracies ``(..., M + 1, P)`` and their ends ``(...)``."""
    roar, kar = modes
    if reference not in names or len(names) < 2 or roar is None:
        raise ValueError(
            f"need reference {reference!r} and another estimator; run: {', '.join(names) or 'none'}"
        )
    base = names.index(reference)
    others = [place for place in range(len(names)) if place != base]
    whole, chance = (end[..., None] for end in ends)
    x, curves = whole_curves(roar, whole, chance, percents)
    random, rest = curves[..., [base], :], curves[..., others, :]
    found = {"RACU": racu(x, random, rest, chance), "ABC ROAR": area_between(x, random, rest)}
    if kar is None:
        return found
    x, curves = whole_curves(kar, chance, whole, percents)
    found["ABC KAR"] = area_between(x, curves[..., others, :], curves[..., [base], :])
    if [100 - percent for percent in reversed(percents)] == list(percents):
        differences = diff_roar(kar[..., others, :], roar[..., others, :], percents)
        found |= {f"DiffROAR {percent}": differences[..., place] for place, percent in enumerate(percents)}
    return found


def _summarize(
    names: list[str], quantity: str, values: Array, samples: Array, level: float
) -> list[EstimatorSummary]:
    low, high = quantiles(samples, level)
    p_values = bootstrap_p_values(samples)
    ranks = rank_intervals(values, samples, best="high", level=level)
    columns = (values, low, high, p_values, holm(p_values), ranks.rank, ranks.low, ranks.high)
    return [
        EstimatorSummary(name, quantity, *(float(column[place]) for column in columns))
        for place, name in enumerate(names)
    ]
