"""A tiny checkout of a book, made anew for every test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from heatcheck.publish.places import Places

PARAMETERS = """\
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/tiny/latest"  # folder of the exports
store: str = ".cache/store"  # folder of the results store
n_images: int = 4  # images that are explained
rate: float = 0.5  # share of the pixels
methods: list[str] = ["gradient"]  # attribution methods
plugins: list[str] = []  # Python files
"""
Write = Callable[..., Path]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    root = tmp_path / "checkout"
    (root / "nbs").mkdir(parents=True)
    (root / "book").mkdir()
    (root / "book" / "intro.md").write_text("# Intro\n\nWords.\n")
    (root / "_toc.yml").write_text(
        "format: jb-book\nroot: book/intro\nchapters:\n- file: book/chapters/tiny\n"
    )
    (root / "_config.yml").write_text(
        'title: Tiny\nauthor: Nobody\nonly_build_toc_files: true\nexecute: {execute_notebooks: "off"}\n'
        'exclude_patterns: [".*", _build, nbs, "**.failed.ipynb"]\n'
    )
    (root / "nbs" / "presets.toml").write_text("[smoke.tiny]\nn_images = 2\n\n[paper.tiny]\nrate = 1\n")
    return Places(root, root)


@pytest.fixture
def write(places: Places) -> Write:
    """Writes a chapter of code cells below the usual parameters."""

    def write_chapter(*cells: str, name: str = "tiny", parameters: str = PARAMETERS) -> Path:
        head = '# %% [markdown]\nr"""\n# Tiny\n\n$\\alpha$\n"""\n\n# %% tags=["parameters"]\n'
        path = places.source(name)
        path.write_text(head + parameters + "".join(f"\n# %%\n{cell}\n" for cell in cells))
        return path

    return write_chapter
