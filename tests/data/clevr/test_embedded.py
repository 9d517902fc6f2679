"""The embedded evaluation set: what ships, and how it reaches the cache folder."""

import hashlib
import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest

from heatcheck.data.cache import CACHE_VARIABLE, CacheError
from heatcheck.data.clevr import embedded
from heatcheck.data.clevr.embedded import (
    ARCHIVE,
    MANIFEST,
    EmbeddedError,
    assets_folder,
    load_embedded,
    read_manifest,
    unpack,
)
from heatcheck.data.clevr.embedded_making import FIRST, N_SCENES, SEED, SIZE, make_embedded
from heatcheck.data.clevr.generate import complex_questions, simple_questions
from heatcheck.data.clevr.program import facts_of
from heatcheck.data.raycaster import render
from heatcheck.data.rendered import SPLITS
from heatcheck.data.scene_graph import scene_graph
from heatcheck.data.scenes import sample_scene
from heatcheck.data.shader import default_shader, shader_hash


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    load_embedded.cache_clear()


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Assets of an archive with two files."""
    folder = tmp_path / "assets"
    folder.mkdir()
    with zipfile.ZipFile(folder / ARCHIVE, "w") as archive:
        archive.writestr("images/a.png", b"picture")
        archive.writestr("scenes.json", b"{}")
    digest = hashlib.sha256((folder / ARCHIVE).read_bytes()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps({"sha256": digest}))
    return folder


def test_the_manifest_says_what_ships_and_how_it_was_made() -> None:
    manifest = read_manifest()
    assert manifest["n_scenes"] == N_SCENES == 256
    assert (manifest["seed"], manifest["first_scene"], manifest["image_size"]) == (SEED, FIRST, SIZE)
    assert manifest["shader_sha256"] == shader_hash(default_shader())
    assert manifest["license"] == "Apache-2.0"
    assert manifest["source"]
    content = (assets_folder() / ARCHIVE).read_bytes()
    assert hashlib.sha256(content).hexdigest() == manifest["sha256"]
    assert len(content) < 4_000_000


def test_its_scenes_are_in_no_other_split() -> None:
    assert SPLITS["test"] == FIRST
    assert all(start + 1_000_000 <= FIRST for name, start in SPLITS.items() if name != "test")


def test_both_kinds_of_questions_open_with_as_many_as_the_manifest_says() -> None:
    manifest = read_manifest()
    simple, complex_ = load_embedded(kind="simple"), load_embedded(kind="complex")
    assert len(simple.questions) == manifest["n_simple_questions"]
    assert len(complex_.questions) == manifest["n_complex_questions"] == 10 * N_SCENES
    assert set(simple.scenes) == set(complex_.scenes) == set(range(FIRST, FIRST + N_SCENES))
    assert simple.stored == {}
    assert {question.answer for question in complex_.questions} >= {
        "yes",
        "no",
        "0",
        "5",
        "cube",
        "cyan",
        "small",
    }


def test_images_masks_and_questions_are_what_the_code_makes() -> None:
    scenes = [sample_scene(SEED, FIRST + number) for number in range(4)]
    simple, complex_ = load_embedded(kind="simple"), load_embedded(kind="complex")
    for scene in scenes[:2]:
        assert np.array_equal(simple.owners(scene.index), render(scene, (320, 480)).owner)
        # Rounding may differ by one where another processor orders its sums in another way.
        apart = np.abs(simple.pixels(scene.index, SIZE).astype(int) - render(scene, SIZE).image)
        assert apart.max() <= 1
        assert (apart > 0).mean() < 1e-3
    facts = [facts_of(scene_graph(scene)) for scene in scenes]
    last = FIRST + len(scenes)
    assert simple_questions(facts, seed=SEED, first=FIRST) == [q for q in simple.questions if q.image < last]
    assert complex_questions(facts, seed=SEED, first=FIRST) == [
        q for q in complex_.questions if q.image < last
    ]


def test_files_are_unpacked_once_and_mended_when_damaged(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = unpack(small)
    assert (folder / "images" / "a.png").read_bytes() == b"picture"
    with monkeypatch.context() as patch:
        patch.setattr(embedded, "_unpack", lambda *_: pytest.fail("unpacked again"))
        assert unpack(small) == folder
    (folder / "images" / "a.png").write_bytes(b"pictura")
    (folder / "scenes.json").unlink()
    assert unpack(small) == folder
    assert (folder / "images" / "a.png").read_bytes() == b"picture"
    assert (folder / "scenes.json").read_bytes() == b"{}"
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_another_archive_goes_to_another_folder(small: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(small, other)
    with zipfile.ZipFile(other / ARCHIVE, "a") as archive:
        archive.writestr("more", b"")
    digest = hashlib.sha256((other / ARCHIVE).read_bytes()).hexdigest()
    (other / MANIFEST).write_text(json.dumps({"sha256": digest}))
    assert unpack(small) != unpack(other)


def test_a_changed_or_missing_archive_is_refused(small: Path) -> None:
    (small / ARCHIVE).write_bytes((small / ARCHIVE).read_bytes() + b"x")
    with pytest.raises(
        EmbeddedError, match=r"has sha256 .*, its manifest says .*; install the package again"
    ):
        unpack(small)
    (small / ARCHIVE).unlink()
    with pytest.raises(EmbeddedError, match=r"cannot read .*embedded\.zip.*; install the package again"):
        unpack(small)
    (small / MANIFEST).write_text("{}")
    with pytest.raises(
        EmbeddedError, match=r"cannot read the manifest .*sha256.*; install the package again"
    ):
        unpack(small)


def test_a_cache_folder_that_cannot_be_used_is_named(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(CacheError, match=f"set {CACHE_VARIABLE} to a folder you may write"):
        unpack(small)


def test_making_it_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    one, other = (make_embedded(tmp_path / name, n_scenes=1, workers=1) for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()
    manifest = read_manifest(tmp_path / "one")
    assert manifest == read_manifest(tmp_path / "other")
    assert manifest["n_complex_questions"] == 10
