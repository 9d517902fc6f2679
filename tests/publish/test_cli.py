"""The command line: what it says, and with which exit code."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from heatcheck import cli
from heatcheck.publish import build, plan, runner
from heatcheck.publish.errors import Failure, RunError, StoppedError
from heatcheck.publish.places import Places
from heatcheck.runtime.store import StoreError

Write = Callable[..., Path]


def _main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    return int(exit_.value.code or 0)


@pytest.fixture(autouse=True)
def inside(places: Places, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("1")
    monkeypatch.chdir(places.root / "nbs")


REFUSED = [
    (["run", "tyni"], "unknown chapter 'tyni'"),
    (["run", "tiny", "--preset", "papr"], "nbs/presets.toml has: smoke, paper, quick"),
    (["run", "tiny", "-p", "n_imags=8"], "did you mean 'n_images'"),
    (["run", "tiny", "-p", "n_images='8'"], "'8' is text, wanted int"),
    (["run", "tiny", "-p", "n_images=None"], "None is not allowed"),
    (["run", "tiny", "-p", "rate=nan"], "not finite"),
    (["run", "tiny", "-p", "methods=gradient"], "no TOML value"),
    (["run", "tiny", "-p", "plugins=['gone.py']"], "gone.py is no file"),
    (["run", "tiny", "--into", ".."], "name another folder"),
    (["run", "tiny", "--on", "ray"], "'on'"),
    (["params", "tyni"], "unknown chapter"),
    (["export", "tyni", "x"], "unknown chapter"),
    (["methods", "no-such-method"], "unknown method 'no-such-method'"),
]


@pytest.mark.parametrize(("arguments", "says"), REFUSED)
def test_bad_input_ends_in_one_line_and_code_two(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run_jobs", lambda *_, **__: pytest.fail("a kernel would start"))
    assert _main(*arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("heatcheck: ")
    assert captured.err.count("\n") == 1
    assert says in captured.err


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (StoreError("another format"), 1, "heatcheck: another format\n"),
        (PermissionError(13, "Permission denied", "x"), 1, "heatcheck: [Errno 13] Permission denied: 'x'\n"),
        (StoppedError("tiny: stopped"), 130, "heatcheck: tiny: stopped\n"),
        (KeyError("x"), 1, "heatcheck: KeyError: 'x' (heatcheck --traceback ... shows where)\n"),
    ],
)
def test_every_error_is_a_line_and_a_traceback_only_when_asked_for(
    error: Exception,
    code: int,
    says: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(runner, "run_jobs", fail)
    assert _main("run", "tiny") == code
    assert capsys.readouterr().err == says
    with pytest.raises(type(error)):
        cli.main(["--traceback", "run", "tiny"])


def test_check_lists_what_is_out_of_date_and_runs_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "run_jobs", lambda *_, **__: pytest.fail("a kernel would start"))
    assert _main("run", "--check") == 1
    assert capsys.readouterr().out == "tiny is out of date\n"
    monkeypatch.setattr(plan, "is_current", lambda *_: True)
    assert _main("run", "--check") == 0
    assert capsys.readouterr().out == ""


def test_where_cells_are_computed_is_a_parameter_of_the_chapter(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[plan.Job] = []

    def collect(planned: list[plan.Job], **_: object) -> list[Path]:
        jobs.extend(planned)
        return []

    monkeypatch.setattr(runner, "run_jobs", collect)
    write("1", parameters='preset: str = "quick"  # row\non: str = "local"  # where cells are computed\n')
    assert _main("run", "tiny", "--on", "ray://head:10001") == 0
    assert _main("run", "tiny") == 0
    assert [job.values["on"] for job in jobs] == ["ray://head:10001", "local"]


def test_a_failing_chapter_does_not_keep_the_other_pages_from_being_built(
    places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError((Failure("tiny", "cell 3 `1`: ValueError: bad"),))

    monkeypatch.setattr(runner, "run_jobs", fail)
    monkeypatch.setattr(build, "build_html", lambda places: places.html / "index.html")
    assert _main("build") == 1
    captured = capsys.readouterr()
    assert captured.out == f"{places.html / 'index.html'}\n"
    assert captured.err.splitlines()[-1] == "tiny: cell 3 `1`: ValueError: bad"


def test_a_page_that_never_was_and_its_failure_are_both_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RunError((Failure("tiny", "cell 3 `1`: ValueError: bad"),))

    monkeypatch.setattr(runner, "run_jobs", fail)
    assert _main("build") == 1
    said = capsys.readouterr().err
    assert "tiny: cell 3 `1`: ValueError: bad" in said
    assert "no executed notebook of tiny" in said


def test_parameters_are_listed_with_the_values_of_the_preset(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("params", "tiny", "--preset", "smoke") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["parameter", "type", "smoke", "meaning"]
    assert lines[1].split(maxsplit=3) == ["n_images", "int", "2", "images that are explained"]
    assert not any(line.startswith(("preset", "out", "store")) for line in lines)


def test_methods_and_their_options_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("methods") == 0
    assert "integrated-gradients" in capsys.readouterr().out
    assert _main("methods", "integrated-gradients") == 0
    assert "n_steps" in capsys.readouterr().out


def test_models_and_data_sets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert _main("models") == 0
    assert capsys.readouterr().out
    assert _main("data") == 0
    assert "imagenet" in capsys.readouterr().out


def test_outside_of_a_checkout_the_message_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert _main("run", "tiny") == 2
    assert "clone the repository" in capsys.readouterr().err


def test_light_commands_import_neither_torch_nor_papermill() -> None:
    code = (
        "import sys\nfrom heatcheck import cli\n"
        "for arguments in (['params', 'tiny'], ['check']):\n"
        "    try:\n        cli.main(arguments)\n"
        "    except SystemExit:\n        pass\n"
        "print('heavy:', *({'torch', 'papermill', 'pandas'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-2:] == ["all chapters are sound", "heavy:"]
