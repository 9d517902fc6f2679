"""What a notebook runs in, and how its progress reaches the user."""

from pathlib import Path
from threading import Event

import pytest

from heatcheck.publish.kernel import kernel_environment, relayed
from heatcheck.runtime.progress import PROGRESS_FILE, progress


def test_one_thread_unless_the_user_says_otherwise(tmp_path: Path) -> None:
    assert kernel_environment({}, tmp_path)["OMP_NUM_THREADS"] == "1"
    assert kernel_environment({"OMP_NUM_THREADS": "4"}, tmp_path)["OMP_NUM_THREADS"] == "4"


def test_the_user_s_environment_is_kept_and_not_changed(tmp_path: Path) -> None:
    own = {"HEATCHECK_IMAGENET": "/data", "PYTHONWARNINGS": "error"}
    made = kernel_environment(own, tmp_path)
    assert made["HEATCHECK_IMAGENET"] == "/data"
    assert made["PYTHONWARNINGS"] == "ignore:IProgress not found,error"
    assert own == {"HEATCHECK_IMAGENET": "/data", "PYTHONWARNINGS": "error"}


def test_progress_of_a_kernel_is_said_while_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = kernel_environment({}, tmp_path)
    monkeypatch.setenv(PROGRESS_FILE, environment[PROGRESS_FILE])
    said: list[str] = []
    heard = Event()

    def say(line: str) -> None:
        said.append(line)
        heard.set()

    with relayed(Path(environment[PROGRESS_FILE]), say):
        assert list(progress(range(3), label="curves")) == [0, 1, 2]
        assert heard.wait(timeout=30)
    assert said[-1] == "curves: 3/3"


def test_a_line_is_said_once_and_only_when_it_is_whole(tmp_path: Path) -> None:
    said: list[str] = []
    heard = Event()

    def say(line: str) -> None:
        said.append(line)
        heard.set()

    with relayed(tmp_path / "progress", say), (tmp_path / "progress").open("a") as file:
        file.write("one: 1/2\none: 2")
        file.flush()
        assert heard.wait(timeout=30)
        file.write("/2\n")
    assert said == ["one: 1/2", "one: 2/2"]
