from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from heatcheck.figures.removal import mask_paths_figure, removal_figure
from heatcheck.figures.style import look


class Removal(NamedTuple):
    seen: np.ndarray
    removed: np.ndarray
    probabilities: np.ndarray
    heatmaps: np.ndarray


@pytest.fixture
def removals(images: np.ndarray) -> dict[str, Removal]:
    maps = np.random.default_rng(1).normal(size=images.shape[:3])
    first = Removal(1 - images, np.array([0.25, 0.5]), np.array([0.1, 0.2]), maps)
    return {"lime": first, "lime-g": first._replace(probabilities=np.array([0.7, 0.8]))}


def labels(figure: Figure) -> list[str]:
    return [text for axis in figure.axes if (text := axis.get_xlabel())]


def test_each_row_shows_the_image_and_for_each_method_its_removal_and_map(
    images: np.ndarray, removals: dict[str, Removal]
) -> None:
    figure = removal_figure(images, np.array([0.9, 0.95]), removals, ["one", "two"])
    figure.draw_without_rendering()
    drawn = [np.asarray(axis.images[0].get_array()) for axis in figure.axes]
    assert len(drawn) == 2 * 5
    assert np.allclose(drawn[0], images[0])
    assert np.allclose(drawn[1], removals["lime"].seen[0])
    assert labels(figure)[:3] == ["p = 0.90", "p = 0.10, 25% removed", "p = 0.70, 25% removed"]
    titles = [axis.get_title(loc="left") for axis in figure.axes[:5]]
    assert titles[1].startswith("lime\n")
    assert titles[3].startswith("lime-g\n")
    assert figure.axes[0].get_ylabel() == "one"


def test_without_removals_the_figure_says_so(images: np.ndarray) -> None:
    figure = removal_figure(images, np.array([0.9, 0.95]), {}, ["one", "two"])
    assert "was run" in figure.texts[0].get_text()


def test_numbers_that_do_not_fit_are_refused(images: np.ndarray, removals: dict[str, Removal]) -> None:
    with pytest.raises(ValueError, match=r"differ in number: \[1, 2\]"):
        removal_figure(images, np.array([0.9, 0.95]), removals, ["one"])


@pytest.fixture
def paths() -> pd.DataFrame:
    rows = [
        (path, method, iteration, p, p - 0.1, p + 0.1, 0.5)
        for path, method in (("MP", "meaningful-perturbation"), ("MP-G", "meaningful-perturbation-g"))
        for iteration, p in ((100, 0.2), (0, 0.8), (1, 0.6))
    ]
    return pd.DataFrame(
        rows, columns=["path", "method", "iteration", "probability", "low", "high", "removed"]
    )


def test_a_path_is_drawn_by_iteration_in_the_color_of_its_method(paths: pd.DataFrame) -> None:
    left, right = mask_paths_figure(paths).axes
    lines = left.get_lines()
    assert [list(np.asarray(line.get_xdata())) for line in lines] == [[0, 1, 100]] * 2
    assert list(np.asarray(lines[0].get_ydata())) == [0.8, 0.6, 0.2]
    assert [line.get_color() for line in lines] == [
        look(name).color for name in ("meaningful-perturbation", "meaningful-perturbation-g")
    ]
    assert len({str(line.get_linestyle()) for line in lines}) == 2
    assert len(right.get_lines()) == 2


def test_a_run_without_masks_says_so_and_a_missing_column_is_named(paths: pd.DataFrame) -> None:
    assert "no mask" in mask_paths_figure(paths[:0]).texts[0].get_text()
    with pytest.raises(ValueError, match="no column removed"):
        mask_paths_figure(paths.drop(columns="removed"))
