"""What code made a result: a hash of a module and of all it imports from this package."""

import ast
import hashlib
import importlib.metadata
from functools import cache
from pathlib import Path

PACKAGE = "heatcheck"
# A change of these libraries can change numbers.
LIBRARIES = ("captum", "numpy", "scipy", "scikit-image", "timm", "torch", "torchvision")

_ROOT = Path(__file__).resolve().parents[1]


@cache
def code_fingerprint(module: str) -> str:
    """Hash of ``module`` and everything it imports inside the package; comments and docstrings do not count.

    Args:
        module: Dotted name such as ``heatcheck.benchmarks.deletion``.
    """
    digest = hashlib.sha256()
    for name in import_closure(module):
        digest.update(f"{name}\n{_essence(_source(name))}\n".encode())
    return digest.hexdigest()[:16]


@cache
def import_closure(module: str) -> tuple[str, ...]:
    """Sorted names of ``module`` and all modules of the package it imports, directly or not."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        waiting.extend(imported for imported in imported_modules(_source(name).read_text(encoding="utf-8")))
    return tuple(sorted(found))


def imported_modules(source: str) -> set[str]:
    """Modules of the package that ``source`` imports anywhere, their parent packages included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    inside = {name for name in names if name == PACKAGE or name.startswith(f"{PACKAGE}.")}
    parents = {
        ".".join(name.split(".")[:depth]) for name in inside for depth in range(1, name.count(".") + 2)
    }
    return {name for name in parents if _exists(name)}


def library_versions() -> dict[str, str]:
    """Installed versions of the libraries that results depend on."""
    return {name: _version(name) for name in LIBRARIES}


@cache  # every cell of a run asks, and reading a package's metadata takes a while
def _version(library: str) -> str:
    return importlib.metadata.version(library)


def _exists(name: str) -> bool:
    return _find(name) is not None


def _source(name: str) -> Path:
    path = _find(name)
    if path is None:
        raise ModuleNotFoundError(f"no module {name!r} to take a fingerprint of")
    return path


def _find(name: str) -> Path | None:
    """File of a module, found without importing its parents, which would load torch."""
    head, *parts = name.split(".")
    folder = _ROOT.joinpath(*parts)
    candidates = (folder / "__init__.py", folder.with_name(f"{folder.name}.py"))
    return next((path for path in candidates if head == PACKAGE and path.is_file()), None)


def _essence(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node) is not None
        ):
            node.body = node.body[1:]
    return ast.dump(tree)
