"""Rays, bodies and visible surfaces of a scene: the geometry below the shader.

A body is a row ``(x, y, z, r, cos, sin, shape)``: centre, half size, rotation about the vertical, and shape
0 cube, 1 sphere, 2 cylinder. All three are convex and touch the floor ``z = 0``.
"""

import itertools
import math

import numpy as np
from numpy.typing import NDArray

from heatcheck.data.compiled import compiled

Array = NDArray[np.float64]
Vector = tuple[float, float, float]

CUBE, SPHERE, CYLINDER = 0, 1, 2
FLOOR, SKY = -1, -2
FOCAL_LENGTH, SENSOR_WIDTH = 35.0, 32.0  # millimetres; CLEVR's camera
ASPECT = 1.5  # CLEVR images are 480 x 320
FAR = 1e30


def camera_frame(camera: Vector) -> Array:
    """Rows right, down, forward and position of a camera that looks at the origin, ``(4, 3)``.

    The first two are scaled such that ``forward + a * right + b * down`` spans the picture for ``a`` and
    ``b`` in [-1, 1].
    """
    position = np.asarray(camera, dtype=np.float64)
    forward = -position / np.linalg.norm(position)
    right = np.cross(forward, (0.0, 0.0, 1.0))
    right /= np.linalg.norm(right)
    half_width = SENSOR_WIDTH / 2 / FOCAL_LENGTH
    down = np.cross(forward, right)
    return np.stack([right * half_width, down * (half_width / ASPECT), forward, position])


def project(frame: Array, points: Array) -> Array:
    """Where ``points`` ``(P, 3)`` are seen: coordinates ``a, b`` in the picture and depth, ``(P, 3)``."""
    offset = points - frame[3]
    depth = offset @ frame[2]
    spans = np.sum(frame[:2] ** 2, axis=1)
    plane = (offset @ frame[:2].T) / spans / depth[:, None]
    return np.concatenate([plane, depth[:, None]], axis=1)


@compiled
def dot(one: Vector, other: Vector) -> float:
    """Inner product of two vectors."""
    return one[0] * other[0] + one[1] * other[1] + one[2] * other[2]


@compiled
def interval(start: Vector, step: Vector, body: Array) -> tuple[float, float]:
    """Where the line ``start + t * step`` enters and leaves ``body``; enter > leave means a miss."""
    r = body[3]
    x, y, z = (start[0] - body[0]) / r, (start[1] - body[1]) / r, (start[2] - body[2]) / r
    dx, dy, dz = step[0] / r, step[1] / r, step[2] / r
    if body[6] == SPHERE:
        return _ball((x, y, z), (dx, dy, dz))
    near, far = _slab(z, dz)
    if body[6] == CYLINDER:
        enter, leave = _ball((x, y, 0.0), (dx, dy, 0.0))
        return max(near, enter), min(far, leave)
    cos, sin = body[4], body[5]
    x, y = cos * x + sin * y, cos * y - sin * x
    dx, dy = cos * dx + sin * dy, cos * dy - sin * dx
    near_x, far_x = _slab(x, dx)
    near_y, far_y = _slab(y, dy)
    return max(near, near_x, near_y), min(far, far_x, far_y)


@compiled
def _slab(start: float, step: float) -> tuple[float, float]:
    if step == 0.0:
        return (-FAR, FAR) if abs(start) <= 1.0 else (FAR, -FAR)
    one, other = (-1.0 - start) / step, (1.0 - start) / step
    return min(one, other), max(one, other)


@compiled
def _ball(start: Vector, step: Vector) -> tuple[float, float]:
    a, b, c = dot(step, step), dot(start, step), dot(start, start) - 1.0
    if a == 0.0:  # the ray runs along a cylinder's axis
        return (-FAR, FAR) if c <= 0.0 else (FAR, -FAR)
    root = b * b - a * c
    if root < 0.0:
        return FAR, -FAR
    root = math.sqrt(root)
    return (-b - root) / a, (-b + root) / a


