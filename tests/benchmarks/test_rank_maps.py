"""Level maps on disk."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from heatcheck.benchmarks import rank_maps
from heatcheck.benchmarks.rank_maps import (
    RankMaps,
    RankMapSpec,
    RankMapWriter,
    fill_rank_maps,
    open_rank_maps,
)
from heatcheck.metrics.levels import percent_levels, selected
from heatcheck.runtime import blocks

N = 10
GRID = (10, 30, 50, 70, 90)
MAPS = torch.randn(N, 3, 5, 7, generator=torch.Generator().manual_seed(0))
PIXELS = RankMapSpec("grad", "digest", N, (1, 5, 7), "pixel", "sum")
ELEMENTS = RankMapSpec("grad", "digest", N, (3, 5, 7), "element", None)
SPECS = {
    "pixel": PIXELS,
    "element": ELEMENTS,
    "pixel, grid": replace(PIXELS, grid=GRID),
    "element, grid": replace(ELEMENTS, grid=GRID),
    "pixel, one percentage": replace(PIXELS, grid=(50,)),
    "pixel, absolute": replace(PIXELS, aggregate="abs_sum"),
}
every_spec = pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rank_maps, "BLOCK", 4)


class Estimator:
    """Counts the blocks it is asked for, and can stop at one of them."""

    def __init__(self, specs: Mapping[str, RankMapSpec], stop_at: int | None = None) -> None:
        self.specs, self.stop_at = specs, stop_at
        self.asked: list[tuple[int, list[str]]] = []

    def __call__(self, rows: slice, names: Sequence[str]) -> dict[str, Tensor]:
        if rows.start == self.stop_at:
            raise KeyboardInterrupt
        self.asked.append((rows.start, list(names)))
        return {name: self.specs[name].levels(MAPS[rows]) for name in names}


def fill(folder: Path, spec: RankMapSpec) -> RankMaps:
    return fill_rank_maps(folder, {"x": spec}, Estimator({"x": spec}))["x"]


@every_spec
def test_what_is_read_selects_what_was_written(spec: RankMapSpec, tmp_path: Path) -> None:
    maps = fill(tmp_path, spec)
    levels = maps.read(range(N))
    assert levels.shape == (N, *spec.shape)
    assert levels.dtype == torch.uint8
    exact = percent_levels(MAPS) if spec.aggregate is None else replace(spec, grid=None).levels(MAPS)
    for percent in spec.percents:
        assert torch.equal(selected(levels, percent), selected(exact, percent))
    assert torch.equal(maps.read([7, 2, 2]), levels[[7, 2, 2]])
    assert torch.equal(maps.read(slice(3, 9)), levels[3:9])
    assert len(maps) == N


@every_spec
def test_exact_levels_may_be_handed_to_a_grid(spec: RankMapSpec, tmp_path: Path) -> None:
    exact = replace(spec, grid=None).levels(MAPS)
    found = fill_rank_maps(tmp_path, {"x": spec}, lambda rows, names: {"x": exact[rows]})["x"]
    assert torch.equal(found.read(range(N)), spec.levels(MAPS))


@pytest.mark.parametrize(
    ("spec", "size"),
    [(ELEMENTS, 105), (SPECS["element, grid"], 53), (PIXELS, 35), (SPECS["pixel, grid"], 18)],
)
def test_a_map_takes_a_byte_per_unit_or_half_of_one(spec: RankMapSpec, size: int, tmp_path: Path) -> None:
    assert spec.row_bytes == size
    header = 128
    assert fill(tmp_path, spec).path.stat().st_size == header + N * size


def test_a_grid_refuses_percentages_it_does_not_know(tmp_path: Path) -> None:
    maps = fill(tmp_path, SPECS["pixel, grid"])
    assert [maps.require(percent) for percent in (0, 30, 100)] == [0, 30, 100]
    with pytest.raises(ValueError, match="not exact at 20 %; allowed: 0, 10, 30, 50, 70, 90, 100"):
        maps.require(20)


def test_finished_maps_are_not_computed_again(tmp_path: Path) -> None:
    estimator = Estimator({"x": PIXELS})
    for _ in range(2):
        fill_rank_maps(tmp_path, {"x": PIXELS}, estimator)
    assert estimator.asked == [(0, ["x"]), (4, ["x"]), (8, ["x"])]


def test_a_stopped_run_goes_on_at_the_block_where_it_was(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fill_rank_maps(tmp_path, {"x": PIXELS}, Estimator({"x": PIXELS}, stop_at=8))
    with pytest.raises(FileNotFoundError, match="no finished rank maps of grad"):
        open_rank_maps(tmp_path, PIXELS)
    estimator = Estimator({"x": PIXELS})
    maps = fill_rank_maps(tmp_path, {"x": PIXELS}, estimator)["x"]
    assert estimator.asked == [(8, ["x"])]
    assert torch.equal(maps.read(range(N)), PIXELS.levels(MAPS))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".json", ".npy"]


def test_one_pass_serves_all_estimators_and_only_those_that_lack_a_block(tmp_path: Path) -> None:
    specs = {"a": PIXELS, "b": ELEMENTS}
    writer = RankMapWriter(tmp_path, PIXELS)
    writer.write(4, PIXELS.levels(MAPS[4:8]))
    estimator = Estimator(specs)
    found = fill_rank_maps(tmp_path, specs, estimator)
    assert estimator.asked == [(0, ["a", "b"]), (4, ["b"]), (8, ["a", "b"])]
    assert torch.equal(found["a"].read(range(N)), PIXELS.levels(MAPS))
    assert torch.equal(found["b"].read(range(N)), ELEMENTS.levels(MAPS))


def test_a_block_damaged_before_the_end_is_computed_again(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fill_rank_maps(tmp_path, {"x": PIXELS}, Estimator({"x": PIXELS}, stop_at=8))
    part = next(tmp_path.glob("*.part"))
    content = bytearray(part.read_bytes())
    content[130] ^= 255
    part.write_bytes(content)
    with next(tmp_path.glob("*.journal")).open("a", encoding="utf-8") as file:
        file.write("8 half a li")
    estimator = Estimator({"x": PIXELS})
    maps = fill_rank_maps(tmp_path, {"x": PIXELS}, estimator)["x"]
    assert [start for start, _ in estimator.asked] == [0, 8]
    assert torch.equal(maps.read(range(N)), PIXELS.levels(MAPS))


def test_a_block_damaged_later_is_named(tmp_path: Path) -> None:
    maps = fill(tmp_path, PIXELS)
    path = maps.path
    del maps
    content = bytearray(path.read_bytes())
    content[128 + 5 * 35] ^= 255
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"grad are damaged: block 1 \(rows 4 to 7\) .* delete"):
        open_rank_maps(tmp_path, PIXELS, verify=True)


@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_a_truncated_file_is_named(suffix: str, tmp_path: Path) -> None:
    path = fill(tmp_path, PIXELS).path.with_suffix(suffix)
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"damaged .* delete"):
        open_rank_maps(tmp_path, PIXELS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": "other"}, "data 'digest' instead of 'other'"),
        ({"aggregate": "max_abs"}, "aggregate 'sum' instead of 'max_abs'"),
        ({"grid": GRID}, r"grid None instead of \[10, 30, 50, 70, 90\]"),
        ({"ties": "hash"}, "ties 'index' instead of 'hash'"),
        ({"granularity": "element", "aggregate": None}, "granularity 'pixel' instead of 'element'"),
        ({"estimator": "ig"}, "no finished rank maps of ig in .*; compute them first"),
    ],
)
def test_maps_of_another_kind_are_refused_and_told_apart(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    fill(tmp_path, PIXELS)
    with pytest.raises(FileNotFoundError, match=message):
        open_rank_maps(tmp_path, replace(PIXELS, **change))


def test_a_manifest_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    path = fill(tmp_path, PIXELS).path.with_suffix(".json")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(manifest | {"data": "other"}), encoding="utf-8")
    with pytest.raises(ValueError, match="of another kind than their name says"):
        open_rank_maps(tmp_path, PIXELS)


def test_the_manifest_says_what_the_maps_are(tmp_path: Path) -> None:
    maps = fill(tmp_path, SPECS["pixel, grid"])
    manifest = json.loads(maps.path.with_suffix(".json").read_text(encoding="utf-8"))
    expected = {"estimator": "grad", "data": "digest", "granularity": "pixel", "aggregate": "sum"}
    assert {name: manifest[name] for name in expected} == expected
    assert (manifest["grid"], manifest["shape"], len(manifest["sha256"])) == (list(GRID), [1, 5, 7], 3)
    assert manifest["version"]


def test_maps_of_an_unfinished_store_are_not_published(tmp_path: Path) -> None:
    writer = RankMapWriter(tmp_path, PIXELS)
    writer.write(0, PIXELS.levels(MAPS[:4]))
    assert [(rows.start, rows.stop) for rows in writer.missing()] == [(4, 8), (8, 10)]
    with pytest.raises(ValueError, match=r"lack 2 block\(s\), the first at row 4"):
        writer.publish()


@pytest.mark.parametrize(
    ("start", "levels", "message"),
    [
        (2, torch.zeros(4, 1, 5, 7).byte(), "multiples of 4 below 10"),
        (12, torch.zeros(4, 1, 5, 7).byte(), "multiples of 4 below 10"),
        (8, torch.zeros(4, 1, 5, 7).byte(), r"this one has \(2, 1, 5, 7\)"),
        (0, torch.zeros(4, 3, 5, 7).byte(), r"got levels \(4, 3, 5, 7\)"),
        (0, torch.zeros(4, 1, 5, 7), "torch.float32"),
        (0, torch.full((4, 1, 5, 7), 100).byte(), "from 0 to 99"),
    ],
)
def test_a_wrong_block_is_refused(start: int, levels: Tensor, message: str, tmp_path: Path) -> None:
    writer = RankMapWriter(tmp_path, PIXELS)
    with pytest.raises(ValueError, match=message):
        writer.write(start, levels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": (3, 5, 7)}, r"pixels need \(1, H, W\)"),
        ({"aggregate": None}, "and an aggregate"),
        ({"granularity": "element"}, r"elements \(C, H, W\) and None"),
        ({"granularity": "patch"}, "unknown granularity 'patch'"),
        ({"grid": tuple(range(1, 17))}, "a grid of 16 percentages does not fit; 15 do"),
        ({"grid": (30, 10)}, "ascending order"),
        ({"n_images": 0}, "hold nothing"),
    ],
)
def test_a_spec_whose_fields_do_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(PIXELS, **change)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(OSError, match=r"cannot write rank maps to .*file.*name a folder you may write"):
        RankMapWriter(tmp_path / "file", PIXELS)
    with pytest.raises(ValueError, match="a, b have different numbers of images"):
        fill_rank_maps(tmp_path, {"a": PIXELS, "b": replace(PIXELS, n_images=3)}, Estimator({}))


def test_a_disk_that_forgets_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "block_digest", lambda *_: "forgotten")
    with pytest.raises(ValueError, match=r"lack 3 block\(s\)"):
        fill(tmp_path, PIXELS)
