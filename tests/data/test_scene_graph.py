import json
from pathlib import Path

import numpy as np
import pytest

from heatcheck.data.geometry import camera_frame, visible
from heatcheck.data.scene_graph import directions, relations, relationships, scene_graph
from heatcheck.data.scenes import bodies, sample_scene

OPPOSITES = {"left": "right", "right": "left", "front": "behind", "behind": "front"}


@pytest.mark.parametrize("index", range(10))
def test_relations_follow_the_threshold_rule(index: int) -> None:
    scene = sample_scene(0, index)
    found = relationships(scene)
    for name in OPPOSITES:
        for i, one in enumerate(scene.objects):
            expected = [
                j
                for j, other in enumerate(scene.objects)
                if i != j and np.dot(np.subtract(other.center, one.center), directions()[name]) > 0.2
            ]
            assert found[name][i] == expected


@pytest.mark.parametrize("index", range(10))
def test_every_pair_is_ordered_both_ways_because_of_the_margin(index: int) -> None:
    scene = sample_scene(0, index)
    found = relationships(scene)
    for name, opposite in OPPOSITES.items():
        for i in range(len(scene.objects)):
            for j in found[name][i]:
                assert i in found[opposite][j]
                assert j not in found[opposite][i]
            assert sorted(found[name][i] + found[opposite][i] + [i]) == list(range(len(scene.objects)))


def test_relations_equal_those_recorded_from_the_original_generator() -> None:
    golden = Path(__file__).parents[1] / "golden" / "clevr_scene.json"
    recorded = json.loads(golden.read_text(encoding="utf-8"))["scene"]
    centers = [tuple(item["3d_coords"]) for item in recorded["objects"]]
    assert relations(centers, recorded["directions"]) == recorded["relationships"]


def test_the_graph_has_the_fields_of_clevr_and_is_strict_json() -> None:
    scene = sample_scene(0, 7)
    graph = json.loads(json.dumps(scene_graph(scene), allow_nan=False))
    assert graph["image_filename"] == "CLEVR_rendered_000007.png"
    assert set(graph) >= {"split", "image_index", "image_filename", "objects", "relationships", "directions"}
    assert set(graph["directions"]) == {"left", "right", "front", "behind", "above", "below"}
    for item, written in zip(scene.objects, graph["objects"], strict=True):
        assert written["3d_coords"] == list(item.center)
        assert [written[name] for name in ("shape", "size", "material", "color")] == [
            item.shape,
            item.size,
            item.material,
            item.color,
        ]


@pytest.mark.parametrize("view", [(320, 480), (128, 128)])
def test_pixel_coordinates_point_at_the_object_and_give_its_depth(view: tuple[int, int]) -> None:
    scene = sample_scene(3, 0, n_objects=(1, 1))
    column, row, depth = scene_graph(scene, view=view)["objects"][0]["pixel_coords"]
    owner, _ = visible(camera_frame(scene.camera), bodies(scene.objects), *view)
    assert owner[row, column] == 0
    position = np.array(scene.camera)
    axis = -position / np.linalg.norm(position)
    assert depth == pytest.approx((np.array(scene.objects[0].center) - position) @ axis)
