"""Speed and memory beside captum, Quantus, lime, other libraries and plain loops: ``make bench``.

Times are reported, never asserted. The exit code is 1 only if answers that must be equal differ.
"""

import logging
import sys
import warnings
from pathlib import Path
from typing import Annotated

import torch
import typer
from tests.benchmarks.peers.captum_cases import captum_cases
from tests.benchmarks.peers.case import Case, Row, run_case
from tests.benchmarks.peers.estimator_cases import estimator_cases
from tests.benchmarks.peers.fill_cases import fill_cases
from tests.benchmarks.peers.idsds_cases import idsds_cases
from tests.benchmarks.peers.lime_cases import lime_cases
from tests.benchmarks.peers.memory_cases import memory_rows
from tests.benchmarks.peers.quantus_cases import quantus_cases
from tests.benchmarks.peers.rate_cases import rate_rows
from tests.benchmarks.peers.relation_cases import relation_cases
from tests.benchmarks.peers.removal_cases import removal_cases, storage_table
from tests.benchmarks.peers.report import (
    conditions,
    fill_table,
    memory_table,
    rate_table,
    speed_table,
    to_markdown,
    write_csv,
)
from tests.benchmarks.peers.retraining_cases import retraining_cases
from tests.benchmarks.peers.rise_cases import rise_cases

OUT = Path("_build/bench")
TABLES = ("speed", "fills", "memory", "rates", "storage")
log = logging.getLogger("bench")


def main(
    pairs: Annotated[int, typer.Option(min=1, help="Interleaved pairs per case.")] = 7,
    only: Annotated[str, typer.Option(help="Only the cases whose name or peer has this text.")] = "",
    memory: Annotated[bool, typer.Option(help="Measure memory at several counts too.")] = True,
    rates: Annotated[bool, typer.Option(help="Measure what is done per second too.")] = True,
) -> None:
    """Compare with the peers, show tables and write them to ``_build/bench``."""
    torch.set_num_threads(1)
    # Only this log: the peers would otherwise spend their time on theirs.
    log.addHandler(logging.StreamHandler())
    log.setLevel(logging.INFO)
    log.propagate = False
    warnings.simplefilter("ignore")  # of the peers, about their own settings
    cases = [case for case in all_cases() if only in f"{case.name} {case.peer}"]
    if not cases:
        names = "\n".join(f"  {case.name} / {case.peer}" for case in all_cases())
        raise typer.BadParameter(f"no case has the text {only!r}; the cases are\n{names}")
    head = conditions(pairs)
    log.info(head)
    rows = [_logged(case, pairs) for case in cases]
    tables = {}
    if per_call := [row for row in rows if row.case.n_images is None]:
        tables["speed"] = speed_table(per_call)
    if per_image := [row for row in rows if row.case.n_images is not None]:
        tables["fills"] = fill_table(per_image)
    if memory:
        tables["memory"] = memory_table(memory_rows())
    if rates:
        tables["rates"] = rate_table(rate_rows())
        tables["storage"] = storage_table()

    OUT.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        (OUT / f"{name}.csv").unlink(missing_ok=True)  # of an earlier run, of other cases
    for name, table in tables.items():
        write_csv(table, OUT / f"{name}.csv")
    text = "\n".join([head, "", *(to_markdown(table) for table in tables.values())])
    (OUT / "report.md").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{text}\nwritten to {OUT}\n")
    if not all(row.agrees for row in rows):
        raise typer.Exit(1)


def all_cases() -> list[Case]:
    """All cases, in the order of the table."""
    return [
        *quantus_cases(),
        *rise_cases(),
        *captum_cases(),
        *estimator_cases(),
        *lime_cases(),
        *fill_cases(),
        *idsds_cases(),
        *relation_cases(),
        *retraining_cases(),
        *removal_cases(),
    ]


def _logged(case: Case, pairs: int) -> Row:
    row = run_case(case, pairs)
    log.info("%s / %s: %.2f", case.name, case.peer, row.comparison.speedup)
    return row


if __name__ == "__main__":
    typer.run(main)
