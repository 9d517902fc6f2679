"""Which published statements about removing and retraining a run bears out: answers from intervals."""

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from heatcheck.attribution.estimators import ESTIMATORS
from heatcheck.benchmarks.findings import Answer, Finding, decide
from heatcheck.benchmarks.roar import Results
from heatcheck.benchmarks.roar_claims import BOOK, ROAD, Claim, Point, all_claims
from heatcheck.benchmarks.roar_conditions import label
from heatcheck.benchmarks.roar_tables import RANDOM, Bits, agreement_table, bits_of
from heatcheck.metrics.leakage import leak_estimates
from heatcheck.metrics.paired_runs import resampled_run_means
from heatcheck.metrics.resampling import quantiles


def roar_findings(results: Results, *, seed: int = 0) -> list[Finding]:
    """Answers to all statements whose conditions were run, with intervals over runs and images."""
    claims = [claim for claim in all_claims(results.settings) if _was_run(results, claim.points)]
    found = [_answer(results, claim, seed) for claim in claims]
    return [*found, *_agreements(results, seed), *_leaks(results, seed)]


def separation_table(results: Results, table: pd.DataFrame) -> pd.DataFrame:
    """How many pooled standard deviations over runs estimators lie below the random ranking.

    Args:
        results: Of a run.
        table: Its ``condition_table``.

    Returns:
        Columns ``ranking, label, percent, below`` (random minus estimator), ``pooled_std`` and ``ratio``;
        no row for one run.
    """
    own = (table["way"] == "scratch") & (table["mode"] == "roar") & (table["fill"] == results.settings.fill)
    rows = table[own & (table["checkpoint"] == 0) & (table["percent"] > 0) & (table["n_runs"] > 1)]
    random = rows[rows["ranking"] == RANDOM].set_index("percent")
    rows = rows[rows["ranking"].isin(ESTIMATORS)]
    reference = random.reindex(rows["percent"])
    below = reference["mean"].to_numpy() - rows["mean"].to_numpy()
    pooled = np.sqrt((reference["std"].to_numpy() ** 2 + rows["std"].to_numpy() ** 2) / 2)
    ratio = np.divide(below, pooled, out=np.full(len(below), np.nan), where=pooled > 0)
    kept = rows[["ranking", "label", "percent"]]
    return kept.assign(below=below, pooled_std=pooled, ratio=ratio).reset_index(drop=True)


def _was_run(results: Results, points: Sequence[Point]) -> bool:
    try:
        return bool(points) and all(_bits(results, point).size for point in points)
    except KeyError:
        return False


def _bits(results: Results, point: Point) -> Bits:
    return bits_of(results, point.ranking, point.mode, point.percent, way=point.way)


def _answer(results: Results, claim: Claim, seed: int) -> Finding:
    bits = [_bits(results, point) for point in claim.points]
    n_runs = max(len(part) for part in bits)
    # A network that was not retrained answers the same in every run.
    every = np.stack([np.broadcast_to(part, (n_runs, part.shape[1])) for part in bits])
    gaps = claim.value(every.mean((1, 2)))  # (G,)
    ends = quantiles(claim.value(resampled_run_means(every, seed=seed)), 0.95)
    # All must bear the statement out, so the weakest one speaks for them.
    estimate, low, high = (float(part.min()) for part in (gaps, *ends))
    answer = _alike(low, high, claim.margin) if claim.margin else decide(low, high, supports="positive")
    text = (claim.key, claim.text, claim.source)
    return Finding(*text, answer, claim.quantity, estimate, low, high, every.shape[2])


def _alike(low: float, high: float, margin: float) -> Answer:
    """Whether an interval lies within a margin of zero, or wholly outside."""
    if -margin < low and high < margin:
        return "yes"
    return "no" if low > margin or high < -margin else "undecided"


def _agreements(results: Results, seed: int) -> Iterator[Finding]:
    table = agreement_table(results, seed=seed)
    for row in table[table["percent"].isna()].to_dict("records"):
        if row["n"] >= 3:
            ends = (row["spearman_low"], row["spearman_high"])
            yield Finding(
                "roar_against_kar",
                "ROAR and KAR rank the model-based estimators in opposite directions.",
                BOOK,
                decide(*ends, supports="negative"),
                "Spearman's rho of RACU and the KAR area",
                row["spearman"],
                *ends,
                len(results.data.images.test),
            )


def _leaks(results: Results, seed: int) -> Iterator[Finding]:
    """Is a network that sees masks alone better than chance?"""
    settings, n_classes = results.settings, len(results.data.images.classes)
    end = max(settings.extra_percents or settings.percents)
    for name in settings.leaks if "roar" in settings.modes else []:
        bits = bits_of(results, name, "roar", end, way="leak")
        found = leak_estimates(bits, np.zeros(bits.shape), n_classes, seed=seed)
        score = next(one for one in found if one.quantity == "leak_score")
        yield Finding(
            f"mask_leaks_{name}".replace("-", "_"),
            f"The masks of {label(name)} alone tell the class better than chance, at {end} %.",
            ROAD,
            decide(score.low, score.high, supports="positive"),
            "leak score: 0 at chance, 1 for every class found",
            score.estimate,
            score.low,
            score.high,
            bits.shape[1],
        )
