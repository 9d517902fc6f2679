"""A tiny world of visual questions, a small network that answers most of them, and one run for all tests."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from heatcheck.attribution.registry import METHODS, register
from heatcheck.benchmarks import clevr_xai
from heatcheck.benchmarks.clevr_xai_questions import GROUND_TRUTHS_OF, SOURCES, MaskSource, open_questions
from heatcheck.data.clevr.batch import VisualQuestions
from heatcheck.data.clevr.ground_truth import Kind, object_set
from heatcheck.data.clevr.program import Node, Program, SceneFacts, execute
from heatcheck.data.clevr.questions import Question
from heatcheck.data.clevr.vocabulary import ANSWERS, answer_index, answer_text, encode
from heatcheck.models.registry import MODELS, Classifier, Normalization, register_model
from heatcheck.models.relation_network import RelationNetwork
from heatcheck.runtime.store import ResultsStore

SIDE, N_SCENES = 64, 5
COLORS = ("red", "green", "blue")
METHOD_NAMES = [
    *("gradient", "gradient-squared", "input-x-gradient", "integrated-gradients"),
    *("smoothgrad", "vargrad", "deconvnet", "grad-cam", "broken-for-some", "random", "centre", "constant"),
]


class TinyQuestions(NamedTuple):
    """Questions about scenes of three squares, all held in memory."""

    questions: tuple[Question, ...]
    images: torch.Tensor
    owners: torch.Tensor

    def load(self, rows: Sequence[int], size: int, masks: MaskSource) -> VisualQuestions:
        """The questions at ``rows``."""
        chosen = [self.questions[row] for row in rows]
        kind: Kind = "simple" if self.questions[0].template_file == "unique_query.json" else "complex"
        found, defined = {}, {}
        for name in GROUND_TRUTHS_OF[kind]:
            sets = [object_set(name, item.program, item.outputs, 3, first=masks.first) for item in chosen]
            found[name] = torch.stack(
                [
                    torch.isin(self.owners[item.image], torch.tensor(objects or (99,)))
                    for item, objects in zip(chosen, sets, strict=True)
                ]
            )
            defined[name] = torch.tensor([objects is not None for objects in sets])
        texts = tuple(item.text for item in chosen)
        return VisualQuestions(
            f"tiny-{kind}",
            tuple(f"tiny/{kind}/{item.index}" for item in chosen),
            self.images[[item.image for item in chosen]],
            *encode(texts),
            torch.tensor([answer_index(item.answer) for item in chosen]),
            texts,
            tuple(chosen),
            found,
            defined,
        )


def simple_program(color: str, attribute: str) -> Program:
    nodes = [Node("scene"), Node("filter_color", (0,), (color,)), Node("unique", (1,))]
    return (*nodes, Node(f"query_{attribute}", (2,)))


def complex_program(color: str) -> Program:
    related = [*simple_program(color, "shape")[:3], Node("relate", (2,), ("right",))]
    return (*related, Node("exist", (3,)))


def make_questions(kind: Kind) -> TinyQuestions:
    """Three squares in a row per scene, of three colors; a question or two about each."""
    generator = torch.Generator().manual_seed(0)
    images = torch.rand((N_SCENES, 3, SIDE, SIDE), generator=generator) * 0.2
    owners = torch.full((N_SCENES, SIDE, SIDE), -1)
    questions: list[Question] = []
    for scene in range(N_SCENES):
        for place, color in enumerate(COLORS):
            box = (slice(10 + 4 * scene, 22 + 4 * scene), slice(6 + 18 * place, 18 + 18 * place))
            owners[scene][box] = place
            images[scene, COLORS.index(color)][box] += 0.7
        shapes = ("cube", "sphere", "cylinder")
        objects = [
            {"size": "small", "color": color, "material": "metal", "shape": shapes[(scene + place) % 3]}
            for place, color in enumerate(COLORS)
        ]
        right = tuple(tuple(range(place + 1, 3)) for place in range(3))
        facts = SceneFacts(tuple(objects), dict.fromkeys(("left", "right", "behind", "front"), right))
        for color in COLORS:
            program = simple_program(color, "shape") if kind == "simple" else complex_program(color)
            text = f"What shape is the {color} thing?" if kind == "simple" else f"Is there a {color} thing?"
            outputs = execute(program, facts)
            answer = outputs[-1]
            assert not isinstance(answer, tuple)
            file = "unique_query.json" if kind == "simple" else "one_hop.json"
            questions.append(
                Question(len(questions), scene, text, answer_text(answer), program, outputs, file, 0)
            )
    return TinyQuestions(tuple(questions), images, owners)


def make_network() -> Classifier:
    """Untrained, with larger weights than usual so that questions and images matter."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        network = RelationNetwork(SIDE)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if weight.ndim > 1 and "lstm" not in name:
                weight.mul_(1.6)
    return Classifier("tiny", network.eval(), SIDE, Normalization((0.0,) * 3, (1.0,) * 3), ANSWERS)


def answered(kind: Kind) -> TinyQuestions:
    """The questions with the network's answers for true ones, but for every fifth."""
    plain = make_questions(kind)
    loaded = plain.load(range(len(plain.questions)), SIDE, MaskSource())
    module = make_network().module
    with torch.no_grad():
        predicted = module(loaded.images, loaded.tokens, loaded.lengths).argmax(1).tolist()
    right = [
        replace(item, answer=ANSWERS[place] if item.index % 5 else ANSWERS[(place + 1) % len(ANSWERS)])
        for item, place in zip(plain.questions, predicted, strict=True)
    ]
    return plain._replace(questions=tuple(right))


@pytest.fixture(scope="session")
def tiny() -> Iterator[None]:
    """The world, its model, and a method whose maps are not finite or empty for some questions."""
    registries: list[dict[str, object]] = [METHODS, MODELS, SOURCES]  # type: ignore[list-item]
    before = [dict(registry) for registry in registries]
    SOURCES["tiny"] = answered
    register_model("tiny")(make_network)

    @register("broken-for-some", family="own")
    def broken(
        model: torch.nn.Module, images: torch.Tensor, targets: torch.Tensor, **_: object
    ) -> torch.Tensor:
        """Red, but NaN or nothing where the first pixel says so."""
        maps = images[:, :1].clone()
        bright = images[:, 0, 0, 0]
        maps[bright > 0.08] = torch.nan
        maps[bright < 0.02] = 0
        return maps

    yield
    for registry, entries in zip(registries, before, strict=True):
        registry.clear()
        registry.update(entries)
    open_questions.cache_clear()


@pytest.fixture(scope="session")
def settings() -> clevr_xai.Settings:
    return clevr_xai.Settings(
        preset="test",
        methods=METHOD_NAMES,
        options={
            "integrated-gradients": {"n_steps": 2},
            "smoothgrad": {"n_samples": 2, "noise_scale": 0.05},
            "vargrad": {"n_samples": 2, "noise_scale": 0.05},
        },
        data="tiny",
        model="tiny",
        n_simple=12,
        n_complex=6,
        n_asked=15,
        variants=["smoothing", "cam-layers"],
        n_variants=6,
        noise_scales=[0.05, 0.2],
        noise_samples=[2],
        n_controls=4,
        device="cpu",
    )


@pytest.fixture(scope="session")
def store_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="session")
def results(tiny: None, settings: clevr_xai.Settings, store_path: Path) -> clevr_xai.Results:
    return clevr_xai.run(settings, ResultsStore(store_path))
