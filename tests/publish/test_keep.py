"""Larger runs kept beside the last one."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from heatcheck.publish.errors import PublishError
from heatcheck.publish.keep import keep
from heatcheck.publish.places import Places
from heatcheck.publish.plan import plan
from heatcheck.publish.runner import run_jobs

Write = Callable[..., Path]
EXPORT = """\
from pathlib import Path
for name in ("table.csv", "table.tex", "plotted.csv", "figure.svg"):
    Path(out, name).write_text("a\\n")
"""


def test_tables_are_kept_with_what_made_them_and_plotted_rows_are_not(places: Places, write: Write) -> None:
    write(EXPORT)
    run_jobs([plan(places, "tiny", assignments=["n_images=3"], cwd=places.root)])
    folder = keep(places, "tiny", "large-1")
    assert sorted(path.name for path in folder.iterdir()) == ["manifest.json", "table.csv"]
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["parameters"] == {"n_images": 3}
    assert manifest["preset"] == "quick"
    assert {"key", "date", "device", "libraries"} <= set(manifest)


@pytest.mark.parametrize("name", ["latest", "", "../up", "two words"])
def test_names_that_are_no_folder_of_their_own_are_refused(places: Places, write: Write, name: str) -> None:
    write(EXPORT)
    with pytest.raises(ValueError, match="use letters, digits and hyphens"):
        keep(places, "tiny", name)


def test_a_chapter_that_has_not_run_has_nothing_to_keep(places: Places, write: Write) -> None:
    write(EXPORT)
    with pytest.raises(PublishError, match="heatcheck run tiny"):
        keep(places, "tiny", "large")
