"""Where things lie, and that results are replaced as a whole or not at all."""

from pathlib import Path

import pytest

from heatcheck.publish.errors import PublishError
from heatcheck.publish.places import (
    Places,
    check_chapter,
    check_writable,
    find_places,
    fresh_results,
    is_unfinished,
    put_back_results,
    stage,
)


def test_the_checkout_is_found_from_any_folder_inside(places: Places) -> None:
    assert find_places(places.root / "nbs") == places
    assert find_places(places.root) == places


def test_outside_of_a_checkout_the_message_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no checkout .* nbs/ and _toc.yml; clone"):
        find_places(tmp_path)


@pytest.mark.parametrize("into", [".", "..", "nbs/.."])
def test_into_never_means_the_checkout_itself(places: Places, into: str) -> None:
    with pytest.raises(ValueError, match="name another folder"):
        find_places(places.root, Path(into))


def test_into_moves_all_that_is_generated_and_nothing_else(places: Places, tmp_path: Path) -> None:
    moved = find_places(places.root, tmp_path / "trial")
    for path in (moved.notebook("tiny"), moved.results("tiny"), moved.html):
        assert path.is_relative_to(tmp_path / "trial")
    assert moved.source("tiny") == places.source("tiny")


def test_an_unknown_chapter_is_named_with_those_there_are(places: Places) -> None:
    places.source("deletion").touch()
    with pytest.raises(ValueError, match=r"unknown chapter 'delation'; .*nbs has: deletion"):
        check_chapter(places, "delation")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(PublishError, match=r"cannot write into .*file.*--into"):
        check_writable(tmp_path / "file" / "below")


def _results(folder: Path, content: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "old.csv").write_text(content)
    return folder


def test_fresh_results_replace_the_old_ones(tmp_path: Path) -> None:
    folder = _results(tmp_path / "results" / "latest", "old")
    with fresh_results(folder) as out:
        assert list(out.iterdir()) == []
        (out / "new.csv").write_text("new")
    assert [path.name for path in folder.iterdir()] == ["new.csv"]
    assert not is_unfinished(folder)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_an_exception_the_old_results_are_back(tmp_path: Path, error: type[BaseException]) -> None:
    folder = _results(tmp_path / "results" / "latest", "old")

    def fail(out: Path) -> None:
        (out / "new.csv").write_text("new")
        raise error

    with pytest.raises(error), fresh_results(folder) as out:
        fail(out)
    assert [path.name for path in folder.iterdir()] == ["old.csv"]
    assert not is_unfinished(folder)


def test_a_first_run_that_fails_leaves_no_results(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    with pytest.raises(ValueError, match="now"), fresh_results(tmp_path / "results" / "latest"):
        raise ValueError("now")
    assert not (tmp_path / "results" / "latest").exists()


def test_what_a_killed_run_left_is_undone(tmp_path: Path) -> None:
    folder = _results(tmp_path / "results" / "latest", "half")
    _results(tmp_path / "results" / ".latest.kept", "good")
    assert is_unfinished(folder)
    put_back_results(folder)
    assert (folder / "old.csv").read_text() == "good"
    assert not is_unfinished(folder)


def test_two_runs_of_one_chapter_do_not_mix(tmp_path: Path) -> None:
    folder = _results(tmp_path / "results" / "latest", "old")
    with fresh_results(folder):
        with pytest.raises(PublishError, match="another run"), fresh_results(folder):
            pass
        with pytest.raises(PublishError, match="another run"):
            put_back_results(folder)


def test_a_staged_book_has_the_pages_but_nothing_generated(places: Places, tmp_path: Path) -> None:
    for path in (
        "book/chapters/tiny.ipynb",
        "book/results/tiny/latest/a.csv",
        "book/results/tiny/paper/b.csv",
    ):
        (places.root / path).parent.mkdir(parents=True, exist_ok=True)
        (places.root / path).write_text("x")
    trial = find_places(places.root, tmp_path / "trial")
    trial.notebook("tiny").parent.mkdir(parents=True)
    trial.notebook("tiny").write_text("own")
    stage(trial)
    staged = {path.relative_to(trial.base).as_posix() for path in trial.base.rglob("*") if path.is_file()}
    assert staged == {
        "_config.yml",
        "_toc.yml",
        "book/intro.md",
        "book/chapters/tiny.ipynb",
        "book/results/tiny/paper/b.csv",
        "nbs/presets.toml",
    }
    assert trial.notebook("tiny").read_text() == "own"
