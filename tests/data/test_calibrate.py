import json
from pathlib import Path

import numpy as np
import pytest

from heatcheck.data.calibrate import (
    Errors,
    Reference,
    calibrate,
    errors,
    halved,
    read_reference,
    recalibrate,
    rounded_shader,
    write_shader,
)
from heatcheck.data.raycaster import render
from heatcheck.data.scenes import sample_scene
from heatcheck.data.shader import default_shader, parse_shader


@pytest.fixture(scope="module")
def own_renders() -> Reference:
    scenes = tuple(sample_scene(0, index) for index in range(2))
    images, owners = zip(*(render(scene, 16) for scene in scenes), strict=True)
    return Reference(scenes, np.stack(images), np.stack(owners))


def test_own_renders_have_no_error(own_renders: Reference) -> None:
    assert errors(default_shader(), own_renders) == Errors(0.0, 0.0)


def test_errors_count_objects_and_background_apart(own_renders: Reference) -> None:
    on_object = (own_renders.owners >= 0)[..., None]
    shifted = own_renders.images + np.where(on_object, 3, 1).astype(np.uint8)
    assert errors(default_shader(), own_renders._replace(images=shifted)) == Errors(3.0, 1.0)


def test_calibration_finds_changed_constants_again(own_renders: Reference) -> None:
    shader = default_shader()
    names = ("exposure", "rubber_exponent")
    start = shader._replace(exposure=shader.exposure * 1.3, rubber_exponent=shader.rubber_exponent * 0.8)
    found, loss = calibrate(own_renders, start, rounds=12, names=names)
    assert loss < 0.1 * errors(start, own_renders).loss
    assert found.exposure == pytest.approx(shader.exposure, rel=0.02)
    assert found._replace(exposure=0, rubber_exponent=0) == shader._replace(exposure=0, rubber_exponent=0)


def test_calibration_never_ends_worse_than_it_began(own_renders: Reference) -> None:
    assert calibrate(own_renders, default_shader(), rounds=1) == (default_shader(), 0.0)


def test_written_constants_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "shader.json"
    write_shader(path, default_shader(), {"source": "test"})
    assert parse_shader(json.loads(path.read_text())) == default_shader()


def test_the_reference_scenes_are_read_with_all_their_objects() -> None:
    reference = read_reference(Path(__file__).parents[1] / "golden" / "clevr_render_reference.npz")
    assert len(reference.scenes) == 8
    for scene, owner in zip(reference.scenes, reference.owners, strict=True):
        assert set(np.unique(owner)) == set(range(-1, len(scene.objects)))
    assert reference.take([2, 5]).scenes == (reference.scenes[2], reference.scenes[5])


def test_a_recalibration_writes_constants_that_can_be_read_and_their_errors(
    own_renders: Reference, tmp_path: Path
) -> None:
    start = rounded_shader(default_shader())
    fitted, unseen = recalibrate(own_renders, start, tmp_path / "shader.json", n_fit=1)
    document = json.loads((tmp_path / "shader.json").read_text())
    found = parse_shader(document)
    assert found == rounded_shader(found)
    assert fitted == errors(found, own_renders.take([0]))
    assert unseen == errors(found, own_renders.take([1]))
    assert document["object_error"]["unseen"] == round(unseen.objects, 2)


def test_half_the_size_is_the_mean_of_four_pixels(own_renders: Reference) -> None:
    half = halved(own_renders)
    assert half.images.shape == (2, 8, 8, 3)
    expected = own_renders.images[1, 4:6, 10:12].reshape(4, 3).mean(axis=0)
    assert np.abs(half.images[1, 2, 5] - expected).max() <= 0.5
    np.testing.assert_array_equal(half.owners[0, 3], own_renders.owners[0, 6, ::2])
