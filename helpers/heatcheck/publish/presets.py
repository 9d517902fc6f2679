"""Presets: rows of parameters by chapter, never another code path."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DEFAULT = "quick"
FILE = "nbs/presets.toml"


def load_presets(root: Path) -> dict[str, dict[str, dict[str, Any]]]:
    """Values by preset and chapter, as ``nbs/presets.toml`` below ``root`` has them.

    Raises:
        ValueError: The file is missing or has another form than ``[preset.chapter]`` tables.
    """
    try:
        content = tomllib.loads((root / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"{root / FILE} is missing; it holds one table [preset.chapter] per row") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{FILE} is no TOML: {error}") from error
    for preset, chapters in content.items():
        if not isinstance(chapters, dict) or not all(isinstance(row, dict) for row in chapters.values()):
            raise ValueError(f"{FILE}: {preset!r} must hold tables [{preset}.chapter] only")
    return content


def preset_row(
    presets: Mapping[str, Mapping[str, Mapping[str, Any]]], preset: str, chapter: str
) -> Mapping[str, Any]:
    """Values ``preset`` gives to ``chapter``; empty where the declared defaults are the preset.

    Raises:
        ValueError: No such preset; the message lists those there are.
    """
    if preset not in presets and preset != DEFAULT:
        known = ", ".join(dict.fromkeys([*presets, DEFAULT]))
        raise ValueError(f"unknown preset {preset!r}; {FILE} has: {known}")
    return presets.get(preset, {}).get(chapter, {})
