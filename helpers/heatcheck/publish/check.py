"""What is wrong with the chapters, found without running them."""

from heatcheck.publish.notebook import read_chapter, stored_errors
from heatcheck.publish.parameters import resolve
from heatcheck.publish.places import Places, chapter_names
from heatcheck.publish.presets import FILE, load_presets
from heatcheck.publish.toc import toc_chapters


def faults(places: Places) -> list[str]:
    """One line per fault of the checkout; empty when all is well.

    Every chapter must declare its parameters well, every row of the presets must name a chapter and fit its
    parameters, ``_toc.yml`` and ``nbs/`` must name the same chapters, and no executed notebook may hold an
    exception.
    """
    names, listed = chapter_names(places), toc_chapters(places.root)
    found = [
        f"nbs/{name}.py is not in _toc.yml (book/chapters/{name})" for name in names if name not in listed
    ]
    found += [
        f"_toc.yml lists book/chapters/{name}, there is no nbs/{name}.py"
        for name in listed
        if name not in names
    ]
    for name in names:
        found += _chapter_faults(places, name)
    for preset, rows in load_presets(places.root).items():
        found += [
            f"{FILE}: [{preset}.{name}]: there is no nbs/{name}.py" for name in rows if name not in names
        ]
    return found


def _chapter_faults(places: Places, name: str) -> list[str]:
    try:
        declared = read_chapter(places.source(name)).parameters
    except ValueError as error:
        return [str(error)]
    found = []
    for preset, rows in load_presets(places.root).items():
        try:
            resolve(declared, (f"{FILE} [{preset}.{name}]", rows.get(name, {})))
        except ValueError as error:
            found.append(str(error))
    notebook = places.notebook(name)
    return found + (stored_errors(notebook) if notebook.exists() else [])
