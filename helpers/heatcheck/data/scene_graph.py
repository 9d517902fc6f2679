"""Scenes as CLEVR writes them down: attributes, positions and who stands left of whom."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heatcheck.data.geometry import Vector, camera_frame, project
from heatcheck.data.scenes import BEHIND, RIGHT, VIEW, Scene

HORIZONTAL = ("left", "right", "front", "behind")
RELATION_THRESHOLD = 0.2  # least distance along a direction before one object counts as, say, left of another


def directions() -> dict[str, Vector]:
    """Unit vectors of CLEVR's six directions.

    They belong to the camera before it is moved, so they are the same in every scene, as in CLEVR.
    """
    return {
        "left": _opposite(RIGHT),
        "right": RIGHT,
        "behind": BEHIND,
        "front": _opposite(BEHIND),
        "above": (0.0, 0.0, 1.0),
        "below": (0.0, 0.0, -1.0),
    }


def relationships(scene: Scene) -> dict[str, list[list[int]]]:
    """For each horizontal direction and object ``i``, the sorted objects that lie that way from it."""
    return relations([item.center for item in scene.objects], directions())


def relations(centers: Sequence[Vector], vectors: Mapping[str, Vector]) -> dict[str, list[list[int]]]:
    """Relations between objects at ``centers``: ``j`` is left of ``i`` when ``(p_j - p_i) . left > 0.2``.

    Args:
        centers: Positions ``p`` of the objects.
        vectors: Unit vectors by direction; ``above`` and ``below`` are no relations and may be left out.
    """
    points = np.array(centers, dtype=np.float64).reshape(-1, 3)
    apart = points[None, :, :] - points[:, None, :]
    found = {}
    for name in HORIZONTAL:
        related = apart @ np.array(vectors[name]) > RELATION_THRESHOLD
        np.fill_diagonal(related, False)
        found[name] = [np.flatnonzero(row).tolist() for row in related]
    return found


def scene_graph(scene: Scene, *, split: str = "rendered", view: tuple[int, int] = VIEW) -> dict[str, Any]:
    """The scene in CLEVR's JSON format.

    Args:
        scene: Any scene.
        split: Name of the split, part of the image's file name.
        view: Rows and columns of the image that ``pixel_coords`` refer to.
    """
    height, width = view
    centers = np.array([item.center for item in scene.objects]).reshape(-1, 3)
    plane = project(camera_frame(scene.camera), centers)
    objects = [
        {
            "shape": item.shape,
            "size": item.size,
            "material": item.material,
            "color": item.color,
            "3d_coords": list(item.center),
            "rotation": item.rotation,
            "pixel_coords": [round((a + 1) / 2 * width), round((b + 1) / 2 * height), float(depth)],
        }
        for item, (a, b, depth) in zip(scene.objects, plane.tolist(), strict=True)
    ]
    return {
        "split": split,
        "image_index": scene.index,
        "image_filename": f"CLEVR_{split}_{scene.index:06d}.png",
        "objects": objects,
        "relationships": relationships(scene),
        "directions": {name: list(direction) for name, direction in directions().items()},
    }


def _opposite(vector: Vector) -> Vector:
    x, y, z = vector
    return (-x, -y, -z)
