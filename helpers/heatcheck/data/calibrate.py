"""The shader's constants, fitted to scenes that were rendered with Blender from CLEVR's own assets."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from heatcheck.data.raycaster import render
from heatcheck.data.scenes import COLORS, MATERIALS, SHAPES, SIZES, Scene, SceneObject
from heatcheck.data.shader import Shader, shader_hash
from heatcheck.runtime.progress import progress

OBJECT_LIMIT, BACKGROUND_LIMIT = 12.0, 5.0  # mean absolute errors a calibration must reach, of 255


class Reference(NamedTuple):
    """Reference renders and the scenes they show.

    Attributes:
        scenes: ``N`` scenes.
        images: ``(N, H, W, 3)`` uint8.
        owners: ``(N, H, W)`` int8, object each pixel shows or -1.
    """

    scenes: tuple[Scene, ...]
    images: NDArray[np.uint8]
    owners: NDArray[np.int8]

    def take(self, rows: Iterable[int]) -> "Reference":
        """The reference scenes at ``rows``."""
        index = list(rows)
        return Reference(tuple(self.scenes[row] for row in index), self.images[index], self.owners[index])


class Errors(NamedTuple):
    """Mean absolute errors over pixels and channels, of 255."""

    objects: float
    background: float

    @property
    def loss(self) -> float:
        """Mean of the two, each in units of its limit."""
        return (self.objects / OBJECT_LIMIT + self.background / BACKGROUND_LIMIT) / 2


def read_reference(path: Path) -> Reference:
    """Reference renders of an ``.npz`` file with arrays ``img, own, cam, lights, n, theta, shape, ...``."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    scenes = tuple(_scene(arrays, row) for row in range(len(arrays["img"])))
    return Reference(scenes, arrays["img"], arrays["own"])


def errors(shader: Shader, reference: Reference) -> Errors:
    """How far renders with ``shader`` are from the reference, on objects and on the rest."""
    height, width = reference.owners.shape[1:]
    images = np.stack([render(scene, (height, width), shader).image for scene in reference.scenes])
    difference = np.abs(images.astype(np.float64) - reference.images).mean(axis=3)
    on_object = reference.owners >= 0
    return Errors(float(difference[on_object].mean()), float(difference[~on_object].mean()))


def recalibrate(reference: Reference, start: Shader, path: Path, *, n_fit: int = 52) -> tuple[Errors, Errors]:
    """Errors on the scenes fitted and on the others, after the best constants were written to ``path``.

    Args:
        reference: Scenes of even height and width; the first ``n_fit`` are fitted, the others test.
        start: Constants to begin with.
        path: The ``shader.json`` to write. Weights trained on another shader do not fit it.
        n_fit: Number of scenes to fit.
    """
    fit, test = reference.take(range(n_fit)), reference.take(range(n_fit, len(reference.scenes)))
    # Brightness is fixed by the exposure; the light that it scales is free.
    names = tuple(name for name in Shader._fields if name != "exposure")
    coarse, _ = calibrate(halved(fit), start, rounds=9, step=0.3, names=names)
    fine, _ = calibrate(fit, coarse, rounds=3, step=0.05, names=names)
    rounded = rounded_shader(fine)
    found = errors(rounded, fit), errors(rounded, test)
    write_shader(path, rounded, _notes(*found))
    return found


def halved(reference: Reference) -> Reference:
    """``reference`` at half its height and width."""
    n, height, width, _ = reference.images.shape
    blocks = reference.images.reshape(n, height // 2, 2, width // 2, 2, 3).astype(np.float64)
    images = np.rint(blocks.mean(axis=(2, 4))).astype(np.uint8)
    return Reference(reference.scenes, images, reference.owners[:, ::2, ::2])


def calibrate(
    reference: Reference,
    start: Shader,
    *,
    rounds: int = 12,
    step: float = 0.3,
    names: Sequence[str] = Shader._fields,
) -> tuple[Shader, float]:
    """Constants near ``start`` with the smallest loss on ``reference``, and that loss.

    A coordinate search: each constant in turn is multiplied and divided by ``1 + step`` of its own, kept
    where that helps (the step then grows), else its step is halved.

    Args:
        reference: Scenes to fit; keep some back to test on.
        start: Constants to begin with; a constant of 0 stays 0.
        rounds: Passes over all constants.
        step: First relative step.
        names: Constants that may change.
    """
    best, loss = start, errors(start, reference).loss
    steps = dict.fromkeys(names, step)
    for _, name in progress([(turn, name) for turn in range(rounds) for name in names], label="calibrate"):
        value = getattr(best, name)
        for factor in (1 + steps[name], 1 / (1 + steps[name])):
            trial = best._replace(**{name: value * factor})
            trial_loss = errors(trial, reference).loss
            if trial_loss < loss:
                best, loss = trial, trial_loss
                steps[name] *= 1.5
                break
        else:
            steps[name] /= 2
    return best, loss


def write_shader(path: Path, shader: Shader, notes: Mapping[str, object]) -> None:
    """Write ``shader``, its hash and ``notes`` on how it was found."""
    document = {"sha256": shader_hash(shader), "constants": shader._asdict(), **notes}
    path.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def rounded_shader(shader: Shader) -> Shader:
    """``shader`` to four digits; more would mean nothing."""
    return Shader(*(float(f"{value:.4g}") for value in shader))


def _notes(fit: Errors, test: Errors) -> dict[str, object]:
    return {
        "source": "fitted by this project to Blender renders of the CLEVR generator's assets (BSD license)",
        "license": "Apache-2.0",
        "made_by": "heatcheck.data.calibrate.recalibrate",
        "object_error": {"fitted": round(fit.objects, 2), "unseen": round(test.objects, 2)},
        "background_error": {"fitted": round(fit.background, 2), "unseen": round(test.background, 2)},
    }


def _scene(arrays: Mapping[str, NDArray[np.generic]], row: int) -> Scene:
    objects = tuple(
        SceneObject(
            SHAPES[int(arrays["shape"][row, place])],
            SIZES[int(arrays["size"][row, place])],
            MATERIALS[int(arrays["mat"][row, place])],
            COLORS[int(arrays["color"][row, place])],
            float(arrays["xy"][row, place, 0]),
            float(arrays["xy"][row, place, 1]),
            math.degrees(float(arrays["theta"][row, place])),
        )
        for place in range(int(arrays["n"][row]))
    )
    key, fill, back = (_vector(point) for point in arrays["lights"][row])
    return Scene(0, row, objects, _vector(arrays["cam"][row]), (key, fill, back))


def _vector(values: NDArray[np.generic]) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return (x, y, z)
