"""Own methods through all benchmarks: what is run, what is written, and what is refused."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from heatcheck import cli
from heatcheck.attribution import registry
from heatcheck.attribution.catalog import load_catalog
from heatcheck.benchmarks import comparison
from heatcheck.benchmarks.comparison_columns import METRICS, Column
from heatcheck.publish.places import Places
from heatcheck.runtime import plugins
from heatcheck.runtime.store import ResultsStore

Write = Callable[..., Path]
PARAMETERS = """\
preset: str = "quick"  # name of the row in nbs/presets.toml
out: str = "book/results/comparison/latest"  # folder of the exports
store: str = ".cache/store"  # folder of the results store
methods: list[str] = ["gradient", "input-x-gradient", "random", "centre"]  # attribution methods
plugins: list[str] = []  # Python files
device: str = "cpu"  # where it is computed
on: str = "local"  # where cells are computed
n_shown: int = 2  # images of the page alone
"""
METHOD = """
@register({name!r}, family="own")
def {function}(model, images, targets, **_):
    return images
"""
ROOT = Path(__file__).parents[2]
HEAD = "from heatcheck.attribution.registry import register\n"
REASON = "needs questions"


class Call(NamedTuple):
    settings: comparison.Settings
    store: Path
    folder: Path


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets what a test's plug-ins registered."""
    before = dict(load_catalog())
    monkeypatch.setattr(plugins, "_LOADED", dict(plugins.loaded_plugins()))
    yield
    registry.METHODS.clear()
    registry.METHODS.update(before)


