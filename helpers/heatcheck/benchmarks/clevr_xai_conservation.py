"""Do maps add up? Where the relevance of LRP ends, and how exactly integrated gradients integrate."""

from typing import Any

import pandas as pd
import torch

from heatcheck.attribution.baselines import RANDOM, BaselineOptions, make_baseline
from heatcheck.attribution.guard import untouched
from heatcheck.attribution.lrp_report import relevance_report
from heatcheck.attribution.passes import Query, forward_scores
from heatcheck.attribution.registry import get_method
from heatcheck.benchmarks.clevr_xai import Results, Shown, classifier_of
from heatcheck.benchmarks.clevr_xai_questions import KINDS, explain
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, method_options
from heatcheck.models.registry import Classifier
from heatcheck.runtime.seeds import CounterGenerator

IG = "integrated-gradients"
COLUMNS = ("method", "question", "score", "image", "words", "coordinates", "biases", "gap")
N_QUESTIONS = 3


def conservation_table(results: Results) -> pd.DataFrame:
    """Sums of the maps that are meant to add up, for a few correctly answered questions.

    Returns:
        Columns ``COLUMNS``, a row per method and question. ``score`` is what is shared: the logit for LRP,
        for integrated gradients its difference to the baseline's. The other columns are shares of it: of the
        image; for LRP of the question's words, of the cells' coordinates and of biases; and ``gap``, what is
        missing from or beyond the whole for integrated gradients.
    """
    kind = next(kind for kind in KINDS if kind in results.right)
    explained = _explained(results.right[kind], classifier_of(results.settings, kind, "cpu"))
    rows = []
    for name in results.settings.methods:
        options = results.settings.options.get(name, {})
        if get_method(name).family == "lrp":
            rows += _relevance(explained, MethodRequest(name, options))
        elif name == IG:
            rows.append(_integral(results.right[kind], explained, MethodRequest(name, options)))
    return pd.concat(rows, ignore_index=True)[list(COLUMNS)] if rows else pd.DataFrame(columns=list(COLUMNS))


def _explained(shown: Shown, classifier: Classifier) -> Explained:
    questions = shown.questions.take(range(min(N_QUESTIONS, len(shown.questions))))
    targets = torch.tensor(shown.answers["target"].to_numpy()[: len(questions)])
    return explain(questions, classifier, targets, torch.device("cpu"))


def _relevance(explained: Explained, request: MethodRequest) -> list[pd.DataFrame]:
    report = relevance_report(
        explained.classifier.module,
        explained.images,
        explained.data.targets,
        forward_args=explained.forward_args,
        method=request.name,
        **method_options(request, explained.classifier),
    )
    parts = (report.image, report.further_inputs, report.constants, report.absorbed)
    shares = [(part / report.start).detach().cpu().numpy() for part in parts]
    table = dict(zip(("image", "words", "coordinates", "biases"), shares, strict=True))
    scores = {"score": report.start.detach().cpu().numpy(), "gap": float("nan")}
    return [pd.DataFrame({"method": request.name, "question": _numbers(explained), **scores, **table})]


def _integral(shown: Shown, explained: Explained, request: MethodRequest) -> pd.DataFrame:
    options = method_options(request, explained.classifier)
    images = explained.images
    name: Any = options["baseline"]
    if options["squared"] or isinstance(name, tuple) or name in RANDOM:
        return pd.DataFrame(columns=list(COLUMNS))  # nothing that adds up, or no one score to compare with
    known = BaselineOptions(**{field: options[field] for field in BaselineOptions._fields})
    start = make_baseline(name, images, known, draw=0, generator=CounterGenerator.for_images(images))
    model = explained.classifier.module
    query = Query(model, images, explained.data.targets, explained.forward_args, options["output"])
    with untouched(model):
        score = forward_scores(query) - forward_scores(query._replace(images=start))
    total = shown.heatmaps[request.name][: len(images)].flatten(1).sum(1)
    shares = {"image": (total / score).numpy(), "gap": ((total - score).abs() / score.abs()).numpy()}
    empty = dict.fromkeys(("words", "coordinates", "biases"), float("nan"))
    fixed = {"method": request.name, "question": _numbers(explained), "score": score.numpy()}
    return pd.DataFrame({**fixed, **shares, **empty})


def _numbers(explained: Explained) -> list[str]:
    """Numbers of the questions, the last part of their ids."""
    return [name.rpartition("/")[2] for name in explained.data.ids]