@compiled
def normal_at(point: Vector, body: Array, bevel: float) -> Vector:
    """Outward unit normal of ``body`` at a point of its surface, as it is shaded.

    CLEVR's cubes and cylinders have rounded edges: within ``bevel`` half sizes of an edge the normal turns
    towards the next face.
    """
    r = body[3]
    x, y, z = (point[0] - body[0]) / r, (point[1] - body[1]) / r, (point[2] - body[2]) / r
    if body[6] == SPHERE:
        return _unit(x, y, z)
    if body[6] == CYLINDER:
        rho = math.sqrt(x * x + y * y)
        side, cap = _weight(rho, bevel), _weight(z, bevel)
        return _unit(x / rho * side, y / rho * side, cap) if rho > 0.0 else (0.0, 0.0, cap)
    cos, sin = body[4], body[5]
    u, v = _weight(cos * x + sin * y, bevel), _weight(cos * y - sin * x, bevel)
    return _unit(cos * u - sin * v, sin * u + cos * v, _weight(z, bevel))


@compiled
def _weight(coordinate: float, bevel: float) -> float:
    """Weight of a face's normal: 1 on the face, falling to 0 over the bevel."""
    return math.copysign(min(max((abs(coordinate) - 1.0 + bevel) / bevel, 0.0), 1.0), coordinate)


@compiled
def _unit(x: float, y: float, z: float) -> Vector:
    length = math.sqrt(x * x + y * y + z * z)
    return x / length, y / length, z / length


@compiled
def pixel_ray(frame: Array, row: int, column: int, height: int, width: int) -> Vector:
    """Direction of the ray through a pixel's centre; its part along the camera's axis has length 1."""
    a, b = 2.0 * (column + 0.5) / width - 1.0, 2.0 * (row + 0.5) / height - 1.0
    return (
        frame[2, 0] + a * frame[0, 0] + b * frame[1, 0],
        frame[2, 1] + a * frame[0, 1] + b * frame[1, 1],
        frame[2, 2] + a * frame[0, 2] + b * frame[1, 2],
    )


def visible(frame: Array, bodies: Array, height: int, width: int) -> tuple[NDArray[np.int8], Array]:
    """Which body each pixel's centre shows and how far away it is, both ``(height, width)``.

    The owner is the body's row, or -1 for floor and sky; the distance is in units of ``pixel_ray``.
    """
    owner = np.full((height, width), FLOOR, dtype=np.int8)
    distance = np.full((height, width), FAR)
    _nearest(frame, bodies, _windows(frame, bodies, height, width), owner, distance)
    return owner, distance


@compiled
def _nearest(
    frame: Array, bodies: Array, windows: NDArray[np.int64], owner: NDArray[np.int8], distance: Array
) -> None:
    """Fill ``owner`` and ``distance``; only the pixels of a body's window are tried."""
    height, width = owner.shape
    camera = (frame[3, 0], frame[3, 1], frame[3, 2])
    for index in range(len(bodies)):
        for row in range(windows[index, 0], windows[index, 1]):
            for column in range(windows[index, 2], windows[index, 3]):
                near, far = interval(camera, pixel_ray(frame, row, column, height, width), bodies[index])
                if near <= far and 0.0 < near < distance[row, column]:
                    distance[row, column] = near
                    owner[row, column] = index


def _windows(frame: Array, bodies: Array, height: int, width: int) -> NDArray[np.int64]:
    """Half-open window ``top, bottom, left, right`` of pixels around each body, ``(n, 4)``."""
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=3)))
    reach = bodies[:, 3, None] * np.where(bodies[:, 6, None] == CUBE, math.sqrt(2.0), 1.0)
    extent = np.concatenate([reach, reach, bodies[:, 3, None]], axis=1)
    box = bodies[:, None, :3] + corners * extent[:, None]
    plane = project(frame, box.reshape(-1, 3)).reshape(-1, 8, 3)
    rows, columns = (plane[..., 1] + 1) / 2 * height - 0.5, (plane[..., 0] + 1) / 2 * width - 0.5
    edges = [rows.min(axis=1), rows.max(axis=1) + 2, columns.min(axis=1), columns.max(axis=1) + 2]
    limits = np.array([height, height, width, width])
    windows: NDArray[np.int64] = np.floor(np.stack(edges, axis=1)).clip(0, limits).astype(np.int64)
    # The projection of a corner behind the camera says nothing.
    windows[plane[..., 2].min(axis=1) <= 0] = (0, height, 0, width)
    return windows