@pytest.fixture
def calls(places: Places, write: Write, monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Runs of the comparison that were asked for; each answers with scores by the place of a method."""
    made: list[Call] = []

    def run(settings: comparison.Settings, store: ResultsStore) -> comparison.Results:
        made.append(Call(settings, store.root.resolve(), Path.cwd()))
        names = tuple(settings.methods)
        noise = np.random.default_rng(0).normal(scale=0.01, size=(1, 20, len(names)))
        values = np.arange(len(names)) + noise
        refused = np.where([name.startswith("own") for name in names], np.nan, values)
        why = {name: REASON for name in names if name.startswith("own")}
        images = tuple(f"i{place}" for place in range(20))
        columns = (
            Column(METRICS["mass"], "relation", names, images, refused, why),
            Column(METRICS["insertion"], "resnet", names, images, values, {}),
        )
        return comparison.Results(settings, columns, (), {}, pd.DataFrame(), None)

    monkeypatch.setattr(comparison, "run", run)
    write("1", name="comparison", parameters=PARAMETERS)
    with (places.root / "nbs" / "presets.toml").open("a") as file:
        file.write('\n[smoke.comparison]\nmethods = ["gradient", "random"]\n')
    (places.root / "here").mkdir()
    monkeypatch.chdir(places.root / "here")
    return made


@pytest.fixture
def own(tmp_path: Path) -> Callable[..., Path]:
    def make(*names: str, file: str = "mine.py") -> Path:
        path = tmp_path / file
        methods = [METHOD.format(name=name, function=name.replace("-", "_")) for name in names]
        path.write_text(HEAD + "".join(methods))
        return path

    return make


def main(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(["compare", *map(str, arguments)])
    return int(exit_.value.code or 0)


def test_a_card_is_printed_and_written_with_all_its_files(
    calls: list[Call], own: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = own("own-map")
    assert main("--method", file) == 0
    folder = Path("card-own-map")
    assert sorted(path.name for path in folder.iterdir()) == [
        "card.csv", "card.md", "card.pdf", "card.svg", "card.tex", "manifest.json",
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert printed.startswith(
        "own-map: 1 of 2 metrics have a score: it is first in 1, ahead of every control in 1"
    )
    assert f"No mass: {REASON}." in printed
    assert printed.splitlines()[-1] == str(folder.resolve())
    assert "own-map & -- & 1 [1, 1]" in (folder / "card.tex").read_text()
    table = pd.read_csv(folder / "card.csv")
    assert list(table["metric"]) == ["mass", "insertion"]
    assert table["rank"].tolist()[1] == 1
    assert table["n_methods"].tolist() == [2, 3]
    assert (table["best"].iloc[1], table["control"].iloc[1]) == ("input-x-gradient", "centre")
    assert len(calls) == 1


def test_it_runs_as_the_chapter_would_with_the_method_behind_the_others(
    calls: list[Call], own: Callable[..., Path], places: Places, tmp_path: Path
) -> None:
    file = own("own-map")
    assert main("--method", file, "--preset", "smoke", "-p", "n_shown=1", "--store", tmp_path / "kept") == 0
    (call,) = calls
    assert call.settings.methods == ["gradient", "random", "own-map"]
    assert call.settings.plugins == [str(file)]
    assert (call.settings.preset, call.settings.device) == ("smoke", "cpu")
    assert call.store == tmp_path / "kept"
    # Paths in parameters start where chapters run.
    assert call.folder == places.root


def test_the_store_of_the_chapter_is_the_default(
    calls: list[Call], own: Callable[..., Path], places: Places
) -> None:
    assert main("--method", own("own-map")) == 0
    assert calls[0].store == places.root / ".cache" / "store"


def test_where_cells_are_computed_is_passed_on(calls: list[Call], own: Callable[..., Path]) -> None:
    assert main("--method", own("own-map"), "--on", "ray://head:1") == 0
    assert calls[0].settings.on == "ray://head:1"


def test_the_manifest_says_what_the_card_was_made_with(calls: list[Call], own: Callable[..., Path]) -> None:
    file = own("own-map")
    assert main("--method", file, "--preset", "smoke", "out/mine") == 0
    text = Path("out/mine/manifest.json").read_text()
    manifest = json.loads(text)
    assert manifest["method"] == "own-map"
    assert manifest["plugin"] == {"file": "mine.py", "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}
    assert manifest["parameters"]["methods"] == ["gradient", "random"]
    assert {"date", "device", "libraries", "preset", "chapter"} <= set(manifest)
    assert str(file.parent) not in text
    assert calls


def test_a_file_with_several_methods_gives_a_card_of_each_that_does_not_count_the_other(
    calls: list[Call], own: Callable[..., Path]
) -> None:
    assert main("--method", own("first-map", "second-map"), "cards") == 0
    assert calls[0].settings.methods[-2:] == ["first-map", "second-map"]
    for name in ("first-map", "second-map"):
        table = pd.read_csv(Path("cards", f"card-{name}", "card.csv"))
        assert table["rank"].tolist() == [1, 1]
        assert table["n_methods"].tolist() == [3, 3]


def test_a_named_method_of_several_is_run_alone(calls: list[Call], own: Callable[..., Path]) -> None:
    assert main("--method", own("first-map", "second-map"), "--name", "second-map", "cards") == 0
    assert calls[0].settings.methods[-2:] == ["centre", "second-map"]
    assert Path("cards/card.md").read_text().startswith("# second-map\n")
    assert not list(Path("cards").glob("card-*"))


def test_cards_go_where_everything_generated_goes(
    calls: list[Call], own: Callable[..., Path], tmp_path: Path
) -> None:
    assert main("--method", own("own-map"), "--into", tmp_path / "trial") == 0
    assert (tmp_path / "trial" / "card-own-map" / "card.svg").is_file()
    assert calls


REFUSED = [
    (["--method", "gone.py"], "gone.py: no such Python file"),
    (["--method", "notes.txt"], "notes.txt: no such Python file"),
    (
        ["--method", "mine.py", "--name", "yours"],
        "mine.py registers no method 'yours'; it registers: own-map",
    ),
    (["--method", "empty.py"], "empty.py registers no method; decorate a function with @register"),
    (["--method", "mine.py", "-p", "n_imags=3"], "unknown parameter 'n_imags'"),
    (["--method", "mine.py", "--preset", "papr"], "unknown preset 'papr'"),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[1])
def test_bad_input_ends_in_one_line_and_code_two_before_anything_runs(
    case: tuple[list[str], str],
    calls: list[Call],
    own: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments, says = case
    own("own-map")
    own(file="empty.py")
    (tmp_path / "notes.txt").write_text("x")
    assert main("--method", tmp_path / arguments[1], *arguments[2:]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("heatcheck: ")
    assert captured.err.count("\n") == 1
    assert says in captured.err
    assert not calls
    assert not list(Path.cwd().iterdir())


def test_a_file_that_fails_is_named_with_its_line(
    calls: list[Call], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken.py").write_text("import math\nmath.nothing()\n")
    assert main("--method", tmp_path / "broken.py") == 1
    assert "broken.py, line 2: AttributeError" in capsys.readouterr().err
    assert not calls


def test_a_stopped_run_keeps_what_is_finished_and_says_so(
    calls: list[Call],
    own: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "run", stop)
    assert main("--method", own("own-map")) == 130
    assert "finished results are kept" in capsys.readouterr().err
    assert not calls


def test_the_method_must_be_given(calls: list[Call], capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 2
    assert "--method" in capsys.readouterr().err
    assert not calls


def test_a_card_of_a_real_comparison_and_nothing_is_computed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    arguments: list[str | Path] = [
        "--method", "nbs/examples/my_method.py", "--preset", "smoke", "--store", tmp_path / "store",
        "-p", 'benchmarks=["deletion", "idsds"]', "-p", 'methods=["gradient", "random", "centre"]',
        "-p", 'classifiers=["small/resnet8"]', "-p", 'tuned={"small/resnet8" = "small/resnet8-tuned"}',
        "-p", "workers=1", tmp_path / "card",
    ]  # fmt: skip
    assert main(*arguments) == 0
    card = pd.read_csv(tmp_path / "card" / "card.csv")
    assert set(card["metric"]) == {
        key for key, one in METRICS.items() if one.benchmark in ("deletion", "idsds")
    }
    assert card["rank"].between(1, 2).all()
    assert (card["n_methods"] == 2).all()
    assert "contrast-gradient" in capsys.readouterr().out
    cells = set((tmp_path / "store").rglob("*"))
    assert main(*arguments) == 0
    assert set((tmp_path / "store").rglob("*")) == cells
