"""Photographs decoded once."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from heatcheck.data import decoded
from heatcheck.data.decoded import decode_once
from heatcheck.data.preprocessing import Pixels, crop_pixels, preprocess


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoded, "BLOCK", 4)


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "photos"
    folder.mkdir()
    generator = np.random.default_rng(0)
    paths = [folder / f"{row:02d}.png" for row in range(10)]
    for path in paths:
        Image.fromarray(generator.integers(0, 256, (14, 18, 3), dtype=np.uint8)).save(path)
    return paths


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


class Counter:
    """Counts the images that are decoded, and can fail at one of them."""

    def __init__(self, fail_at: int | None = None) -> None:
        self.seen: list[str] = []
        self.fail_at = fail_at

    def __call__(self, path: Path, mode: str, size: int) -> Pixels:
        if self.fail_at is not None and path.stem == f"{self.fail_at:02d}":
            raise KeyboardInterrupt
        self.seen.append(path.stem)
        return crop_pixels(path, mode, size)


def test_the_array_holds_the_crops(photos: list[Path], tmp_path: Path) -> None:
    result = decode_once(names(photos), photos, tmp_path / "cache", mode="short256", size=8, verify=True)
    assert result.ids == tuple(names(photos))
    assert result.pixels.shape == (10, 8, 8, 3)
    assert isinstance(result.pixels, np.memmap)
    expected = torch.stack([preprocess(photos[row], "short256", 8) for row in (7, 2)])
    torch.testing.assert_close(result.images([7, 2]), expected, atol=0, rtol=0)


def test_the_result_does_not_depend_on_the_number_of_threads(photos: list[Path], tmp_path: Path) -> None:
    one = decode_once(names(photos), photos, tmp_path / "one", size=8, workers=1)
    many = decode_once(names(photos), photos, tmp_path / "many", size=8, workers=4)
    assert one.path.read_bytes() == many.path.read_bytes()
    assert one.path.name == many.path.name


def test_a_finished_array_is_not_decoded_again(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    monkeypatch.setattr(decoded, "crop_pixels", counter)
    for _ in range(2):
        decode_once(names(photos), photos, tmp_path, size=8)
    assert sorted(counter.seen) == names(photos)


def test_a_stopped_run_goes_on_where_it_was(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr(decoded, "crop_pixels", Counter(fail_at=9))
    with pytest.raises(KeyboardInterrupt):
        decode_once(names(photos), photos, cache, size=8, workers=1)
    assert not list(cache.glob("*.npy"))
    counter = Counter()
    monkeypatch.setattr(decoded, "crop_pixels", counter)
    result = decode_once(names(photos), photos, cache, size=8, verify=True)
    assert sorted(counter.seen) == ["08", "09"]
    np.testing.assert_array_equal(result.pixels[0], crop_pixels(photos[0], "squash256", 8))
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".npy"]


def test_a_block_that_was_damaged_before_the_end_is_decoded_again(
    photos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setattr(decoded, "crop_pixels", Counter(fail_at=9))
    with pytest.raises(KeyboardInterrupt):
        decode_once(names(photos), photos, cache, size=8, workers=1)
    part = next(cache.glob("*.part"))
    content = bytearray(part.read_bytes())
    content[200] ^= 255
    part.write_bytes(content)
    with next(cache.glob("*.journal")).open("a", encoding="utf-8") as file:
        file.write("8 half a li")
    monkeypatch.setattr(decoded, "crop_pixels", crop_pixels)
    result = decode_once(names(photos), photos, cache, size=8, verify=True)
    expected = np.stack([crop_pixels(path, "squash256", 8) for path in photos])
    np.testing.assert_array_equal(result.pixels, expected)


@pytest.mark.parametrize("change", ["mode", "size", "file", "name"])
def test_whatever_changes_the_pixels_makes_another_array(
    change: str, photos: list[Path], tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    first = decode_once(names(photos), photos, cache, size=8)
    if change == "file":
        Image.new("RGB", (30, 30)).save(photos[3])
    other_names = [f"x{name}" for name in names(photos)] if change == "name" else names(photos)
    second = decode_once(
        other_names,
        photos,
        cache,
        mode="squash224" if change == "mode" else "squash256",
        size=9 if change == "size" else 8,
    )
    assert second.path != first.path


def test_a_damaged_array_is_found_when_verified(photos: list[Path], tmp_path: Path) -> None:
    result = decode_once(names(photos), photos, tmp_path / "cache", size=8)
    path = result.path
    content = bytearray(path.read_bytes())
    content[-1] ^= 255
    del result
    path.write_bytes(content)
    with pytest.raises(ValueError, match="differ from their checksum from row 8; delete"):
        decode_once(names(photos), photos, tmp_path / "cache", size=8, verify=True)


def test_a_truncated_array_is_named(photos: list[Path], tmp_path: Path) -> None:
    path = decode_once(names(photos), photos, tmp_path / "cache", size=8).path
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=rf"{path.name} are damaged .* delete"):
        decode_once(names(photos), photos, tmp_path / "cache", size=8)


def test_a_manifest_names_every_image_and_block(photos: list[Path], tmp_path: Path) -> None:
    path = decode_once(names(photos), photos, tmp_path / "cache", size=8).path
    manifest = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert manifest["ids"] == names(photos)
    assert len(manifest["sha256"]) == 3


def test_a_missing_and_a_damaged_image_are_named(photos: list[Path], tmp_path: Path) -> None:
    photos[5].write_bytes(photos[5].read_bytes()[:40])
    with pytest.raises(ValueError, match=r"05\.png cannot be read"):
        decode_once(names(photos), photos, tmp_path / "cache", size=8)
    photos[5].unlink()
    with pytest.raises(FileNotFoundError, match=r"05\.png is missing"):
        decode_once(names(photos), photos, tmp_path / "cache", size=8)


def test_a_folder_that_cannot_be_made_is_named(photos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(OSError, match=r"cannot write decoded images to .*file.*name a folder you may write"):
        decode_once(names(photos), photos, tmp_path / "file", size=8)


def test_ids_and_paths_go_together(photos: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="1 ids, but 10 paths"):
        decode_once(["a"], photos, tmp_path, size=8)
