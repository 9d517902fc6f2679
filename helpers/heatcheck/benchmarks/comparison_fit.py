"""Which methods a benchmark can take, found out by asking each for the heatmap of one image."""

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heatcheck.attribution.registry import attribute
from heatcheck.benchmarks.clevr_xai import classifier_of
from heatcheck.benchmarks.clevr_xai_questions import KINDS, MaskSource, explain, open_questions
from heatcheck.benchmarks.comparison_columns import Benchmark
from heatcheck.benchmarks.comparison_settings import (
    Settings,
    clevr_settings,
    deletion_settings,
    idsds_settings,
    options_of,
    roar_settings,
)
from heatcheck.benchmarks.heatmaps import Explained, MethodRequest, method_options, prepare
from heatcheck.benchmarks.idsds_images import load_sample
from heatcheck.benchmarks.roar_data import data_key, load_data
from heatcheck.benchmarks.roar_settings import recipe_of
from heatcheck.benchmarks.sources import Sizes, load_images
from heatcheck.data.batch import LabelledImages
from heatcheck.models.catalog import get_classifier
from heatcheck.models.networks import network_builder
from heatcheck.models.registry import Classifier
from heatcheck.runtime.device import choose_device
from heatcheck.runtime.seeds import CounterGenerator, content_ids

Reasons = Mapping[str, str]


class Fit(NamedTuple):
    """What a benchmark does with the methods of a comparison.

    Attributes:
        methods: Those it takes, in the order of the settings.
        refused: Why it cannot take the others, by method.
    """

    methods: list[str]
    refused: Reasons


def fit(settings: Settings, benchmark: Benchmark, classifier: str) -> Fit:
    """Which methods of ``settings`` can explain the model of a benchmark.

    Args:
        settings: Checked settings.
        benchmark: Name of the benchmark.
        classifier: Classifier of images that deletion and single deletion explain; the others have their own.

    Raises:
        ValueError: The benchmark's own settings are not allowed.
    """
    example = _EXAMPLES[benchmark](settings, classifier)
    refused = {}
    for name in settings.methods:
        if reason := _refusal(settings, name, example):
            refused[name] = reason
    return Fit([name for name in settings.methods if name not in refused], refused)


def _refusal(settings: Settings, method: str, example: Explained) -> str:
    """Why ``method`` cannot explain the example, in its own words; empty where it can."""
    options = method_options(MethodRequest(method, options_of(settings, method)), example.classifier)
    try:
        attribute(
            method,
            example.classifier.module,
            example.images,
            example.data.targets.to(example.device),
            forward_args=example.forward_args,
            generator=CounterGenerator(settings.seeds[0], content_ids(example.images)),
            **options,
        )
    except (ValueError, RuntimeError) as error:
        return str(error).removeprefix(f"method {method!r}").lstrip(": ").strip()
    return ""


def _question(settings: Settings, _classifier: str) -> Explained:
    own = clevr_settings(settings, settings.methods, seed=settings.seeds[0])
    kind = next(kind for kind in KINDS if own.n_questions(kind))
    device = choose_device(settings.device)
    model = classifier_of(own, kind, str(device))
    questions = open_questions(own.data, kind).load([0], model.size, MaskSource(own.masks, own.first))
    return explain(questions, model, questions.answers, device)


def _counted(settings: Settings, classifier: str) -> Explained:
    own = deletion_settings(settings, classifier, settings.methods, seed=settings.seeds[0])
    model = _classifier(settings, classifier, own.weights, own.n_classes)
    device = choose_device(settings.device)
    # As many as are counted, since an archive draws all from one permutation.
    data = load_images(own.counted, model, Sizes(own.n_images, own.n_heldout), device).test
    return prepare(data.take([0]), model, device)


def _patched(settings: Settings, classifier: str) -> Explained:
    own = idsds_settings(settings, classifier, settings.methods, seed=settings.seeds[0])
    model = _classifier(settings, classifier, own.weights, own.n_classes)
    return prepare(load_sample(own.data, model, 1), model, choose_device(settings.device))


def _retrained(settings: Settings, _classifier: str) -> Explained:
    own = roar_settings(settings, settings.methods)
    data = load_data(data_key(own))
    part, device = data.images.test, choose_device(settings.device)
    images: Tensor = part.batch([0]).cpu()
    # Weights do not matter for whether a method can be applied; the caller's random state is left alone.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module: nn.Module = network_builder(recipe_of(own).network, len(data.images.classes))().eval()
    model = Classifier("retrained", module, images.shape[-1], data.normalization, data.images.classes)
    return prepare(LabelledImages(own.data, (part.ids[0],), images, part.targets[[0]]), model, device)


def _classifier(
    settings: Settings, name: str, weights: Mapping[str, str], n_classes: Mapping[str, int]
) -> Classifier:
    device = str(choose_device(settings.device))
    return get_classifier(name, weights=weights.get(name), n_classes=n_classes.get(name), device=device)


_EXAMPLES = {"clevr_xai": _question, "deletion": _counted, "idsds": _patched, "roar": _retrained}
