"""From raw heatmaps to relevance mass and rank accuracy, with every pooling and ground truth."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from heatcheck.data.clevr.batch import VisualQuestions
from heatcheck.metrics.flags import Flags, map_flags
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pooling import POOLINGS, pool

MASS, RANK, TIES = "relevance-mass", "relevance-rank", "tie-interval"
METRICS = (MASS, RANK)
COLUMNS = ("question", "ground_truth", "metric", "flag", *POOLINGS)
# Poolings that give the same map where no value is negative.
_WITHOUT_SIGN = {
    "sum,abs": "l1-norm",
    "sum,pos": "l1-norm",
    "pos,sum": "l1-norm",
    "pos,max-norm": "max-norm",
    "pos,l2-norm": "l2-norm",
    "pos,l2-norm,sq": "l2-norm,sq",
}


def score_heatmaps(
    heatmaps: Tensor, questions: VisualQuestions, ground_truths: Sequence[str]
) -> pd.DataFrame:
    """Mass and rank accuracy of each map for each ground truth that its question has.

    Args:
        heatmaps: ``(N, C, H, W)`` raw.
        questions: What was explained, with masks of the heatmaps' size.
        ground_truths: Which masks.

    Returns:
        Columns ``COLUMNS``: one row per question, ground truth and metric, one column per pooling, so that a
        hundred thousand questions stay a table that fits memory. ``relevance-mass`` and ``relevance-rank``
        are in [0, 1], NaN where the pooled map is zero everywhere or not finite; ``tie-interval`` is the
        width of the interval that equal pixels leave to the rank. ``flag`` is that of the raw map.
    """
    maps = heatmaps.cpu()
    flags = map_flags(maps.flatten(1, 2), empty="zero")
    shape = (len(METRICS) + 1, len(ground_truths), len(maps))
    values = {name: torch.full(shape, torch.nan, dtype=torch.float64) for name in POOLINGS}
    signed = bool((maps < 0).any())
    for name in POOLINGS:
        same = name if signed else _WITHOUT_SIGN.get(name, name)
        if same != name:
            continue
        pooled = pool(maps, name)
        for place, truth in enumerate(ground_truths):
            rows = questions.defined[truth]
            values[name][:, place, rows] = _scores(pooled[rows], questions.masks[truth][rows])
    if not signed:
        values |= {name: values[same] for name, same in _WITHOUT_SIGN.items()}
    return _table(values, questions, ground_truths, flags)


def _scores(maps: Tensor, masks: Tensor) -> Tensor:
    """Mass, rank and width of the rank's tie interval ``(3, n)``."""
    rank = relevance_rank(maps, masks)
    return torch.stack([relevance_mass(maps, masks).values, rank.values, rank.highest - rank.lowest])


def _table(
    values: dict[str, Tensor], questions: VisualQuestions, ground_truths: Sequence[str], flags: Flags
) -> pd.DataFrame:
    """Rows of the questions that have the ground truth, metric by metric."""
    parts = []
    for place, truth in enumerate(ground_truths):
        rows = questions.defined[truth].numpy()
        names = np.array(questions.ids, dtype=object)[rows]
        for row, metric in enumerate((*METRICS, TIES)):
            columns = {name: table[row, place].numpy()[rows] for name, table in values.items()}
            fixed = {"question": names, "ground_truth": truth, "metric": metric}
            parts.append(pd.DataFrame({**fixed, "flag": flags[rows], **columns}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(COLUMNS))
