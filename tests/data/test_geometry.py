import math

import numpy as np
import pytest

from heatcheck.data.geometry import (
    CUBE,
    CYLINDER,
    FLOOR,
    SPHERE,
    Array,
    Vector,
    camera_frame,
    interval,
    normal_at,
    pixel_ray,
    project,
    visible,
)
from heatcheck.data.scenes import CAMERA, bodies, sample_scene

SHAPES = [CUBE, SPHERE, CYLINDER]


def body(shape: int, *, x: float = 0.3, y: float = -0.2, r: float = 0.7, turn: float = 0.5) -> Array:
    return np.array([x, y, r, r, math.cos(turn), math.sin(turn), shape])


def outside(point: Array, body: Array) -> float:
    """Positive outside the body, negative inside, zero on its surface; by the definitions of the shapes."""
    x, y, z = (point - body[:3]) / body[3]
    if body[6] == SPHERE:
        return float(x * x + y * y + z * z - 1)
    if body[6] == CYLINDER:
        return float(max(math.hypot(x, y), abs(z)) - 1)
    along = body[4] * x + body[5] * y
    across = -body[5] * x + body[4] * y
    return float(max(abs(along), abs(across), abs(z)) - 1)


@pytest.mark.parametrize(
    ("shape", "start", "step", "expected"),
    [
        (SPHERE, (-3.0, 0.0, 1.0), (1.0, 0.0, 0.0), (2.0, 4.0)),
        (SPHERE, (0.0, 0.0, 1.0), (0.0, 0.0, 2.0), (-0.5, 0.5)),
        (CUBE, (-3.0, 0.5, 1.5), (2.0, 0.0, 0.0), (1.0, 2.0)),
        (CYLINDER, (0.0, 0.0, 5.0), (0.0, 0.0, -1.0), (3.0, 5.0)),
        (CYLINDER, (-3.0, 0.0, 0.5), (1.0, 0.0, 0.0), (2.0, 4.0)),
    ],
)
def test_a_line_enters_and_leaves_where_the_closed_form_says(
    shape: int, start: Vector, step: Vector, expected: tuple[float, float]
) -> None:
    unit = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 0.0, shape])
    assert interval(start, step, unit) == pytest.approx(expected)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("start", "step"), [((0.0, 0.0, 4.0), (1.0, 0.0, 0.0)), ((5.0, 5.0, 0.0), (0.0, 0.0, 1.0))]
)
def test_a_line_beside_the_body_misses(shape: int, start: Vector, step: Vector) -> None:
    near, far = interval(start, step, body(shape))
    assert near > far


@pytest.mark.parametrize("shape", SHAPES)
def test_random_lines_cross_the_surface_exactly_at_the_ends_of_the_interval(shape: int) -> None:
    generator = np.random.default_rng(0)
    solid = body(shape)
    hits = 0
    for _ in range(300):
        start, goal = generator.uniform(-4, 4, (2, 3))
        step = goal - start
        near, far = interval(tuple(start), tuple(step), solid)
        values = [outside(start + t * step, solid) for t in np.linspace(0, 1, 64)]
        if near > far:
            assert min(values) >= 0
            continue
        hits += 1
        assert outside(start + near * step, solid) == pytest.approx(0, abs=1e-9)
        assert outside(start + far * step, solid) == pytest.approx(0, abs=1e-9)
        assert outside(start + (near + far) / 2 * step, solid) < 0
    assert hits > 5


@pytest.mark.parametrize("shape", SHAPES)
def test_normals_are_unit_vectors_that_point_out(shape: int) -> None:
    generator = np.random.default_rng(1)
    solid = body(shape)
    for _ in range(200):
        start = solid[:3] + generator.normal(size=3) * 3
        step = solid[:3] - start
        near, _ = interval(tuple(start), tuple(step), solid)
        point = start + near * step
        normal = np.array(normal_at(tuple(point), solid, 0.05))
        assert np.linalg.norm(normal) == pytest.approx(1)
        assert outside(point + 1e-4 * normal, solid) > 0


def test_the_middle_of_a_face_has_the_normal_of_the_face() -> None:
    turned = body(CUBE, turn=math.pi / 2)
    for direction in np.eye(3):
        assert normal_at(tuple(turned[:3] + 0.7 * direction), turned, 0.1) == pytest.approx(tuple(direction))


def test_a_pixels_ray_is_projected_back_to_the_pixel() -> None:
    frame = camera_frame(CAMERA)
    for row, column in [(0, 0), (10, 40), (31, 47)]:
        ray = np.array(pixel_ray(frame, row, column, 32, 48))
        a, b, depth = project(frame, frame[3] + 5 * ray[None])[0]
        assert (a, b, depth) == pytest.approx(((column + 0.5) / 24 - 1, (row + 0.5) / 16 - 1, 5))


def test_the_camera_has_clevrs_field_of_view_and_sees_the_origin_in_the_middle() -> None:
    frame = camera_frame(CAMERA)
    assert math.degrees(2 * math.atan(np.linalg.norm(frame[0]))) == pytest.approx(49.13, abs=0.01)
    assert project(frame, np.zeros((1, 3)))[0, :2] == pytest.approx((0, 0), abs=1e-12)
    assert frame[0, 2] == 0  # the picture is level
    assert frame[1, 2] < 0  # rows count downwards


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("size", [(24, 24), (20, 36)])
def test_owners_equal_a_search_over_all_bodies(index: int, size: tuple[int, int]) -> None:
    scene = sample_scene(4, index)
    frame, solids = camera_frame(scene.camera), bodies(scene.objects)
    owner, distance = visible(frame, solids, *size)
    for row, column in np.ndindex(size):
        ray = pixel_ray(frame, row, column, *size)
        spans = [interval(scene.camera, ray, solid) for solid in solids]
        found = [(near, place) for place, (near, far) in enumerate(spans) if near <= far and near > 0]
        assert owner[row, column] == (min(found)[1] if found else FLOOR)
        assert not found or distance[row, column] == min(found)[0]


def test_a_body_around_or_behind_the_camera_does_no_harm() -> None:
    frame = camera_frame((3.0, 0.0, 1.0))
    owner, _ = visible(frame, np.array([[6.0, 0.0, 0.7, 0.7, 1.0, 0.0, SPHERE]]), 8, 8)
    assert (owner == FLOOR).all()
