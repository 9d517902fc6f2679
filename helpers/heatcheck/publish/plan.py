"""Everything about a chapter's run, checked before a kernel starts."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from heatcheck.publish import parameters, presets
from heatcheck.publish.freshness import build_key, is_current
from heatcheck.publish.notebook import Chapter, read_chapter, read_facts
from heatcheck.publish.places import Places, check_chapter


class Job(NamedTuple):
    """A chapter with all it needs to run.

    Attributes:
        places: The checkout.
        chapter: The notebook as it is written.
        values: Every parameter, those that the runner sets included.
        own: What the user gave, in place of defaults and preset.
        key: Hash of all that the page will be made from.
    """

    places: Places
    chapter: Chapter
    values: dict[str, Any]
    own: dict[str, Any]
    key: str

    @property
    def current(self) -> bool:
        """Whether the page is there already and would come out the same."""
        return is_current(self.places, self.chapter.name, self.key)

    @property
    def facts(self) -> dict[str, Any]:
        """What the executed notebook says about its making."""
        source = f"nbs/{self.chapter.path.name}"
        return {"key": self.key, "preset": self.values["preset"], "source": source, "own": self.own}


def plan(
    places: Places,
    chapter: str,
    *,
    preset: str = presets.DEFAULT,
    assignments: Sequence[str] = (),
    given: Mapping[str, Any] | None = None,
    store: Path | None = None,
    cwd: Path | None = None,
    origin: str = "-p",
) -> Job:
    """A run of ``chapter``.

    Args:
        places: The checkout.
        chapter: Name of the notebook in ``nbs/``.
        preset: Row of ``nbs/presets.toml``.
        assignments: Parameters as on the command line, ``name=value``.
        given: Parameters as Python values; they win.
        store: Folder of the results store; by default ``.cache/store`` in the checkout.
        cwd: Folder that relative plug-in paths in ``assignments`` and ``given`` start from.
        origin: What messages call the source of ``given``.

    Raises:
        ValueError: An unknown chapter, preset or parameter, a value of the wrong type, or a plug-in that is
            no file.
    """
    source = read_chapter(places.source(check_chapter(places, chapter)))
    row = presets.preset_row(presets.load_presets(places.root), preset, chapter)
    own = {**parameters.read_assignments(source.parameters, assignments), **(given or {})}
    values = parameters.resolve(
        source.parameters, (f"{presets.FILE} [{preset}.{chapter}]", row), (origin, own)
    )
    if "plugins" in values:
        start = (cwd or Path.cwd()) if "plugins" in own else places.root
        values["plugins"] = [_plugin(places, start / path) for path in values["plugins"]]
    own = {name: values[name] for name in own}
    values["preset"] = preset
    values["out"] = places.shown(places.results(chapter))
    values["store"] = places.shown((store or places.root / ".cache" / "store").resolve())
    return Job(places, source, values, own, build_key(source, values, places.root))


def plan_again(places: Places, chapter: str, *, store: Path | None = None) -> Job:
    """A run of ``chapter`` as its page was made: the same preset and own parameters, else the default ones.

    Raises:
        ValueError: The chapter no longer takes them; the message says which.
    """
    path = places.notebook(check_chapter(places, chapter))
    facts = read_facts(path)
    return plan(
        places,
        chapter,
        preset=facts.get("preset", presets.DEFAULT),
        given=facts.get("own", {}),
        store=store,
        cwd=places.root,
        origin=f"{places.shown(path)} was made so (to start anew: heatcheck run {chapter})",
    )


def _plugin(places: Places, path: Path) -> str:
    path = path.resolve()
    if not path.is_file():
        raise ValueError(
            f"parameter 'plugins': {path} is no file; name Python files that register methods or models"
        )
    return places.shown(path)
