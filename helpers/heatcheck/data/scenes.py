"""Random scenes under CLEVR's rules, each a function of its seed and number alone.

The rules are those of the CLEVR generator (Johnson et al. 2017, "CLEVR: A Diagnostic Dataset for
Compositional Language and Elementary Visual Reasoning"): where objects may stand, how far apart they are,
how much of each must be seen, and how far camera and lamps are moved.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from heatcheck.data.geometry import Array, Vector, camera_frame, visible
from heatcheck.runtime.seeds import CounterGenerator

SHAPES = ("cube", "sphere", "cylinder")
SIZES = ("large", "small")
MATERIALS = ("rubber", "metal")
COLORS = ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow")
ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "shape": SHAPES,
    "size": SIZES,
    "material": MATERIALS,
    "color": COLORS,
}
RADIUS = {"large": 0.7, "small": 0.35}

CAMERA: Vector = (7.48113, -6.50764, 5.34367)
LAMPS: tuple[Vector, Vector, Vector] = (  # key, fill, back; all aimed at the origin
    (6.44671, -2.90517, 4.2584),
    (-4.67112, -4.0136, 3.01122),
    (-1.1685, 2.64602, 5.81574),
)
CAMERA_JITTER, LAMP_JITTER = 0.5, 1.0
_LENGTH = math.hypot(CAMERA[0], CAMERA[1])
BEHIND: Vector = (-CAMERA[0] / _LENGTH, -CAMERA[1] / _LENGTH, 0.0)  # of the camera before it is moved
RIGHT: Vector = (BEHIND[1], -BEHIND[0], 0.0)

REACH = 3.0  # objects stand within this distance of the origin along both axes
MIN_DISTANCE = 0.25  # free floor between two objects
MARGIN = 0.4  # least difference of two objects' positions along the left-right and the front-behind direction
MAX_RETRIES = 50  # placements tried for one object before the scene starts again
MIN_PIXELS = 200  # least visible pixels of each object at 480 x 320
VIEW = (320, 480)  # rows and columns at which visibility is judged
_MAX_RESTARTS = 10_000


@dataclass(frozen=True)
class SceneObject:
    """One object standing on the floor.

    Attributes:
        shape: One of ``SHAPES``.
        size: One of ``SIZES``.
        material: One of ``MATERIALS``.
        color: One of ``COLORS``.
        x: Position of its centre on the floor.
        y: Position of its centre on the floor.
        rotation: Rotation about the vertical in degrees, [0, 360).
    """

    shape: str
    size: str
    material: str
    color: str
    x: float
    y: float
    rotation: float

    @property
    def radius(self) -> float:
        """Half edge, radius and half height of the object; also the height of its centre."""
        return RADIUS[self.size]

    @property
    def center(self) -> Vector:
        """Position of the object's centre."""
        return (self.x, self.y, self.radius)


@dataclass(frozen=True)
class Scene:
    """What the camera looks at.

    Attributes:
        seed: Seed of the series of scenes.
        index: Number of the scene in its series.
        objects: The objects; their order is the order of masks and of the scene graph.
        camera: Position of the camera, which looks at the origin.
        lamps: Positions of the key, fill and back lamp, which shine at the origin.
    """

    seed: int
    index: int
    objects: tuple[SceneObject, ...]
    camera: Vector
    lamps: tuple[Vector, Vector, Vector]


