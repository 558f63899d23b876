"""The cells of a sweep, which are all combinations of the values in its spec."""

import ast
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import packages_distributions, version
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, cast

from penstock.engine.measure.sweep.sweep_spec import (
    CAPTURED,
    MOST_CELLS,
    PARAMETERS,
    VERSION,
    WORKLOADS,
    SweepSource,
    SweepSpec,
    beside,
    costs_beside,
    default_operators,
)
from penstock.engine.planning.find_custom_planners import find_custom_planners, names_custom_planner
from penstock.engine.planning.plan_by_custom_planners import DEFAULT_SECONDS
from penstock.engine.planning.planner_process import RemoteFunction
from penstock.engine.planning.planner_program import PlannerProgram
from penstock.operators.common.flink_yaml import as_option_text
from penstock.plans.errors import InputError
from penstock.plans.installation import own_version


class Cell(NamedTuple):
    """A measurement of topologies from `source`, with `costs`, `planner` and `constants` as bench takes them.

    `key` is a digest of everything that the result depends on: the parameters, the contents of files, the
    code of a planner and its imports, the processor, the versions of Python, packages and Penstock.
    """

    source: Mapping[str, Any]
    options: Mapping[str, str]
    costs: str | None
    planner: str
    repetition: int
    key: str
    constants: str | None = None

    @property
    def topologies(self) -> str:
        """Describe the source in one line."""
        kind, name = next(
            (key, value) for key, value in self.source.items() if key in ("shape", "file", "spec")
        )
        parameters = [f"{key}={self.source[key]}" for key in PARAMETERS if key in self.source]
        return " ".join([Path(name).name if kind != "shape" else name, *parameters])

    def __str__(self) -> str:
        chosen = [f"{key}={value}" for key, value in self.options.items()]
        costs = [f"costs={self.costs}"] if self.costs is not None else []
        return ", ".join([self.topologies, *chosen, *costs, self.planner])


def cells_of(
    spec: SweepSpec,
    path: str,
    depends: Sequence[str] = (),
    defines: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    time_limit: float = DEFAULT_SECONDS,
) -> list[Cell]:
    """Return the grid of the spec file `path`, in the order of measurement.

    Planners take turns on the same topologies and options, repetition by repetition. `depends`: other files
    and folders that planners read or run. `defines`: options of all cells, overridden by the spec;
    `settings`: settings of configuration files, overridden by both. `time_limit`: seconds of a planner for a
    batch. Files are read at each call. Raises InputError for more than MOST_CELLS cells, and if a file in
    `depends` does not exist.
    """
    code_of_planner.cache_clear()
    digest_of_path.cache_clear()
    importlib.invalidate_caches()
    sources = [point for source in spec.topologies for point in _points(source, path)]
    options = [{**(defines or {}), **chosen} for chosen in axes_of_options(spec.options)]
    costs: Sequence[str | None] = spec.costs or [None]
    count = len(sources) * len(options) * len(costs) * spec.repeat * len(spec.planners)
    if count > MOST_CELLS:
        raise InputError(f"{path}: the grid must have at most {MOST_CELLS:,} cells, got {count:,}")
    if missing := [place for place in depends if not os.path.exists(place)]:
        raise InputError(f"--depends {missing[0]}: no such file or folder")
    declared = [digest_of_path(place) for place in depends]
    if time_limit != DEFAULT_SECONDS:
        declared.append(f"time limit {time_limit:g}")
    constants = None if spec.constants is None else beside(path, spec.constants)
    return [
        _cell(
            source, chosen, costs_beside(path, cost), planner, repetition, declared, constants, settings or {}
        )
        for source in sources
        for chosen in options
        for cost in costs
        for repetition in range(1, spec.repeat + 1)
        for planner in spec.planners
    ]


def axes_of_options(options: Mapping[str, list[Any]]) -> Iterator[dict[str, str]]:
    """Yield every combination of values of Flink's options, as texts."""
    for values in product(*options.values()):
        yield {key: as_option_text(value) for key, value in zip(options, values, strict=True)}


def _points(source: SweepSource, path: str) -> Iterator[dict[str, Any]]:
    """Yield every combination of values in a source."""
    for file in source.file or ():
        yield {"file": beside(path, file)}
    for name in source.spec or source.shape or ():
        axes = {key: getattr(source, key) for key in PARAMETERS if getattr(source, key) is not None}
        for values in product(*axes.values()):
            point = dict(zip(axes, values, strict=True))
            if source.spec:
                yield {"spec": beside(path, name), "topologies": 1, "seed": 0, **point}
            elif name in (WORKLOADS, CAPTURED):
                yield {"shape": name, **point}
            else:
                yield {
                    "shape": name,
                    "topologies": 1,
                    "operators": default_operators(name),
                    "seed": 0,
                    **point,
                }


