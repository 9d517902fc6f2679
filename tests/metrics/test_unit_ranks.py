"""Order statistics of long rows, found without sorting."""

import numpy as np
import pytest

from heatcheck.metrics import unit_ranks
from heatcheck.metrics.unit_ranks import order_statistics

N = 12_000
NUMBERS = np.random.default_rng(0)
ROWS = {
    "normal": NUMBERS.standard_normal(N),
    "of all sizes": NUMBERS.standard_normal(N) * 10.0 ** NUMBERS.integers(-30, 30, N),
    "mostly zeros of both signs": np.where(NUMBERS.random(N) < 0.1, NUMBERS.standard_normal(N), -0.0)
    * NUMBERS.choice([-1, 1], N),
    "constant": np.full(N, -2.5),
    "few values": NUMBERS.integers(-2, 3, N) / 2,
    "negative": -NUMBERS.random(N),
    "the smallest there are": NUMBERS.integers(-9, 9, N) * 1e-45,
    "ascending": np.linspace(-1, 1, N),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_long_row_has_the_values_that_sorting_finds(row: np.ndarray, dtype: type) -> None:
    values: np.ndarray = np.stack([row, row[::-1]]).astype(dtype)
    places = sorted(
        {0, 1, 2, N // 10 - 1, N // 10, N // 2, N - 2, N - 1, *NUMBERS.integers(0, N, 8).tolist()}
    )
    np.testing.assert_array_equal(order_statistics(values, places), np.sort(values, axis=1)[:, places])


def test_rows_of_any_length_go_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    values = NUMBERS.standard_normal((3, 40)).astype(np.float32)
    expected = np.sort(values, axis=1)[:, [0, 7, 39]]
    np.testing.assert_array_equal(order_statistics(values, [0, 7, 39]), expected)
    monkeypatch.setattr(unit_ranks, "_LARGE", 1)
    np.testing.assert_array_equal(order_statistics(values, [0, 7, 39]), expected)
