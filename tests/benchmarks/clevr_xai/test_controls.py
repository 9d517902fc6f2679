"""Control experiments: one thing is exchanged, and nothing else."""

import dataclasses

import numpy as np
import pytest
import torch
from scipy import stats
from tests.benchmarks.clevr_xai.conftest import answered

from heatcheck.benchmarks import clevr_xai, clevr_xai_comparisons
from heatcheck.benchmarks.clevr_xai_controls import EXPERIMENTS, Exchange, compare_maps, exchanges, randomized
from heatcheck.benchmarks.clevr_xai_questions import SOURCES, MaskSource, Sample, explain, open_questions
from heatcheck.benchmarks.clevr_xai_scores import MASS, RANK
from heatcheck.data.clevr.vocabulary import ANSWERS
from heatcheck.metrics.mass_rank import relevance_mass, relevance_rank
from heatcheck.metrics.pooling import pool
from heatcheck.models.catalog import get_classifier

CPU = torch.device("cpu")
SAMPLE = Sample("tiny", "simple", 64, MaskSource(), (1, 2, 6, 9))
TARGETS = (ANSWERS.index("cube"), ANSWERS.index("yes"), ANSWERS.index("3"), ANSWERS.index("large"))


@pytest.fixture(scope="module")
def found(tiny: None) -> dict[str, Exchange]:
    every = exchanges(SAMPLE, TARGETS, get_classifier("tiny"), CPU, seed=1)
    assert tuple(exchange.experiment for exchange in every) == EXPERIMENTS
    return {exchange.experiment: exchange for exchange in every}


def test_another_question_is_about_the_same_image_and_another_object(found: dict[str, Exchange]) -> None:
    questions, exchange = SAMPLE.load(), found["other question"]
    assert exchange.kept == (0, 1, 2, 3)
    assert torch.equal(exchange.explained.images, questions.images)
    everything = {f"tiny/simple/{item.index}": item for item in open_questions("tiny", "simple").questions}
    for name, own in zip(exchange.explained.data.ids, questions.questions, strict=True):
        assert everything[name].image == own.image
        assert everything[name].program != own.program


def test_another_answer_is_of_the_same_kind(found: dict[str, Exchange]) -> None:
    kinds = [("cube", "sphere", "cylinder"), ("yes", "no"), tuple(map(str, range(11))), ("large", "small")]
    exchange = found["other answer"]
    for target, own, kind in zip(exchange.explained.data.targets.tolist(), TARGETS, kinds, strict=True):
        assert ANSWERS[target] in kind
        assert target != own
    assert torch.equal(exchange.explained.forward_args[0], SAMPLE.load().tokens)


def test_another_image_is_asked_its_own_question_for_the_same_answer(found: dict[str, Exchange]) -> None:
    exchange, questions = found["other image"], SAMPLE.load()
    assert tuple(exchange.explained.data.targets.tolist()) == TARGETS
    for row in range(len(questions)):
        assert not torch.equal(exchange.explained.images[row], questions.images[row])


def test_random_weights_change_the_network_alone(found: dict[str, Exchange]) -> None:
    exchange, own = found["random weights"].explained, get_classifier("tiny")
    assert torch.equal(exchange.images, SAMPLE.load().images)
    assert tuple(exchange.data.targets.tolist()) == TARGETS
    logits = [
        module(exchange.images, *exchange.forward_args) for module in (exchange.classifier.module, own.module)
    ]
    assert not torch.allclose(*logits)


