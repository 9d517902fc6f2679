import dataclasses
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from heatcheck.data.calibrate import BACKGROUND_LIMIT, OBJECT_LIMIT, Reference, errors, read_reference
from heatcheck.data.geometry import Vector, camera_frame, visible
from heatcheck.data.raycaster import render
from heatcheck.data.scenes import CAMERA, LAMPS, Scene, SceneObject, bodies, sample_scene
from heatcheck.data.shader import default_shader

RED_CUBE = SceneObject("cube", "large", "rubber", "red", 0.0, 0.0, 30.0)
# Left of the cube as the camera sees them.
CHROME_BALL = SceneObject("sphere", "large", "metal", "gray", -1.1, -1.3, 0.0)


def scene_of(*objects: SceneObject, camera: Vector = CAMERA) -> Scene:
    return Scene(0, 0, objects, camera, LAMPS)


@pytest.fixture(scope="module")
def reference() -> Reference:
    return read_reference(Path(__file__).parents[1] / "golden" / "clevr_render_reference.npz")


def test_masks_equal_the_reference_in_every_pixel(reference: Reference) -> None:
    owners = [render(scene, 128).owner for scene in reference.scenes]
    np.testing.assert_array_equal(np.stack(owners), reference.owners)


def test_images_are_as_near_to_blenders_as_the_calibration_promises(reference: Reference) -> None:
    found = errors(default_shader(), reference)
    assert found.objects <= OBJECT_LIMIT == 12
    assert found.background <= BACKGROUND_LIMIT == 5


@pytest.mark.parametrize(("size", "shape"), [(32, (32, 32)), ((20, 30), (20, 30)), (1, (1, 1))])
def test_images_have_the_size_asked_for(size: int | tuple[int, int], shape: tuple[int, int]) -> None:
    image, owner = render(sample_scene(0, 0), size)
    assert image.shape == (*shape, 3)
    assert image.dtype == np.uint8
    assert owner.shape == shape
    assert owner.dtype == np.int8


@pytest.mark.parametrize("size", [0, (0, 5), (5, -1)])
def test_a_size_without_pixels_is_refused(size: int | tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="at least one row"):
        render(sample_scene(0, 0), size)


def test_owners_are_what_the_pixel_centers_show() -> None:
    scene = sample_scene(0, 2)
    expected, _ = visible(camera_frame(scene.camera), bodies(scene.objects), 40, 40)
    np.testing.assert_array_equal(render(scene, 40).owner, expected)


def test_the_order_of_the_objects_changes_owners_but_not_the_image() -> None:
    scene = sample_scene(0, 4)
    turned = dataclasses.replace(scene, objects=scene.objects[::-1])
    image, owner = render(scene, 48)
    image_turned, owner_turned = render(turned, 48)
    last = len(scene.objects) - 1
    assert (
        np.abs(image.astype(int) - image_turned).max() <= 1
    )  # the sum of shadows is rounded in another order
    np.testing.assert_array_equal(owner, np.where(owner_turned < 0, -1, last - owner_turned))


def test_a_scene_without_objects_is_a_gray_floor() -> None:
    image, owner = render(scene_of(), 32)
    assert (owner == -1).all()
    assert (image == image[..., :1]).all()
    assert image.min() > 40


def test_a_camera_at_the_horizon_sees_floor_below_and_the_darker_world_above() -> None:
    image, _ = render(scene_of(camera=(10.0, 0.0, 0.01)), 16)
    assert image[-1].min() > image[0].max()


def test_rubber_shows_its_color_and_the_background_none() -> None:
    image, owner = render(scene_of(RED_CUBE), 64)
    red = image[owner == 0].mean(axis=0)
    assert red[0] > 2 * red[1]
    assert red[0] > 2 * red[2]


def inner(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels all of whose neighbours are in the mask as well."""
    padded = np.pad(mask, 1)
    shifts = [
        padded[row : row + len(mask), column : column + len(mask)] for row in range(3) for column in range(3)
    ]
    smallest: NDArray[np.bool_] = np.min(np.stack(shifts), axis=0)
    return smallest


def test_an_object_darkens_the_floor_beside_it_and_lights_it_nowhere() -> None:
    bare, _ = render(scene_of(), 64)
    image, owner = render(scene_of(RED_CUBE), 64)
    change = (image.astype(int) - bare)[inner(owner < 0)]
    assert change.max() <= 0
    assert change.min() < -10


def test_metal_mirrors_what_stands_beside_it_and_rubber_does_not() -> None:
    for ball, mirrors in ((CHROME_BALL, True), (dataclasses.replace(CHROME_BALL, material="rubber"), False)):
        image, owner = render(scene_of(ball, RED_CUBE), 96)
        pixels = image[inner(owner == 0)].astype(int)
        assert ((pixels[:, 0] - pixels[:, 1]) > 15).any() == mirrors


@pytest.mark.parametrize("shape", ["sphere", "cylinder"])
def test_round_bodies_look_the_same_however_they_are_turned(shape: str) -> None:
    one = dataclasses.replace(RED_CUBE, shape=shape)
    other = dataclasses.replace(one, rotation=217.0)
    np.testing.assert_array_equal(render(scene_of(one), 48).image, render(scene_of(other), 48).image)


def test_a_cube_looks_the_same_after_a_quarter_turn_and_another_after_less() -> None:
    image, owner = render(scene_of(RED_CUBE), 48)
    quarter = render(scene_of(dataclasses.replace(RED_CUBE, rotation=120.0)), 48)
    np.testing.assert_array_equal(owner, quarter.owner)
    assert np.abs(image.astype(int) - quarter.image).max() <= 1
    assert (owner != render(scene_of(dataclasses.replace(RED_CUBE, rotation=75.0)), 48).owner).any()


def test_more_exposure_brightens_every_pixel() -> None:
    shader = default_shader()
    scene = sample_scene(0, 5)
    dark, bright = (render(scene, 32, shader._replace(exposure=value)).image for value in (0.8, 1.6))
    assert (bright >= dark).all()
    assert bright.mean() > dark.mean() + 20


def test_nothing_is_mirrored_by_metal_that_mirrors_nothing() -> None:
    shader = default_shader()._replace(metal_mirror=0.0)
    image, owner = render(scene_of(CHROME_BALL, RED_CUBE), 96, shader)
    pixels = image[inner(owner == 0)].astype(int)
    assert (pixels.max(axis=1) - pixels.min(axis=1)).max() <= 1
