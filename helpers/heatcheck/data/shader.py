"""Constants of the shader: how bright, how shiny, how dark in the shade."""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple


class Shader(NamedTuple):
    """Shader constants, found by ``heatcheck.data.calibrate`` on scenes rendered with Blender.

    Light is linear and relative: 1 after ``exposure`` is white.

    Attributes:
        exposure: Factor on all light before it is encoded as sRGB.
        key_power: Radiant power of the key lamp in watts.
        fill_power: Radiant power of the fill lamp in watts.
        back_power: Radiant power of the back lamp in watts.
        sun_power: Irradiance of the sun.
        sun_gloss: Irradiance of the sun as highlights show it.
        lamp_side: Side of the three square lamps in scene units; it sets how soft shadows are.
        ambient: Light from everywhere, as irradiance over pi.
        ambient_down: Share of the ambient light that surfaces facing down receive.
        occlusion: How much near objects dim the ambient light, 0 none.
        floor_albedo: Share of light the floor reflects.
        floor_gloss: Strength of the floor's sheen.
        floor_highlight: Sharpness of the floor's sheen.
        rubber_exponent: Exponent on the palette's values in [0, 1], giving the albedo of rubber.
        metal_exponent: Exponent on the palette's values in [0, 1], giving the tint of metal.
        metal_mirror: Share of light that metal mirrors.
        metal_diffuse: Share of light that metal scatters.
        metal_gloss: Strength of the highlight on metal.
        metal_highlight: Sharpness of the highlight on metal.
        world: Light of the empty world above the floor, as metal mirrors it.
        horizon_fade: Sine of the angle below the horizon where rough metal mirrors half of the floor's light.
        bevel: Width of the rounded edges of cubes and cylinders, in half edges.
    """

    exposure: float
    key_power: float
    fill_power: float
    back_power: float
    sun_power: float
    sun_gloss: float
    lamp_side: float
    ambient: float
    ambient_down: float
    occlusion: float
    floor_albedo: float
    floor_gloss: float
    floor_highlight: float
    rubber_exponent: float
    metal_exponent: float
    metal_mirror: float
    metal_diffuse: float
    metal_gloss: float
    metal_highlight: float
    world: float
    horizon_fade: float
    bevel: float


def shader_hash(shader: Shader) -> str:
    """SHA-256 of the constants; it names the look of an image wherever images or weights are kept."""
    return hashlib.sha256(json.dumps(shader._asdict(), sort_keys=True).encode()).hexdigest()


@cache
def default_shader() -> Shader:
    """Calibrated constants that ship with the package.

    Raises:
        ValueError: The file was changed and its constants no longer match the hash written in it.
    """
    text = resources.files("heatcheck").joinpath("assets/shader.json").read_text(encoding="utf-8")
    return parse_shader(json.loads(text))


def parse_shader(document: Mapping[str, object]) -> Shader:
    """Constants in the ``constants`` and ``sha256`` fields of a document.

    Raises:
        ValueError: A constant is missing, unknown or no number, or the hash differs.
    """
    constants = document.get("constants")
    if not isinstance(constants, Mapping) or set(constants) != set(Shader._fields):
        raise ValueError(f"shader constants must be exactly {', '.join(Shader._fields)}; got {constants!r}")
    shader = Shader(**{name: float(value) for name, value in constants.items()})
    if document.get("sha256") != shader_hash(shader):
        raise ValueError(
            f"shader constants have hash {shader_hash(shader)}, their file says {document.get('sha256')}; "
            "restore the file, or calibrate again and train the shipped weights on the new look"
        )
    return shader
