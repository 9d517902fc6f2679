"""Images of scenes by casting rays: three soft lamps, a mirror bounce, ambient light that corners dim.

Everything is analytic and free of noise, so an image is a function of the scene and the shader alone. Direct
light is in ``lighting``, the positions of bodies in ``geometry``.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.data.compiled import compiled
from heatcheck.data.geometry import (
    FAR,
    FLOOR,
    SKY,
    Array,
    Vector,
    camera_frame,
    dot,
    interval,
    normal_at,
    pixel_ray,
    visible,
)
from heatcheck.data.lighting import Hit, World, lit, reflect
from heatcheck.data.scenes import Scene, bodies
from heatcheck.data.shader import Shader, default_shader

PALETTE = {  # sRGB bytes of CLEVR's colors
    "gray": (87, 87, 87),
    "red": (173, 35, 35),
    "blue": (42, 75, 215),
    "green": (29, 105, 20),
    "brown": (129, 74, 25),
    "purple": (129, 38, 192),
    "cyan": (41, 208, 208),
    "yellow": (255, 238, 51),
}
SUN = np.array((11.66081, -6.62799, 25.82317)) / math.hypot(11.66081, 6.62799, 25.82317)  # CLEVR's, fixed
_FAR_AWAY = 1e4
_GRID = 2  # rays per pixel along each side


class Rendered(NamedTuple):
    """An image and whose each pixel is.

    Attributes:
        image: ``(H, W, 3)`` uint8, sRGB.
        owner: ``(H, W)`` int8, the object that the pixel's centre shows, by its place in the scene; -1 none.
    """

    image: NDArray[np.uint8]
    owner: NDArray[np.int8]


def render(scene: Scene, size: int | tuple[int, int], shader: Shader | None = None) -> Rendered:
    """Image and object masks of ``scene``.

    The view is CLEVR's, three wide by two high; it is squashed when the image has another shape.

    Args:
        scene: From ``sample_scene`` or made by hand.
        size: Side of a square image in pixels, or its rows and columns.
        shader: Constants of the shader; the calibrated ones by default.

    Raises:
        ValueError: The size is not positive.
    """
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise ValueError(f"an image needs at least one row and one column, got size={size}")
    shader = default_shader() if shader is None else shader
    frame, world = camera_frame(scene.camera), _world(scene, shader)
    owner, _ = visible(frame, world.bodies, height, width)
    hit, distance = visible(frame, world.bodies, height * _GRID, width * _GRID)
    light = _shade(frame, hit, distance, world)
    return Rendered(_encode(light * shader.exposure), owner)


def _encode(light: Array) -> NDArray[np.uint8]:
    """Bytes of linear light by the sRGB curve (IEC 61966-2-1); light above 1 is white."""
    light = np.clip(light, 0.0, 1.0)
    curve = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return np.asarray(np.rint(curve * 255.0), dtype=np.uint8)


def _world(scene: Scene, shader: Shader) -> World:
    metal = np.array([item.material == "metal" for item in scene.objects], dtype=np.bool_)
    palette = np.array([PALETTE[item.color] for item in scene.objects]).reshape(-1, 3) / 255.0
    exponents = np.where(metal, shader.metal_exponent, shader.rubber_exponent)
    powers = (shader.key_power, shader.fill_power, shader.back_power)
    # The sun is a lamp so far away that its light is parallel.
    sun = _lamp_row(SUN * _FAR_AWAY, shader.sun_power * math.pi * _FAR_AWAY**2, 0.0)
    sun[13] = shader.sun_gloss / math.pi * _FAR_AWAY**2
    lamps = np.array(
        [
            _lamp_row(np.array(lamp), power, shader.lamp_side)
            for lamp, power in zip(scene.lamps, powers, strict=True)
        ]
        + [sun]
    )
    return World(bodies(scene.objects), palette ** exponents[:, None], metal, lamps, shader)


def _lamp_row(position: Array, power: float, side: float) -> Array:
    """Position, axis towards the origin, the two half sides, and the intensity over pi."""
    axis = -position / np.linalg.norm(position)
    across = np.cross(axis, (0.0, 0.0, 1.0))
    across /= np.linalg.norm(across)
    along = np.cross(axis, across)
    return np.concatenate([position, axis, across * side / 2, along * side / 2, [power / math.pi**2] * 2])


@compiled
def _shade(frame: Array, hit: NDArray[np.int8], distance: Array, world: World) -> Array:
    """Linear light of every pixel, ``(H, W, 3)``; ``hit`` and ``distance`` of its rays are ``(2 H, 2 W)``."""
    height, width = hit.shape[0] // _GRID, hit.shape[1] // _GRID
    light = np.empty((height, width, 3))
    for row in range(height):
        for column in range(width):
            rows = slice(_GRID * row, _GRID * row + _GRID)
            columns = slice(_GRID * column, _GRID * column + _GRID)
            if hit[rows, columns].max() < 0:
                # The floor is smooth: one ray does for the pixel when it asks for all points of a lamp.
                seen = _light_of_floor(frame, (row, column), (height, width), world)
            else:
                seen = _light_of_rays(frame, (row, column), hit, distance, world)
            light[row, column, 0], light[row, column, 1], light[row, column, 2] = seen
    return light


@compiled
def _light_of_floor(frame: Array, pixel: tuple[int, int], size: tuple[int, int], world: World) -> Vector:
    camera = (frame[3, 0], frame[3, 1], frame[3, 2])
    ray = pixel_ray(frame, pixel[0], pixel[1], size[0], size[1])
    return _sent_back(_arrive(camera, ray, _floor(camera, ray), (0, 16), world), world)


@compiled
def _light_of_rays(
    frame: Array, pixel: tuple[int, int], hit: NDArray[np.int8], distance: Array, world: World
) -> Vector:
    """Mean light of a pixel's four rays, each of which asks for another four points of a lamp."""
    camera = (frame[3, 0], frame[3, 1], frame[3, 2])
    red, green, blue = 0.0, 0.0, 0.0
    for index in range(_GRID * _GRID):
        y, x = _GRID * pixel[0] + index // _GRID, _GRID * pixel[1] + index % _GRID
        ray = pixel_ray(frame, y, x, hit.shape[0], hit.shape[1])
        meets = (int(hit[y, x]), distance[y, x])
        if meets[0] < 0:
            meets = _floor(camera, ray)
        here = _arrive(camera, ray, meets, (4 * index, 4 * index + 4), world)
        seen, mirrored = _sent_back(here, world), _mirrored(here, world)
        red += seen[0] + mirrored[0]
        green += seen[1] + mirrored[1]
        blue += seen[2] + mirrored[2]
    return red / 4.0, green / 4.0, blue / 4.0