def _cell(
    source: Mapping[str, Any],
    options: Mapping[str, str],
    costs: str | None,
    planner: str,
    repetition: int,
    declared: Sequence[str],
    constants: str | None,
    settings: Mapping[str, str],
) -> Cell:
    contents = [
        digest_of_path(path)
        for path in (source.get("file"), source.get("spec"), costs, constants)
        if path and os.path.exists(path)
    ]
    code = [*code_of_planner(planner), *(declared if names_custom_planner(planner) else ())]
    means = [VERSION, own_version(), _processor(), source, options, costs, contents, planner, code]
    if below := {key: text for key, text in settings.items() if key not in options}:
        means.append(below)
    key = hashlib.sha256(json.dumps(means, sort_keys=True).encode()).hexdigest()[:32]
    return Cell(source, options, costs, planner, repetition, key, constants)


@cache
def _processor() -> str:
    from penstock.engine.measure.bench.measure_suites import describe_machine  # not for readers of results

    return str(describe_machine()["processor"])


# Inputs of a planner: its modules, their imports, packages, and declared files.


_READ_BYTES = 1 << 20
_INSTALLED = ("site-packages", "dist-packages")
_OWN = "penstock"
_IMPORTING = ("__import__", "import_module", "importlib.import_module")


@cache
def code_of_planner(planner: str) -> tuple[str, ...]:
    """Return digests of the user's files that a planner imports, and versions of the packages they import.

    Nothing is returned for Flink's rules. Imports are found in the text of the files, also inside functions.
    For a planner that is a program, the files in its command line count. Files that are read or run in other
    ways (a trained model) are not detected: they must be declared.
    """
    if not names_custom_planner(planner):
        return ()
    functions = [custom_planner.function for custom_planner in find_custom_planners(planner)]
    files_of_programs = [path for function in functions for path in _files_of_program(function)]
    if files_of_programs:
        return tuple(f"{path}={digest_of_path(path)}" for path in files_of_programs)
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
        for imported in _imported(name, place):
            if imported not in seen and imported.partition(".")[0] not in sys.stdlib_module_names:
                seen.add(imported)
                todo.append(imported)
    digests = [f"{name}={digest}" for name, digest in sorted(files.items())]
    return (*digests, *(f"{name}=={installed}" for name, installed in sorted(packages.items())))


def _files_of_program(function: Any) -> Iterable[str]:
    """Return the files of a planner that is a program; none for a function."""
    if isinstance(function, RemoteFunction):
        return cast("list[str]", function.described["files"])
    return function.files() if isinstance(function, PlannerProgram) else ()


@cache
def digest_of_path(path: str) -> str:
    """Return the SHA-256 of a file, or of all files in a folder with their names."""
    digest = hashlib.sha256()
    files = sorted(p for p in Path(path).rglob("*") if p.is_file()) if os.path.isdir(path) else [Path(path)]
    for file in files:
        digest.update(str(file.relative_to(path)).encode() if os.path.isdir(path) else b"")
        with file.open("rb") as opened:
            while read := opened.read(_READ_BYTES):
                digest.update(read)
    return digest.hexdigest()


def _place(name: str) -> str | None:
    """Return the file of a module; None if unknown (in C, or missing), empty for Penstock's modules."""
    if name.partition(".")[0] == _OWN and not name.startswith("penstock.engine.examples."):
        return ""
    loaded: Any = sys.modules.get(name)
    if isinstance(loaded, ModuleType):
        try:
            return inspect.getsourcefile(loaded) or inspect.getfile(loaded)  # of C: itself
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
    """Yield modules that a file's text imports, and the packages that contain them."""
    try:
        tree = ast.parse(Path(place).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    package = name if os.path.basename(place) == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_packages(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, *filter(None, [base])])
            yield from _with_packages(base)
            yield from (f"{base}.{alias.name}" for alias in node.names if _place(f"{base}.{alias.name}"))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in _IMPORTING and node.args:
            named = node.args[0]
            if isinstance(named, ast.Constant) and isinstance(named.value, str):
                yield from _with_packages(named.value)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@cache
def _distributions() -> dict[str, list[str]]:
    return dict(packages_distributions())


def _version_of(top: str) -> dict[str, str]:
    """Return the version of an installed package by distribution."""
    return {distribution: version(distribution) for distribution in _distributions().get(top, ())}