def test_weights_drawn_anew_depend_on_the_seed_alone(tiny: None) -> None:
    module = get_classifier("tiny").module
    before, state = torch.random.get_rng_state(), {k: v.clone() for k, v in module.state_dict().items()}
    first, second, other = (randomized(module, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    weights = [part.state_dict()["g2.weight"] for part in (first, second, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_equal_maps_are_alike_and_lose_nothing(tiny: None) -> None:
    questions = SAMPLE.load()
    maps = torch.rand((4, 3, 64, 64), generator=torch.Generator().manual_seed(0))
    maps[3] = 0
    table = compare_maps(maps, maps.clone(), questions, ["single"], pooling="max-norm").set_index("metric")
    for measure, expected in (("spearman", 1), ("pearson", 1), ("difference", 0)):
        values = table.loc[[measure], "max-norm"].to_numpy()
        assert np.allclose(values[:3], expected)
        assert np.isnan(values[3])


def test_deconvnet_does_not_see_the_image(results: clevr_xai.Results) -> None:
    apart = clevr_xai_comparisons.control_values(results, "other image", "difference")
    assert apart["deconvnet"].max() < 1e-5
    assert apart["gradient"].min() > 1e-2


def test_what_is_lost_is_the_difference_to_the_map_as_it_was(results: clevr_xai.Results) -> None:
    lost = clevr_xai_comparisons.control_values(results, "other image", MASS)["gradient"]
    pooling = results.settings.fixed_pooling
    mine = results.controls[
        (results.controls["experiment"] == "other image") & (results.controls["metric"] == MASS)
    ]
    columns = []
    for table in (mine, results.scores[results.scores["metric"] == MASS]):
        chosen = table[(table["method"] == "gradient") & (table["ground_truth"] == "single")]
        columns.append(chosen.set_index("question")[pooling])
    other, own = columns
    assert len(lost) == 4
    assert np.allclose(lost, own[lost.index] - other[lost.index])


def test_controls_that_see_no_question_change_only_with_the_image(results: clevr_xai.Results) -> None:
    table = clevr_xai_comparisons.control_table(results)
    for experiment in ("other question", "other answer", "random weights"):
        mine = table[(table["experiment"] == experiment) & (table["method"] == "random")].set_index("measure")
        assert mine.loc["spearman", "mean"] == pytest.approx(1)
        assert mine.loc[[MASS, RANK], "mean"].abs().max() < 1e-12


def test_a_run_without_controls_has_an_empty_table(results: clevr_xai.Results) -> None:
    without = results._replace(controls=results.controls.head(0))
    assert clevr_xai_comparisons.control_values(without, "other image", MASS).empty
    assert clevr_xai_comparisons.control_table(without).empty


def test_a_question_with_nothing_to_exchange_is_left_out(tiny: None) -> None:
    alone = SAMPLE._replace(rows=(1,))
    every = exchanges(alone, TARGETS[:1], get_classifier("tiny"), CPU, seed=0)
    assert "other image" not in {exchange.experiment for exchange in every}
    questions = alone.load()
    own = explain(questions, get_classifier("tiny"), torch.tensor(TARGETS[:1]), CPU)
    assert torch.equal(own.forward_args[1], questions.lengths)


def test_exchanged_maps_are_what_is_scored_and_compared(tiny: None) -> None:
    questions, generator = SAMPLE.load(), torch.Generator().manual_seed(0)
    own, other = torch.rand((2, 4, 3, 64, 64), generator=generator)
    other = 2 * other
    table = compare_maps(own, other, questions, ["single"], pooling="max-norm")
    found = {
        metric: table.loc[table["metric"] == metric, "max-norm"].to_numpy(dtype=float)
        for metric in (MASS, RANK, "spearman", "pearson", "difference")
    }
    left, right = (pool(maps, "max-norm") for maps in (own, other))
    masks = questions.masks["single"]
    assert np.allclose(found[MASS], relevance_mass(right, masks).values)
    assert np.allclose(found[RANK], relevance_rank(right, masks).values)
    pairs = [
        (a.flatten().double().numpy(), b.flatten().double().numpy()) for a, b in zip(left, right, strict=True)
    ]
    assert np.allclose(found["spearman"], [stats.spearmanr(*pair).statistic for pair in pairs])
    assert np.allclose(found["pearson"], [np.corrcoef(*pair)[0, 1] for pair in pairs])
    apart = (own - other).abs().amax((1, 2, 3)) / own.abs().amax((1, 2, 3))
    assert np.allclose(found["difference"], apart)


def test_another_question_about_the_same_object_is_no_exchange(
    tiny: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = answered("simple")

    def sample(name: str, twins: int, rows: tuple[int, ...]) -> Sample:
        same = [dataclasses.replace(plain.questions[0], index=number) for number in range(twins)]
        world = plain._replace(questions=(*same, *plain.questions[twins:]))
        monkeypatch.setitem(SOURCES, name, lambda kind: world)
        return SAMPLE._replace(data=name, rows=rows)

    def others(some: Sample, seed: int) -> Exchange:
        every = exchanges(some, TARGETS[: len(some.rows)], get_classifier("tiny"), CPU, seed=seed)
        return next(one for one in every if one.experiment == "other question")

    two = sample("two twins", 2, (0,))
    assert {others(two, seed).explained.data.ids for seed in range(4)} == {("tiny/simple/2",)}
    assert others(sample("three twins", 3, (0, 3)), 0).kept == (1,)
