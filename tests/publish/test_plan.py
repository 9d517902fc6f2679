"""What a chapter will run with."""

from collections.abc import Callable
from pathlib import Path

import pytest

from heatcheck.publish.notebook import tidy, write_notebook
from heatcheck.publish.places import Places, find_places
from heatcheck.publish.plan import Job, plan, plan_again

Write = Callable[..., Path]


def _publish(job: Job) -> None:
    write_notebook(tidy(job.chapter.node, job.facts), job.places.notebook(job.chapter.name))


def test_a_book_keeps_the_parameters_its_pages_were_made_with(
    places: Places, write: Write, tmp_path: Path
) -> None:
    write("1")
    (tmp_path / "own.py").touch()
    assert plan_again(places, "tiny").key == plan(places, "tiny").key
    job = plan(places, "tiny", preset="smoke", assignments=["rate=0.1", "plugins=['own.py']"], cwd=tmp_path)
    _publish(job)
    assert plan_again(places, "tiny").key == job.key
    assert plan_again(places, "tiny").current
    write("2")
    again = plan_again(places, "tiny")
    assert not again.current
    assert again.values == job.values


def test_parameters_that_are_gone_end_the_repetition_with_a_hint(places: Places, write: Write) -> None:
    path = write("1")
    _publish(plan(places, "tiny", assignments=["rate=0.1"]))
    path.write_text(path.read_text().replace("rate", "share"))
    with pytest.raises(ValueError, match=r"tiny.ipynb .*heatcheck run tiny.* unknown parameter 'rate'"):
        plan_again(places, "tiny")


def test_relative_plug_ins_start_from_the_user_s_folder(places: Places, write: Write, tmp_path: Path) -> None:
    write("1")
    (places.root / "nbs" / "own.py").touch()
    (tmp_path / "far.py").touch()
    inside = plan(places, "tiny", assignments=["plugins=['own.py']"], cwd=places.root / "nbs")
    outside = plan(places, "tiny", assignments=["plugins=['far.py']"], cwd=tmp_path)
    assert inside.values["plugins"] == ["nbs/own.py"]
    assert outside.values["plugins"] == [str(tmp_path / "far.py")]
    with pytest.raises(ValueError, match=r"own.py is no file"):
        plan(places, "tiny", assignments=["plugins=['own.py']"], cwd=places.root)


def test_the_runner_sets_the_reserved_parameters(places: Places, write: Write, tmp_path: Path) -> None:
    write("1")
    values = plan(places, "tiny", preset="smoke").values
    assert (values["preset"], values["n_images"]) == ("smoke", 2)
    assert (values["out"], values["store"]) == ("book/results/tiny/latest", ".cache/store")
    trial = plan(find_places(places.root, tmp_path / "trial"), "tiny", store=tmp_path / "store").values
    assert trial["out"] == str(tmp_path / "trial" / "book" / "results" / "tiny" / "latest")
    assert trial["store"] == str(tmp_path / "store")
