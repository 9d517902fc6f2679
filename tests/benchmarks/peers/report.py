"""Results as text, Markdown and CSV."""

import csv
import os
import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from tests.benchmarks.peers.case import Row
from tests.benchmarks.peers.memory_cases import BUDGET_MB, MemoryRow
from tests.benchmarks.peers.rate_cases import RateRow

Table = list[list[str]]
PACKAGES = ("torch", "numpy", "scipy", "scikit-image", "captum", "quantus", "lime", "opencv-python-headless")
SPEED_HEADER = [
    "case",
    "peer",
    "answers",
    "difference",
    "ours, CPU ms",
    "peer, CPU ms",
    "speedup (CPU)",
    "of the pairs",
    "speedup (wall)",
    "ours, extra MB",
    "peer, extra MB",
    "target",
    "reached",
]
FILL_HEADER = [
    "fill",
    "peer",
    "answers",
    "difference",
    "ours, CPU s per image",
    "peer, CPU s per image",
    "ratio (CPU)",
    "of the pairs",
    "ratio (wall)",
    "ours, extra MB",
    "peer, extra MB",
]
RATE_HEADER = ["what", "of", "count", "CPU s", "per CPU second", "extra MB", "target, MB", "reached"]
MEMORY_HEADER = ["method", "steps or samples", "ours, extra MB", "captum, extra MB", "target, MB", "reached"]


def speed_table(rows: Sequence[Row]) -> Table:
    """One line per case, header first."""
    return [SPEED_HEADER, *(_speed_line(row) for row in rows)]


def fill_table(rows: Sequence[Row]) -> Table:
    """One line per case whose cost is told per image, header first; memory is that of the whole call."""
    return [FILL_HEADER, *(_fill_line(row) for row in rows)]


def memory_table(rows: Sequence[MemoryRow]) -> Table:
    """One line per method and count, header first."""
    lines = [
        [
            row.method,
            str(row.n_gradients),
            _megabytes(row.ours),
            _megabytes(row.theirs),
            f"<= {BUDGET_MB:.0f}",
            _verdict(row.reached),
        ]
        for row in rows
    ]
    return [MEMORY_HEADER, *lines]


def rate_table(rows: Sequence[RateRow]) -> Table:
    """One line per thing that is done, header first."""
    lines = [
        [
            row.name,
            row.unit,
            str(row.n),
            f"{row.cpu:.2f}",
            f"{row.per_second:.3g}",
            _megabytes(row.memory),
            "" if row.budget is None else f"<= {row.budget:.0f}",
            _verdict(row.reached),
        ]
        for row in rows
    ]
    return [RATE_HEADER, *lines]


def to_markdown(table: Table) -> str:
    """Table in Markdown, its columns padded to equal width so that it can be read as plain text too."""
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    lines = [
        f"| {' | '.join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))} |"
        for line in table
    ]
    rule = f"| {' | '.join('-' * width for width in widths)} |"
    return "\n".join([lines[0], rule, *lines[1:]]) + "\n"


def write_csv(table: Table, path: Path) -> None:
    """Write ``table`` to ``path``."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)


def conditions(n_pairs: int) -> str:
    """One line: how and on what was measured, and how busy the machine is."""
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = f", load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    return (
        f"{n_pairs} interleaved pairs, {torch.get_num_threads()} torch thread(s), {os.cpu_count()} cores, "
        f"{platform.system()} {platform.machine()}, Python {platform.python_version()}, {packages}{load}"
    )


def _speed_line(row: Row) -> list[str]:
    case, result = row.case, row.comparison
    return [
        case.name,
        case.peer,
        "equal" if row.agrees else "DIFFER",
        f"{row.difference:.0e}",
        f"{1e3 * result.ours.cpu:.1f}",
        f"{1e3 * result.theirs.cpu:.1f}",
        f"{result.speedup:.2f}",
        f"{result.lowest:.2f} to {result.highest:.2f}",
        f"{result.wall_speedup:.2f}",
        _megabytes(row.ours_memory),
        _megabytes(row.theirs_memory),
        "" if case.target is None else f">= {case.target:.3g}",
        _verdict(row.reached),
    ]


def _fill_line(row: Row) -> list[str]:
    case, result = row.case, row.comparison
    n_images = case.n_images or 1
    return [
        case.name,
        case.peer,
        "equal" if row.agrees else "DIFFER",
        f"{row.difference:.0e}",
        f"{result.ours.cpu / n_images:.4f}",
        f"{result.theirs.cpu / n_images:.4f}",
        f"{result.speedup:.2f}",
        f"{result.lowest:.2f} to {result.highest:.2f}",
        f"{result.wall_speedup:.2f}",
        _megabytes(row.ours_memory),
        _megabytes(row.theirs_memory),
    ]


def _megabytes(size: float | None) -> str:
    return "not measured" if size is None else f"{size:.1f}"


def _verdict(reached: bool | None) -> str:
    return "" if reached is None else "yes" if reached else "no"
