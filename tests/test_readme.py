"""The README's table is the kept run's, and its links lead somewhere."""

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
KEPT = ROOT / "book/results/comparison/embedded-3-seeds"


def test_the_results_table_is_that_of_the_kept_run() -> None:
    block = TEXT.partition("<!-- results -->")[2].partition("<!-- /results -->")[0]
    lines = [line.strip("|").split("|") for line in block.strip().splitlines()]
    header, *rows = ([cell.strip() for cell in line] for line in lines if "---" not in line[0])
    with (KEPT / "glance.csv").open(encoding="utf-8") as file:
        kept = {row["method"]: row for row in csv.DictReader(file)}
    assert [row[0].strip("*") for row in rows] == list(kept)
    for row in rows:
        assert row[1:] == [kept[row[0].strip("*")][column] for column in header[1:]]


def test_local_links_and_folders_exist() -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", TEXT) + re.findall(r"`(book/[^`]+)`", TEXT)
    local = [target for target in targets if "://" not in target]
    assert local
    assert [target for target in local if not (ROOT / target).exists()] == []
