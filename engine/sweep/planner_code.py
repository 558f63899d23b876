"""What a planner's answers follow from: its modules, what they import, packages, and declared files."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.engine.planning.find_custom_planners import find_custom_planners, names_custom_planner
from penstock.engine.planning.planner_program import PlannerProgram

_READ_BYTES = 1 << 20
_INSTALLED = ("site-packages", "dist-packages")
_OWN = "penstock"


@cache
def code_of_planner(planner: str) -> tuple[str, ...]:
    """Digests of the user's files that a planner imports, whether when it is loaded or when it runs, and
    versions of the packages that these import; nothing for Flink's rules.

    Imports are found in the text of the files, also inside functions. Of a planner that is a program, the
    files that its command line names count. What is read or run otherwise (a trained model) is not seen: it
    has to be declared.
    """
    if not names_custom_planner(planner):
        return ()
    functions = [custom_planner.function for custom_planner in find_custom_planners(planner)]
    programs = [function for function in functions if isinstance(function, PlannerProgram)]
    if programs:
        return tuple(f"{path}={digest_of_path(path)}" for one in programs for path in one.files())
    modules = {function.__module__ for function in functions}
    files: dict[str, str] = {}
    packages: dict[str, str] = {"python": sys.version.split()[0]}
    todo = sorted(modules)
    seen = set(todo)
    while todo:
        name = todo.pop()
        place = _place(name)
        top = name.partition(".")[0]
        if place is None or (place and _is_installed(place) and name not in modules):
            packages.update(_version_of(top))
            continue
        if not place:
            continue
        files[name] = digest_of_path(place)
        for found in _imported(name, place):
            if found not in seen and found.partition(".")[0] not in sys.stdlib_module_names:
                seen.add(found)
                todo.append(found)
    said = [f"{name}={found}" for name, found in sorted(files.items())]
    return (*said, *(f"{name}=={found}" for name, found in sorted(packages.items())))


@cache
def digest_of_path(path: str) -> str:
    """SHA-256 of a file, or of all files in a folder with their names."""
    found = hashlib.sha256()
    files = sorted(p for p in Path(path).rglob("*") if p.is_file()) if os.path.isdir(path) else [Path(path)]
    for file in files:
        found.update(str(file.relative_to(path)).encode() if os.path.isdir(path) else b"")
        with file.open("rb") as opened:
            while read := opened.read(_READ_BYTES):
                found.update(read)
    return found.hexdigest()


def digests_of_paths(paths: Iterable[str]) -> list[str]:
    """Digests of files and folders that were declared, in their order."""
    return [digest_of_path(path) for path in paths]


def _place(name: str) -> str | None:
    """The file of a module; None: none is known (of C, or not there); an empty text: Penstock's own."""
    if name.partition(".")[0] == _OWN and not name.startswith("penstock.engine.examples."):
        return ""
    loaded: Any = sys.modules.get(name)
    if isinstance(loaded, ModuleType):
        try:
            return inspect.getsourcefile(loaded)
        except TypeError:
            return None
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None
    return spec.origin if spec is not None and spec.origin and os.path.isfile(spec.origin) else None


def _is_installed(place: str) -> bool:
    return any(folder in place for folder in _INSTALLED)


def _imported(name: str, place: str) -> Iterator[str]:
    """Modules that a file's text imports, and the packages that they are in."""
    try:
        tree = ast.parse(Path(place).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name if os.path.basename(place) == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield from _with_packages(one.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            yield from _with_packages(base)
            yield from (f"{base}.{one.name}" for one in node.names if _place(f"{base}.{one.name}"))


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _version_of(top: str) -> dict[str, str]:
    """Distribution to version of a package that is installed."""
    return {found: version(found) for found in _distributions().get(top, ())}
