"""The cells of a sweep: every combination of what its spec lists."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from penstock.engine.bench.describe_machine import describe_machine
from penstock.engine.planning.find_custom_planners import names_custom_planner
from penstock.engine.sweep.planner_code import code_of_planner, digest_of_path, digests_of_paths
from penstock.engine.sweep.sweep_spec import (
    CAPTURED,
    PARAMETERS,
    WORKLOADS,
    Source,
    SweepSpec,
    beside,
    costs_beside,
    default_operators,
)
from penstock.operators.common.flink_yaml import as_option_text
from penstock.plans.errors import InputError

VERSION = 2
"""Raised whenever a cell means something else."""

MOST_CELLS = 100_000


class Cell(NamedTuple):
    """One measurement: `source` says where topologies come from; `costs`, `planner` and `constants`
    as bench takes them.

    `key` is a digest of all that the result follows from: the parameters, the contents of files, the code
    of a planner and what it imports, the processor, the versions of Python, packages and Penstock.
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
        """The source in one line."""
        kind, name = next(
            (key, value) for key, value in self.source.items() if key in ("shape", "file", "spec")
        )
        given = [f"{key}={self.source[key]}" for key in PARAMETERS if key in self.source]
        return " ".join([Path(name).name if kind != "shape" else name, *given])

    def __str__(self) -> str:
        chosen = [f"{key}={value}" for key, value in self.options.items()]
        costs = [f"costs={self.costs}"] if self.costs is not None else []
        return ", ".join([self.topologies, *chosen, *costs, self.planner])


def cells_of(spec: SweepSpec, path: str, depends: Sequence[str] = ()) -> list[Cell]:
    """The grid of the spec file `path`, in the order in which it is measured.

    Planners take turns on the same topologies and options, repetition by repetition. `depends`: files and
    folders that planners read or run, beside what they import. Raises InputError for more than MOST_CELLS,
    and where such a file is not there.
    """
    sources = [point for source in spec.topologies for point in _points(source, path)]
    options = list(axes_of_options(spec.options))
    costs: Sequence[str | None] = spec.costs or [None]
    count = len(sources) * len(options) * len(costs) * spec.repeat * len(spec.planners)
    if count > MOST_CELLS:
        raise InputError(f"{path}: found a grid of {count:,} cells, allowed {MOST_CELLS:,}")
    if missing := [one for one in depends if not os.path.exists(one)]:
        raise InputError(f"--depends {missing[0]}: no such file or folder")
    declared = digests_of_paths(depends)
    constants = None if spec.constants is None else beside(path, spec.constants)
    return [
        _cell(source, chosen, costs_beside(path, cost), planner, repetition, declared, constants)
        for source in sources
        for chosen in options
        for cost in costs
        for repetition in range(1, spec.repeat + 1)
        for planner in spec.planners
    ]


def axes_of_options(options: Mapping[str, list[Any]]) -> Iterator[dict[str, str]]:
    """Every combination of values of Flink's options, as texts."""
    for values in product(*options.values()):
        yield {key: as_option_text(value) for key, value in zip(options, values, strict=True)}


def _points(source: Source, path: str) -> Iterator[dict[str, Any]]:
    """Every combination of what a source lists."""
    for file in source.file or ():
        yield {"file": beside(path, file)}
    for name in source.spec or source.shape or ():
        axes = {key: getattr(source, key) for key in PARAMETERS if getattr(source, key) is not None}
        for values in product(*axes.values()):
            given = dict(zip(axes, values, strict=True))
            if source.spec:
                yield {"spec": beside(path, name), "topologies": 1, "seed": 0, **given}
            elif name in (WORKLOADS, CAPTURED):
                yield {"shape": name, **given}
            else:
                yield {
                    "shape": name,
                    "topologies": 1,
                    "operators": default_operators(name),
                    "seed": 0,
                    **given,
                }


def _cell(
    source: Mapping[str, Any],
    options: Mapping[str, str],
    costs: str | None,
    planner: str,
    repetition: int,
    declared: Sequence[str],
    constants: str | None,
) -> Cell:
    contents = [
        digest_of_path(path)
        for path in (source.get("file"), source.get("spec"), costs, constants)
        if path and os.path.exists(path)
    ]
    code = [*code_of_planner(planner), *(declared if names_custom_planner(planner) else ())]
    means = [VERSION, _version(), _processor(), source, options, costs, contents, planner, code]
    key = hashlib.sha256(json.dumps(means, sort_keys=True).encode()).hexdigest()[:32]
    return Cell(source, options, costs, planner, repetition, key, constants)


@cache
def _processor() -> str:
    return str(describe_machine()["processor"])


@cache
def _version() -> str:
    try:
        return version("penstock")
    except PackageNotFoundError:
        return ""