@compiled
def _floor(start: Vector, ray: Vector) -> tuple[int, float]:
    return (FLOOR, -start[2] / ray[2]) if ray[2] < 0.0 else (SKY, FAR)


@compiled
def _arrive(
    start: Vector, ray: Vector, meets: tuple[int, float], samples: tuple[int, int], world: World
) -> Hit:
    """What a ray meets: whose it is and how many lengths of the ray away."""
    owner, reach = meets
    point = (start[0] + reach * ray[0], start[1] + reach * ray[1], start[2] + reach * ray[2])
    normal = (0.0, 0.0, 1.0)
    if owner >= 0:
        normal = normal_at(point, world.bodies[owner], world.shader.bevel)
    length = math.sqrt(dot(ray, ray))
    return Hit(point, normal, (ray[0] / length, ray[1] / length, ray[2] / length), owner, samples)


@compiled
def _sent_back(hit: Hit, world: World) -> Vector:
    """Light of lamps and surroundings that a point scatters back along the ray."""
    shader = world.shader
    if hit.owner == SKY:
        return shader.world, shader.world, shader.world
    if hit.owner == FLOOR:
        diffuse, gloss = lit(hit, shader.floor_highlight, world)
        gray = diffuse * shader.floor_albedo + gloss * shader.floor_gloss
        return gray, gray, gray
    color = world.colors[hit.owner]
    diffuse, gloss = lit(hit, shader.metal_highlight, world)
    if world.metal[hit.owner]:
        diffuse = diffuse * shader.metal_diffuse + gloss * shader.metal_gloss
    return color[0] * diffuse, color[1] * diffuse, color[2] * diffuse


@compiled
def _mirrored(hit: Hit, world: World) -> Vector:
    """Light that metal mirrors, nothing elsewhere; metal seen in the mirror shows no image of its own."""
    if hit.owner < 0 or not world.metal[hit.owner]:
        return 0.0, 0.0, 0.0
    out = reflect(hit)
    found, reach = _floor(hit.point, out)
    for index in range(len(world.bodies)):
        near, far = interval(hit.point, out, world.bodies[index])
        if index != hit.owner and near <= far and 0.0 < near < reach:
            found, reach = index, near
    seen = _sent_back(_arrive(hit.point, out, (found, reach), hit.samples, world), world)
    color, share = world.colors[hit.owner], world.shader.metal_mirror
    if found == FLOOR:
        # Rough metal blurs the horizon: just below it, part of what it mirrors is the dark world.
        share /= 1.0 + (world.shader.horizon_fade / out[2]) ** 2
    return share * color[0] * seen[0], share * color[1] * seen[1], share * color[2] * seen[2]
