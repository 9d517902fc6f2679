"""Progress lines and the choice of a device."""

from pathlib import Path

import pytest
import torch

from heatcheck.runtime.device import available_devices, choose_device
from heatcheck.runtime.progress import PROGRESS_FILE, progress


def test_plain_lines_go_to_the_named_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "lines"))
    assert list(progress(["a", "b"], label="maps")) == ["a", "b"]
    assert (tmp_path / "lines").read_text().splitlines()[-1] == "maps: 2/2"


def test_without_a_terminal_or_file_nothing_is_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(PROGRESS_FILE, raising=False)
    assert list(progress([1, 2], label="maps")) == [1, 2]
    assert capsys.readouterr() == ("", "")


def test_auto_takes_the_first_device_there_is() -> None:
    assert str(choose_device("auto")) == available_devices()[0]
    assert choose_device("cpu") == torch.device("cpu")


def test_an_absent_device_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"'cuda:99' is not available.*cpu"):
        choose_device("cuda:99")
