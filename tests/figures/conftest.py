"""Small tables and images that the figure tests draw."""

import itertools

import numpy as np
import pandas as pd
import pytest

METHODS = ("gradient", "rise", "own-method", "random", "constant")


@pytest.fixture
def curves() -> pd.DataFrame:
    cases = itertools.product(
        METHODS, (("deletion", "zero"), ("insertion", "blur")), (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    rows = [
        ("scenes", method, direction, fill, x, 0.8 - 0.5 * x, 0.7 - 0.5 * x, 0.9 - 0.5 * x)
        for method, (direction, fill), x in cases
    ]
    return pd.DataFrame(
        rows, columns=["data", "method", "direction", "fill", "fraction", "mean", "low", "high"]
    )


@pytest.fixture
def summary() -> pd.DataFrame:
    rows = [
        (
            "scenes",
            method,
            metric,
            0.1 * place,
            0.1 * place - 0.05,
            0.1 * place + 0.05,
            8,
            place % 2,
            place > 2,
            better,
        )
        for metric, better in (("deletion", "lower"), ("insertion", "higher"))
        for place, method in enumerate(METHODS)
    ]
    names = ["data", "method", "metric", "mean", "low", "high", "n", "flagged", "is_control", "better"]
    return pd.DataFrame(rows, columns=names)


@pytest.fixture
def localization() -> pd.DataFrame:
    rows = [
        (method, alpha, abs(alpha - 0.3), 0.0, 1.0, alpha == 0.3)
        for method in METHODS
        for alpha in (0.1, 0.3, 0.5)
    ]
    return pd.DataFrame(rows, columns=["method", "alpha", "error", "low", "high", "chosen"])


@pytest.fixture
def fills() -> pd.DataFrame:
    rows = [
        (method, fill, 0.1 * ((place + turn) % len(METHODS)), 0.0, 0.5)
        for place, method in enumerate(METHODS)
        for turn, fill in enumerate(("zero", "blur", "noise"))
    ]
    return pd.DataFrame(rows, columns=["method", "fill", "mean", "low", "high"])


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).random((2, 12, 16, 3))


@pytest.fixture
def heatmaps() -> dict[str, np.ndarray]:
    random = np.random.default_rng(1)
    return {method: random.normal(size=(2, 12, 16)) for method in METHODS}
