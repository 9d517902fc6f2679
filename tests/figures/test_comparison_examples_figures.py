import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from heatcheck.figures.comparison_examples import verdict_figure

TITLES = ["CLEVR-XAI", "Deletion and localization", "Single deletion", "Remove and retrain"]


def make(n_methods: int) -> tuple[np.ndarray, dict[str, np.ndarray], pd.DataFrame]:
    random = np.random.default_rng(0)
    methods = [f"method-{number}" for number in range(n_methods)]
    ranks = pd.DataFrame(random.integers(1, 9, (n_methods, 4)).astype(float), index=methods, columns=TITLES)
    return random.random((8, 8, 3)), {name: random.normal(size=(8, 8)) for name in methods}, ranks


def texts_of(figure: Figure) -> list[str]:
    return [text.get_text() for axis in figure.axes for text in axis.texts]


def test_every_map_stands_over_its_ranks_and_the_image_over_the_initials() -> None:
    picture, maps, ranks = make(8)
    ranks.iloc[2, 1] = np.nan
    figure = verdict_figure(picture, maps, ranks)
    titles = [axis.get_title(loc="center") for axis in figure.axes]
    assert [title for title in titles if title] == ["image", *ranks.index]
    texts = texts_of(figure)
    assert texts[:4] == ["C", "D", "S", "R"]
    wanted = [f"{value:.0f}" if not np.isnan(value) else "" for value in ranks.to_numpy().ravel()]
    assert texts[4:] == wanted


def test_methods_without_a_map_are_left_out_and_without_any_map_it_is_refused() -> None:
    picture, maps, ranks = make(3)
    del maps["method-1"]
    titles = [axis.get_title(loc="center") for axis in verdict_figure(picture, maps, ranks).axes]
    assert [title for title in titles if title] == ["image", "method-0", "method-2"]
    with pytest.raises(ValueError, match="no method has a map; there are maps of: none"):
        verdict_figure(picture, {}, ranks)
