"""How the rankings of the remove-and-retrain chapter are drawn: color by ensemble, marker with it."""

from typing import Any, NamedTuple

from heatcheck.figures.style import ACCENT, INK, MUTED

_DASH, _DOT, _DASHDOT = (0, (5.0, 1.6)), (0, (1.2, 1.2)), (0, (5.0, 1.4, 1.2, 1.4))
BASES = ("grad", "gb", "ig")
CONTROLS = ("random", "random-redrawn", "sobel", "sobel-release")
# Panels by base; everything that is not made from one of the bases shares the last one.
OTHERS = "controls and others"
PANELS = (*(base.upper() for base in BASES), OTHERS)


class RankingLook(NamedTuple):
    """How a ranking is drawn."""

    color: str
    marker: str
    line: Any


_FORMS = {
    "": RankingLook("#0173b2", "o", "-"),
    "sq": RankingLook("#56b4e9", "v", _DASH),
    "sg": RankingLook("#029e73", "s", "-"),
    "sq-sg": RankingLook("#7ad4b9", "<", _DASH),
    "sg-sq": RankingLook("#de8f05", "D", "-"),
    "var": RankingLook("#7a3b00", "^", _DASHDOT),
}
_BASE_LINES = {"grad": "-", "gb": _DASH, "ig": _DASHDOT}
_KNOWN = {
    "random": RankingLook(MUTED, "x", _DOT),
    "random-redrawn": RankingLook("#8d8d96", "+", _DOT),
    "sobel": RankingLook(INK, "1", _DASHDOT),
    "sobel-release": RankingLook("#55555e", "2", _DASHDOT),
    "leaky": RankingLook(ACCENT, "*", "-"),
    "oracle": RankingLook("#5b35a8", "P", "-"),
    "inverse-oracle": RankingLook("#9a7bd6", "X", _DASH),
}
_OWN = (
    RankingLook("#b8005c", "p", "-"),
    RankingLook("#5b7f00", "h", _DASH),
    RankingLook("#00838f", ">", _DASHDOT),
    RankingLook("#a1392b", "8", _DOT),
)


def ranking_look(ranking: str, *, based: bool = False) -> RankingLook:
    """How ``ranking`` is drawn: members of the three bases by their ensemble, others by name.

    Args:
        ranking: Name of the ranking.
        based: The line tells the base instead of the ensemble, where all bases are in one panel.
    """
    ensemble, base = split_ranking(ranking)
    if base in BASES:
        look = _FORMS[ensemble]
        return look._replace(line=_BASE_LINES[base]) if based else look
    return _KNOWN.get(ranking) or _OWN[sum(ranking.encode()) % len(_OWN)]


def split_ranking(ranking: str) -> tuple[str, str]:
    """Ensemble and base of an estimator, such as ``sg-sq`` and ``grad``; no base where it has none."""
    ensemble, _, base = ranking.rpartition("-")
    return (ensemble, base) if base in BASES and ensemble in _FORMS else ("", "")


def panel_of(ranking: str) -> str:
    """Panel of a ranking: its base in capitals, or that of all others."""
    base = split_ranking(ranking)[1]
    return base.upper() if base else OTHERS
