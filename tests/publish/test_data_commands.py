"""The commands ``heatcheck data``: list, show, make."""

import json
from pathlib import Path
from typing import Any

import pytest

from heatcheck import cli
from heatcheck.data.clevr import making


def _main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    return int(exit_.value.code or 0)


def test_without_a_name_all_data_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("data") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("data set")
    assert {"clevr-embedded", "clevr-xai", "clevr", "imagenet"} <= {line.split()[0] for line in lines[1:]}


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("clevr-xai", "CLEVR-XAI_scenes.json"),
        ("clevr", "CLEVR_train_questions.json"),
        ("clevr-embedded", "heatcheck data make clevr"),
        ("imagenet", "LOC_val_solution.csv"),
    ],
)
def test_a_name_shows_one_in_full(name: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("data", name) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{name}: ")
    assert says in shown


@pytest.mark.parametrize(("kind", "truth"), [("simple", "single"), ("complex", "unique")])
def test_ground_truths_of_an_archive_are_counted(
    kind: str, truth: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("data", "statistics", "embedded", "--kind", kind, "--size", "32") == 0
    title, head, *rows = capsys.readouterr().out.splitlines()
    assert title.startswith(f"embedded, {kind} questions, masks of 32 x 32 pixels")
    assert head.split() == ["ground", "truth", "questions", "pixels", "objects", "length"]
    (row,) = [row for row in rows if row.split()[0] == truth]
    assert int(row.split()[1]) > 100


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["statistics", "nothing"], "unknown data 'nothing'; known: embedded, release"),
        (["nothing"], "unknown data set 'nothing'; known: metal-color, clevr-embedded"),
        (["make", "nothing", "--scenes", "1", "--seed", "1"], "cannot make the data set 'nothing'"),
        (
            ["make", "clevr", "--scenes", "1", "--seed", "1", "--size", "12x"],
            "size must be like 128 or 480x320",
        ),
        (
            ["make", "clevr", "--scenes", "1", "--seed", "1", "--size", "0"],
            "size must be like 128 or 480x320",
        ),
        (["make", "clevr", "--scenes", "1", "--seed", "1", "--size", "1x2x3"], "got '1x2x3'"),
    ],
)
def test_bad_names_and_sizes_end_in_one_line_and_code_two(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _main("data", *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("heatcheck: ")
    assert captured.err.count("\n") == 1
    assert says in captured.err


@pytest.mark.parametrize(
    ("options", "folder", "expected"),
    [
        ([], "clevr-7-3", {"image_size": (128, 128), "ground_truths": False, "workers": 0}),
        (
            ["--into", "x", "--size", "480x320", "--workers", "2", "--ground-truths"],
            "x",
            {"image_size": (320, 480), "ground_truths": True, "workers": 2},
        ),
    ],
)
def test_options_reach_the_maker(
    options: list[str],
    folder: str,
    expected: dict[str, Any],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    called: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def remember(*arguments: Any, **named: Any) -> Path:
        called.append((arguments, named))
        return Path(arguments[0])

    monkeypatch.setattr(making, "make_clevr", remember)
    assert _main("data", "make", "clevr", "--scenes", "7", "--seed", "3", *options) == 0
    assert called == [((Path(folder), 7, 3), expected)]
    assert capsys.readouterr().out == f"{folder}\n"


def test_a_data_set_is_made_from_the_command_line(tmp_path: Path) -> None:
    options = ["--scenes", "1", "--seed", "4", "--size", "24x16", "--workers", "1"]
    assert _main("data", "make", "clevr", "--into", str(tmp_path / "set"), *options) == 0
    scenes = json.loads((tmp_path / "set" / "CLEVR-XAI_scenes.json").read_text())["scenes"]
    assert len(scenes) == 1
