"""The cases of removal: both sides give the same images, and bytes are counted as they are on disk."""

import pytest
from tests.benchmarks.peers.case import relative_difference
from tests.benchmarks.peers.removal_cases import (
    STORAGE_HEADER,
    imputation_sides,
    removal_sides,
    storage_bytes,
    storage_table,
)


@pytest.mark.parametrize("unit", ["channel values", "pixels"])
def test_both_sides_remove_the_same_units(unit: str) -> None:
    sides = removal_sides(unit, n=2, side=20)
    assert relative_difference(sides.ours(), sides.theirs()) == 0


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("kind", ["scattered", "in blobs"])
def test_both_sides_impute_the_same_colors(kind: str, together: bool) -> None:
    sides = imputation_sides(kind, together=together, n=2, side=20)
    assert relative_difference(sides.ours(), sides.theirs()) < 1e-5


def test_levels_of_imagenet_take_the_bytes_that_were_computed_by_hand() -> None:
    found = {label: size / 1e9 for label, size in storage_bytes(1_331_167, 224).items()}
    expected = {
        "levels of channel values, every percentage": 200,
        "levels of channel values, 5 fractions": 100,
        "levels of pixels, every percentage": 66.8,
        "levels of pixels, 5 fractions": 33.4,
    }
    assert found == pytest.approx(expected, rel=0.003)
    table = storage_table()
    assert table[0] == STORAGE_HEADER
    assert table[4] == ["ImageNet", "levels of pixels, 5 fractions", "33.4", "601", "1 : 60"]
    assert table[5][1:4] == ["10 modified data sets", "2004", "36068"]
