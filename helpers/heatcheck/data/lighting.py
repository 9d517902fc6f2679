"""How much light falls on a point: three soft lamps, a sun, and ambient light that near bodies dim.

The lamps follow the photometry of square area lamps (radiance ``P / (pi A)``, cosine at both ends, fall with
the squared distance); the rest is fitted to Blender's renders by ``heatcheck.data.calibrate``.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.data.compiled import compiled
from heatcheck.data.geometry import CUBE, CYLINDER, Array, Vector, dot, interval
from heatcheck.data.shader import Shader


class World(NamedTuple):
    """A scene as arrays, with the shader's constants."""

    bodies: Array  # (n, 7), see geometry
    colors: Array  # (n, 3), albedo of rubber or tint of metal
    metal: NDArray[np.bool_]  # (n,)
    lamps: Array  # (4, 14): position, axis, two half sides, strength, strength of highlights
    shader: Shader


class Hit(NamedTuple):
    """A point that a ray meets, its normal, the ray's unit direction, and whose the point is."""

    point: Vector
    normal: Vector
    ray: Vector
    owner: int
    samples: tuple[int, int]  # first and last point of a lamp to ask for, of 16


@compiled
def reflect(hit: Hit) -> Vector:
    """Direction in which a mirror at the point sends the ray."""
    turn = 2.0 * dot(hit.ray, hit.normal)
    ray, normal = hit.ray, hit.normal
    return ray[0] - turn * normal[0], ray[1] - turn * normal[1], ray[2] - turn * normal[2]


@compiled
def lit(hit: Hit, sharpness: float, world: World) -> tuple[float, float]:
    """Light that falls on a point, as irradiance over pi, and its highlight towards the viewer.

    The highlight is ``(1 + sharpness (1 - c))^-2`` of the cosine c between the lamp and the mirrored ray, a
    lobe with the long tails of rough metal.
    """
    shader = world.shader
    down = (1.0 - hit.normal[2]) / 2.0
    diffuse = shader.ambient * (1.0 - down + down * shader.ambient_down) * _openness(hit, world)
    gloss = 0.0
    mirrored = reflect(hit)
    for index in range(len(world.lamps)):
        lamp = world.lamps[index]
        away = (lamp[0] - hit.point[0], lamp[1] - hit.point[1], lamp[2] - hit.point[2])
        squared = dot(away, away)
        distance = math.sqrt(squared)
        emitted = -dot(away, (lamp[3], lamp[4], lamp[5])) / distance
        fall = dot(hit.normal, away) / distance
        if emitted > 0.0 and fall > 0.0:
            share = emitted / squared * _unshadowed(hit, lamp, world.bodies)
            diffuse += lamp[12] * share * fall
            gloss += lamp[13] * share / (1.0 + sharpness * (1.0 - dot(mirrored, away) / distance)) ** 2
    return diffuse, gloss


@compiled
def _unshadowed(hit: Hit, lamp: Array, bodies: Array) -> float:
    """Share of the lamp that the point sees, from some of 16 points on a 4 x 4 grid of the lamp."""
    near = _near_beam(hit, lamp, bodies)
    if near == 0:
        return 1.0
    first, last = hit.samples
    seen = last - first
    for sample in range(first, last):
        # Each four in turn lie in different rows and columns of the grid.
        u = (sample % 4 - 1.5) / 2.0
        v = ((sample % 4 * 2 + sample % 4 // 2 + sample // 4) % 4 - 1.5) / 2.0
        step = (
            lamp[0] + u * lamp[6] + v * lamp[9] - hit.point[0],
            lamp[1] + u * lamp[7] + v * lamp[10] - hit.point[1],
            lamp[2] + u * lamp[8] + v * lamp[11] - hit.point[2],
        )
        if _blocked(hit.point, step, near, bodies):
            seen -= 1
    return seen / (last - first)


@compiled
def _blocked(start: Vector, step: Vector, near: int, bodies: Array) -> bool:
    """Whether one of the bodies in the set ``near`` cuts the line from ``start`` to ``start + step``."""
    for index in range(len(bodies)):
        if near >> index & 1:
            enter, leave = interval(start, step, bodies[index])
            if enter <= leave and leave > 0.0 and enter < 1.0:
                return True
    return False


@compiled
def _near_beam(hit: Hit, lamp: Array, bodies: Array) -> int:
    """Set of the bodies, as bits, whose surrounding spheres touch the beam from the lamp to the point."""
    beam = (lamp[0] - hit.point[0], lamp[1] - hit.point[1], lamp[2] - hit.point[2])
    squared = dot(beam, beam)
    half = (lamp[6], lamp[7], lamp[8])
    half_diagonal = math.sqrt(2.0 * dot(half, half))
    near = 0
    for index in range(len(bodies)):
        body = bodies[index]
        x, y, z = body[0] - hit.point[0], body[1] - hit.point[1], body[2] - hit.point[2]
        share = min(max(dot((x, y, z), beam) / squared, 0.0), 1.0)
        off = (x - share * beam[0], y - share * beam[1], z - share * beam[2])
        reach = body[3] * _surrounding(body[6]) + half_diagonal * share
        # A convex body does not shade its own lit side.
        if index != hit.owner and dot(off, off) < reach * reach:
            near |= 1 << index
    return near


@compiled
def _surrounding(shape: float) -> float:
    """Radius of the sphere around a body of half size 1."""
    if shape == CUBE:
        return math.sqrt(3.0)
    return math.sqrt(2.0) if shape == CYLINDER else 1.0


@compiled
def _openness(hit: Hit, world: World) -> float:
    """Share of the ambient light that other bodies let through.

    A sphere of radius r at distance d in direction w hides ``max(0, n . w) r^2 / d^2`` of a diffuse sky.
    """
    hidden = 0.0
    for index in range(len(world.bodies)):
        body = world.bodies[index]
        away = (body[0] - hit.point[0], body[1] - hit.point[1], body[2] - hit.point[2])
        squared = dot(away, away)
        facing = dot(hit.normal, away) / math.sqrt(squared)
        if index != hit.owner and facing > 0.0:
            hidden += facing * min(body[3] * body[3] / squared, 1.0)
    return max(0.0, 1.0 - world.shader.occlusion * hidden)
