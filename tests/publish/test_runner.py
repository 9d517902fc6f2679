"""Chapters run as a whole or are named; these tests start real kernels."""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heatcheck.publish.errors import PublishError, RunError, StoppedError
from heatcheck.publish.notebook import stored_errors
from heatcheck.publish.places import Places
from heatcheck.publish.plan import Job, plan
from heatcheck.publish.runner import run_jobs

Write = Callable[..., Path]
COMPUTE = """\
import sys
from functools import partial
from pathlib import Path
import pandas as pd
from heatcheck.runtime.grid import Task, fill_store
from heatcheck.runtime.store import ResultsStore

def compute(image, store):
    with Path("computed").open("a") as file:
        file.write(f"{image}\\n")
    return pd.DataFrame({"image": [image]})

tasks = [Task({"image": image}, partial(compute, image)) for image in range(n_images)]
table = fill_store(ResultsStore(store), tasks, label="maps")
Path(out, "table.csv").write_text(table.to_csv(index=False))
sys.executable"""
EXPORTED = "image\n0\n1\n2\n3\n"


def _plan(places: Places, *assignments: str, name: str = "tiny") -> Job:
    return plan(places, name, assignments=assignments, cwd=places.root)


def _computed(places: Places) -> list[str]:
    return (places.root / "computed").read_text().split()


def test_a_failed_run_resumes_and_a_good_one_repeats_its_bytes(places: Places, write: Write) -> None:
    write(COMPUTE, "1 / 0")
    said: list[str] = []
    with pytest.raises(RunError, match=r"tiny: nbs/tiny.py:\d+, cell 4 `1 / 0`: ZeroDivisionError: division"):
        run_jobs([_plan(places)], say=said.append)
    assert not places.notebook("tiny").exists()
    assert not places.results("tiny").exists()
    assert "ZeroDivisionError" in stored_errors(places.failed("tiny"))[0]
    assert "maps: 4/4" in said
    assert any(line.startswith("tiny: cell 3 of 4: import sys") for line in said)

    write(COMPUTE, "1 / 1")
    run_jobs([_plan(places)])
    assert _computed(places) == ["0", "1", "2", "3"]
    assert (places.results("tiny") / "table.csv").read_text() == EXPORTED
    assert not places.failed("tiny").exists()
    first = places.notebook("tiny").read_bytes()

    assert _plan(places).current
    assert run_jobs([_plan(places)]) == [places.notebook("tiny")]
    run_jobs([_plan(places)], force=True)
    assert places.notebook("tiny").read_bytes() == first

    text = first.decode()
    json.loads(text, parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))
    assert sys.executable in text  # the kernel is this Python
    assert str(places.root) not in text


def test_ctrl_c_puts_the_last_results_back(places: Places, write: Write) -> None:
    write("from pathlib import Path\nPath(out, 'new.csv').touch()", "'stop here'")
    places.results("tiny").mkdir(parents=True)
    (places.results("tiny") / "old.csv").touch()

    def say(line: str) -> None:
        if "stop here" in line:
            raise KeyboardInterrupt

    with pytest.raises(StoppedError, match=r"stopped at nbs/tiny.py:\d+, cell 4 .*run again to go on"):
        run_jobs([_plan(places)], say=say)
    assert [path.name for path in places.results("tiny").iterdir()] == ["old.csv"]


def test_a_failing_and_a_slow_chapter_are_both_named_and_the_last_good_pages_stay(
    places: Places, write: Write
) -> None:
    bad, slow, good = "raise KeyError('gone')", "import time\ntime.sleep(60)", "Path(out, 'a.csv').touch()"
    jobs = []
    for name, cell in (("bad", bad), ("slow", slow), ("good", f"from pathlib import Path\n{good}")):
        write(cell, name=name)
        places.results(name).mkdir(parents=True)
        (places.results(name) / "old.csv").write_text("old")
        places.chapters.mkdir(parents=True, exist_ok=True)
        places.notebook(name).write_text("last good page")
        jobs.append(_plan(places, name=name))
    with pytest.raises(RunError) as caught:
        run_jobs(jobs, timeout=4)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("2 chapters failed; the last good pages are kept")
    assert re.match(r"bad: nbs/bad.py.*KeyError: 'gone'", lines[1])
    assert re.match(r"slow: nbs/slow.py.*still running after 4 s", lines[2])
    for name in ("bad", "slow"):
        assert places.notebook(name).read_text() == "last good page"
        assert (places.results(name) / "old.csv").exists()
        assert places.failed(name).exists()
    assert [path.name for path in places.results("good").iterdir()] == ["a.csv"]
    assert places.notebook("good").read_text() != "last good page"


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("import os\nos._exit(3)", r"cell 3 `import os`: the notebook's process ended with exit code 3"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", r"signal SIGKILL.*memory"),
        ("raise SystemExit", r"SystemExit.*must run to its end"),
    ],
)
def test_a_notebook_that_does_not_reach_its_end_fails(
    places: Places, write: Write, cell: str, says: str
) -> None:
    write(cell)
    with pytest.raises(RunError, match=says):
        run_jobs([_plan(places)])
    assert not places.notebook("tiny").exists()


def test_parameters_reach_the_kernel_exactly(places: Places, write: Write) -> None:
    text = "tab\t, quote ' \" , back\\slash, line\nbreak, {braces} and \u00e9"
    write("from pathlib import Path\nPath(out, 'x.txt').write_text(repr((methods, rate, n_images)))")
    job = plan(places, "tiny", given={"methods": [text], "rate": 0.1, "n_images": -(10**20)})
    run_jobs([job])
    assert (places.results("tiny") / "x.txt").read_text() == repr(([text], 0.1, -(10**20)))


def test_an_output_folder_that_cannot_be_written_is_named_before_a_kernel_starts(
    places: Places, write: Write
) -> None:
    write("1")
    (places.root / "book" / "chapters").touch()
    with pytest.raises(PublishError, match=r"cannot write into .*chapters.*--into"):
        run_jobs([_plan(places)])
