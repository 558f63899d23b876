"""Form of spec files of sweeps."""

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from penstock.engine.planning.chosen_costs import ALIKE, DRAWN
from penstock.plans.errors import PenstockError
from penstock.plans.generate.draw_by_spec import read_with_contradictions
from penstock.plans.generate.fleet import Spec
from penstock.plans.generate.layered import SHAPES
from penstock.plans.topology.rules import shorten

WORKLOADS = "workloads"
"""Value of `shape` for published benchmarks with costs."""

CAPTURED = "captured"
"""Value of `shape` for jobs of real programs."""

PARAMETERS = ("topologies", "operators", "seed", "parallelism", "share_of_uids", "width")
_ALLOWED = {"file": (), "spec": ("topologies", "seed"), WORKLOADS: ("parallelism",), CAPTURED: ()}
_DEFAULTS = {shape.name: shape.default_operators for shape in SHAPES}
_WITHOUT_WIDTH = [shape.name for shape in SHAPES if not shape.width]


def _values(allowed: tuple[type, ...], expected: str) -> BeforeValidator:
    """Accept a value or a list of different values, and return a list."""

    def read(value_or_list: Any) -> list[Any]:
        values = _listed(value_or_list)
        wrong = [value for value in values if type(value) not in allowed]
        if wrong or not values:
            raise ValueError(
                f"must be {expected} or a list of them, got {shorten(wrong[0] if wrong else value_or_list)}"
            )
        twice = next((value for value, times in Counter(values).items() if times > 1), None)
        if twice is not None:
            raise ValueError(f"{shorten(twice)} is listed twice")
        return values

    return BeforeValidator(read)


_TEXTS = _values((str,), "a text")
_NUMBERS = _values((int,), "a whole number")
_SHARES = _values((int, float), "a number")
_OPTIONS = _values((str, int, float, bool), "a text, a number, true or false")


class _SpecPart(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SweepSource(_SpecPart):
    """Topologies of shapes, files or spec files; exactly one is set. Each list is an axis of the grid."""

    shape: Annotated[list[str] | None, _TEXTS] = None
    file: Annotated[list[str] | None, _TEXTS] = None
    spec: Annotated[list[str] | None, _TEXTS] = None
    topologies: Annotated[list[int] | None, _NUMBERS] = None
    operators: Annotated[list[int] | None, _NUMBERS] = None
    seed: Annotated[list[int] | None, _NUMBERS] = None
    parallelism: Annotated[list[int] | None, _NUMBERS] = None
    share_of_uids: Annotated[list[float] | None, _SHARES] = None
    width: Annotated[list[int] | None, _NUMBERS] = None

    @model_validator(mode="wrap")
    @classmethod
    def _check_contradictions(cls, source: Any, read: Callable[[Any], Any]) -> Any:
        return read_with_contradictions(source, read, _contradictions)


def _contradictions(source: Mapping[str, Any]) -> list[str]:
    """Describe contradictions between the keys of a source, and values that depend on other keys."""
    kinds = [kind for kind in ("shape", "file", "spec") if source.get(kind) is not None]
    problems = []
    if len(kinds) != 1:
        problems.append(f"must have one of shape, file, spec, got {' and '.join(kinds) or 'none'}")
    parameters = {name for name in PARAMETERS if source.get(name) is not None}
    names = _listed(source.get("shape")) if kinds == ["shape"] else kinds
    every = (*_DEFAULTS, WORKLOADS, CAPTURED)
    for name in names:
        if kinds == ["shape"] and name not in every:
            if isinstance(name, str):
                problems.append(f"shape must be one of {', '.join(every)}, got {shorten(name)}")
            continue
        allowed = set(_ALLOWED.get(name, PARAMETERS))
        if name in _WITHOUT_WIDTH:
            allowed -= {"width"}
        if parameters - allowed:
            listed = ", ".join(p for p in PARAMETERS if p in allowed) or "nothing else"
            problems.append(f"{name} takes {listed}, got {', '.join(sorted(parameters - allowed))}")
    for name in sorted(parameters, key=PARAMETERS.index):
        for value in _listed(source[name]):
            if type(value) is not int and not (name == "share_of_uids" and type(value) is float):
                continue  # reported for the key already
            given: dict[str, Any] = {"operators": 2, name: value}
            try:
                Spec(**given)
            except PenstockError as error:
                problems.append(str(error))
    return problems


def _listed(value_or_list: Any) -> list[Any]:
    return value_or_list if isinstance(value_or_list, list) else [value_or_list]


class SweepSpec(_SpecPart):
    """The axes of a grid in a spec file. `options` are Flink's, with lists of values.

    `constants`: a file of the cost model's constants for all cells.
    """

    topologies: Annotated[list[SweepSource], Field(min_length=1)]
    planners: Annotated[list[str], _TEXTS] = ["flink"]
    options: dict[str, Annotated[list[str | int | float | bool], _OPTIONS]] = {}
    costs: Annotated[list[str] | None, _TEXTS] = None
    constants: Annotated[str | None, Field(min_length=1, strict=True)] = None
    repeat: Annotated[int, Field(ge=1, le=1000, strict=True)] = 1

    @model_validator(mode="before")
    @classmethod
    def _one_source_is_a_list(cls, spec: Any) -> Any:
        if isinstance(spec, dict) and isinstance(spec.get("topologies"), dict):
            return {**spec, "topologies": [spec["topologies"]]}
        return spec


def default_operators(shape: str) -> int:
    """Return the default number of operators of a shape's topology."""
    return _DEFAULTS[shape]


def beside(spec: str, path: str) -> str:
    """Resolve a path in a spec file, which is relative to the folder of the spec file."""
    return str(Path(spec).parent / path)


def costs_beside(spec: str, costs: str | None) -> str | None:
    """Return the value of --costs for `costs` in a spec file."""
    return costs if costs in (None, DRAWN, ALIKE) else beside(spec, costs)


# Defaults and formats of `penstock sweep table`.


DEFAULT_METRICS = ("sustained_records_per_second", "slots", "planning_seconds")


class TableFormat(StrEnum):
    """Values of --format."""

    MARKDOWN = "markdown"
    LATEX = "latex"  #: for the package booktabs
    CSV = "csv"


VERSION = 3
"""Incremented whenever the meaning of a cell changes."""

MOST_CELLS = 100_000
