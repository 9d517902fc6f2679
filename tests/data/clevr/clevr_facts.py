"""Scenes for questions: the recorded one, and random ones made without placing or rendering anything."""

import numpy as np
from tests.data.clevr.recorded import GOLDEN

from heatcheck.data.clevr.program import Program, SceneFacts, facts_of
from heatcheck.data.scene_graph import directions, relations
from heatcheck.data.scenes import ATTRIBUTES

RECORDED = facts_of(GOLDEN["scene"]["scene"])


def random_facts(seed: int, n_objects: int | None = None) -> SceneFacts:
    """A scene of objects at random places; they may overlap, which questions do not mind."""
    generator = np.random.default_rng(seed)
    count = int(generator.integers(3, 11)) if n_objects is None else n_objects
    objects = [
        {name: str(generator.choice(values)) for name, values in ATTRIBUTES.items()} for _ in range(count)
    ]
    centers = [(float(x), float(y), 0.5) for x, y in generator.uniform(-3, 3, size=(count, 2))]
    return facts_of({"objects": objects, "relationships": relations(centers, directions())})


def functions(program: Program) -> list[str]:
    return [node.function for node in program]