def sample_scene(
    seed: int,
    index: int,
    *,
    n_objects: tuple[int, int] = (3, 10),
    one: Mapping[str, tuple[str, ...]] | None = None,
    others: Mapping[str, tuple[str, ...]] | None = None,
    min_pixels: int = MIN_PIXELS,
) -> Scene:
    """Scene number ``index`` of the series ``seed``; the same on every call, whatever was drawn before.

    Args:
        seed: Names the series.
        index: Number of the scene within it, at least 0.
        n_objects: Least and largest number of objects, both included and equally likely.
        one: Attribute values allowed for one object at a random place in the order; all when left out.
        others: Attribute values allowed for all other objects.
        min_pixels: Least visible pixels of every object and of the background at 480 x 320.

    Raises:
        ValueError: An attribute or value is unknown, or the counts are not in order.
        RuntimeError: No scene under these rules was found.
    """
    low, high = n_objects
    if not 1 <= low <= high or index < 0:
        raise ValueError(
            f"need 1 <= low <= high objects and index >= 0, got n_objects={n_objects}, index={index}"
        )
    allowed, allowed_one = _allowed(others), _allowed(one)
    generator = CounterGenerator(seed, (index,)).numpy(0)
    count = int(generator.integers(low, high, endpoint=True))
    camera = _jittered(CAMERA, CAMERA_JITTER, generator)
    key, fill, back = (_jittered(lamp, LAMP_JITTER, generator) for lamp in LAMPS)
    for _ in range(_MAX_RESTARTS):
        special = int(generator.integers(count))
        choices = [allowed_one if place == special else allowed for place in range(count)]
        objects = _placed(choices, generator)
        if objects is not None and all_visible(objects, camera, min_pixels):
            return Scene(seed, index, objects, camera, (key, fill, back))
    raise RuntimeError(
        f"found no scene with {count} objects of {min_pixels} visible pixels in {_MAX_RESTARTS} tries; "
        "ask for fewer objects or pixels"
    )


def all_visible(objects: tuple[SceneObject, ...], camera: Vector, min_pixels: int) -> bool:
    """Whether every object and the background show at least ``min_pixels`` pixels at 480 x 320."""
    owner, _ = visible(camera_frame(camera), bodies(objects), *VIEW)
    counts = np.bincount(owner.ravel().astype(np.int64) + 1, minlength=len(objects) + 1)
    return bool(counts.min() >= min_pixels)


def bodies(objects: tuple[SceneObject, ...]) -> Array:
    """Bodies of ``objects``, ``(n, 7)``, as ``heatcheck.data.geometry`` describes them."""
    rows = [
        (*item.center, item.radius, *_turn(item.rotation), float(SHAPES.index(item.shape)))
        for item in objects
    ]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 7)


def collides(x: float, y: float, radius: float, others: list[SceneObject]) -> bool:
    """Whether an object at ``(x, y)`` would stand too near to one of ``others`` or be ambiguous beside it."""
    for other in others:
        dx, dy = x - other.x, y - other.y
        if math.hypot(dx, dy) - radius - other.radius < MIN_DISTANCE:
            return True
        for direction in (RIGHT, BEHIND):
            if 0.0 < abs(dx * direction[0] + dy * direction[1]) < MARGIN:
                return True
    return False


def _placed(
    choices: list[Mapping[str, tuple[str, ...]]], generator: np.random.Generator
) -> tuple[SceneObject, ...] | None:
    """Objects of the allowed kinds; None when one of them found no place."""
    objects: list[SceneObject] = []
    for allowed in choices:
        kind = {name: values[int(generator.integers(len(values)))] for name, values in allowed.items()}
        spots = generator.uniform(-REACH, REACH, size=(MAX_RETRIES, 2)).tolist()
        rotation = float(generator.uniform(0.0, 360.0))
        free = (spot for spot in spots if not collides(spot[0], spot[1], RADIUS[kind["size"]], objects))
        spot = next(free, None)
        if spot is None:
            return None
        objects.append(SceneObject(**kind, x=spot[0], y=spot[1], rotation=rotation))
    return tuple(objects)


def _allowed(values: Mapping[str, tuple[str, ...]] | None) -> Mapping[str, tuple[str, ...]]:
    for name, some in (values or {}).items():
        known = ATTRIBUTES.get(name, ())
        if not some or not set(some) <= set(known):
            raise ValueError(f"attribute {name!r} cannot be one of {some!r}; allowed: {dict(ATTRIBUTES)}")
    return {**ATTRIBUTES, **(values or {})}


def _jittered(point: Vector, amount: float, generator: np.random.Generator) -> Vector:
    x, y, z = (np.asarray(point) + generator.uniform(-amount, amount, size=3)).tolist()
    return (x, y, z)


def _turn(degrees: float) -> tuple[float, float]:
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
