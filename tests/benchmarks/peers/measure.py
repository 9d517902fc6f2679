"""What one call costs: CPU time, wall time and memory, of two calls in turn."""

import ctypes
import gc
import math
import platform
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

Call = Callable[[], Any]
# Shorter measurements are repeated, or the clock and the scheduler would be what is measured.
_SHORTEST = 0.1
# A call this long, in seconds, is not repeated for its memory.
_LONG = 2.0
_STATUS = Path("/proc/self/status")


class Effort(NamedTuple):
    """Seconds of one call: of CPU, all threads together, and of wall clock."""

    cpu: float
    wall: float


class Pair(NamedTuple):
    """Efforts of one call of ours and one of the peer's, measured one after the other."""

    ours: Effort
    theirs: Effort


class Comparison(NamedTuple):
    """Medians over all pairs.

    Attributes:
        ours: Seconds of our call.
        theirs: Seconds of the peer's call.
        speedup: The peer's CPU time divided by ours; above 1 ours is faster.
        lowest: Smallest speedup of a pair.
        highest: Largest speedup of a pair.
        wall_speedup: The peer's wall time divided by ours.
    """

    ours: Effort
    theirs: Effort
    speedup: float
    lowest: float
    highest: float
    wall_speedup: float


def compare(ours: Call, theirs: Call, n_pairs: int) -> Comparison:
    """Comparison of two calls over ``n_pairs`` pairs, run in turn so that a busy moment meets both.

    Both must have been called once before, so that nothing is done for the first time here.
    """
    repeats = [_repeats(call) for call in (ours, theirs)]
    pairs = [Pair(_effort(ours, repeats[0]), _effort(theirs, repeats[1])) for _ in range(n_pairs)]
    ratios = [pair.theirs.cpu / pair.ours.cpu for pair in pairs]
    return Comparison(
        ours=_middle([pair.ours for pair in pairs]),
        theirs=_middle([pair.theirs for pair in pairs]),
        speedup=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        wall_speedup=median(pair.theirs.wall / pair.ours.wall for pair in pairs),
    )


def extra_memory(call: Call) -> float | None:
    """Megabytes that become resident at the highest point of ``call``, beyond what was there before it.

    Everything counts, whoever allocates it: torch, NumPy, Python objects. What else the process does can
    only add to it, so a short call is measured three times and the least is taken. None where the system
    keeps no record of the highest point that can be reset (only Linux with glibc does).
    """
    if platform.system() != "Linux" or platform.libc_ver()[0] != "glibc":
        return None
    started = time.perf_counter()
    found = [_peak(call)]
    while len(found) < 3 and time.perf_counter() - started < _LONG:
        found.append(_peak(call))
    return min(found)


def _peak(call: Call) -> float:
    gc.collect()
    # Memory freed earlier goes back to the system first, since a call could otherwise use it unseen.
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    call()
    return max(0.0, _resident("VmHWM") - before)


def _resident(field: str) -> float:
    """Megabytes of ``field`` in the system's account of this process."""
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    (line,) = [line for line in lines if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024 / 1e6


def _effort(call: Call, repeats: int) -> Effort:
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(repeats):
        call()
    return Effort((time.process_time() - cpu) / repeats, (time.perf_counter() - wall) / repeats)


def _repeats(call: Call) -> int:
    return max(1, math.ceil(_SHORTEST / _effort(call, 1).cpu))


def _middle(efforts: list[Effort]) -> Effort:
    return Effort(median(effort.cpu for effort in efforts), median(effort.wall for effort in efforts))
