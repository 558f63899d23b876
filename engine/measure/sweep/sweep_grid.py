"""A sweep from its spec to its results, as the command and the library run it."""

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import ValidationError

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import configuration_directory, find_configuration
from penstock.engine.measure.bench.measure_quality import require_planners
from penstock.engine.measure.sweep.grid import Cell, axes_of_options, cells_of
from penstock.engine.measure.sweep.measure_cell import CellRequest
from penstock.engine.measure.sweep.run_sweep import Swept, run_sweep
from penstock.engine.measure.sweep.sweep_spec import WORKLOADS, SweepSource, SweepSpec, beside, costs_beside
from penstock.engine.output.progress import Report
from penstock.engine.planning.chosen_costs import require_costs
from penstock.operators.common.flink_yaml import core_schema_loader
from penstock.plans.errors import InputError, PenstockError
from penstock.plans.generate.by_spec.fleet_spec import read_fleet_spec
from penstock.plans.metrics.exchange_costs import read_constants
from penstock.plans.topology.rules import shorten


class PreparedSweep(NamedTuple):
    """The cells of a spec, and how each is measured."""

    cells: list[Cell]
    request: CellRequest
    configuration: EffectiveConfiguration


def prepare_sweep(
    spec: str | Mapping[str, Any],
    config_dir: str | None,
    defines: Mapping[str, str],
    time_limit: float,
    depends: Sequence[str] = (),
) -> PreparedSweep:
    """A spec (the path of a file, or what it would hold) as cells.

    Raises InputError and ConfigurationError, with all that is wrong.
    """
    configuration = find_configuration(config_dir, dict(defines))
    path = spec if isinstance(spec, str) else "spec"
    read = read_sweep_spec(path) if isinstance(spec, str) else sweep_spec_of(spec, path)
    settings = {key: setting.text for key, setting in configuration.settings.items() if key not in defines}
    cells = cells_of(read, path, depends, defines, settings, time_limit)
    named = None if config_dir is None else str(configuration_directory(config_dir).path.resolve())
    return PreparedSweep(
        cells, CellRequest({}, {}, None, "", named, dict(defines), time_limit), configuration
    )


def sweep_grid(
    prepared: PreparedSweep,
    out: str,
    report: Report,
    *,
    again: bool = False,
    anew: bool = False,
    timeout: float = 3600,
    master: str | None = None,
    spark: Any = None,
) -> Swept:
    """Measure what has no result yet (see run_sweep), here or on the Spark of `master` or `spark`."""
    if master is None and spark is None:
        from penstock.engine.measure.sweep.measure_here import measure_here

        measure = measure_here(prepared.request, timeout)
    else:
        from penstock.engine.measure.sweep.measure_on_spark import measure_on_spark
        from penstock.engine.spark.session import any_session

        conf = prepared.configuration.spark
        session = spark or any_session(master=master, conf=conf, app_name="penstock sweep")
        measure = measure_on_spark(session, prepared.request)
    return run_sweep(prepared.cells, out, measure, report, again, anew)


# Reading the spec file of a sweep, with everything that is wrong in it, by line.


_Check = tuple[tuple[Any, ...], Callable[[], object]]
"""A place in the spec, and what raises if the machine does not have what is named there."""

LARGEST_BYTES = 1 << 20
_DEEPEST = 10
_KEYS = {"": SweepSpec.model_fields, "topologies": SweepSource.model_fields}


def read_sweep_spec(path: str) -> SweepSpec:
    """The spec of a YAML file.

    Raises InputError with everything that is wrong: its form, files that are not there, planners that cannot
    be loaded, options that Flink does not have.
    """
    return _read(path, _root(path))


def sweep_spec_of(value: Mapping[str, Any], path: str) -> SweepSpec:
    """The spec that a mapping is, as a file would hold it; `path`: what it is called, where it would be.

    Raises InputError, as read_sweep_spec.
    """
    try:
        text = yaml.safe_dump(dict(value), sort_keys=False)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: found what no spec holds: {str(error).splitlines()[0]}") from None
    root = core_schema_loader(text).get_single_node()
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path}: found no object, allowed one with the key topologies")
    return _read(path, root)


def _read(path: str, root: Any) -> SweepSpec:
    value = _value(path, root)
    problems: list[str] = []
    spec: SweepSpec | None
    try:
        spec = SweepSpec.model_validate(value)
    except ValidationError as error:
        problems = [_said(path, root, problem) for problem in error.errors()]
        spec = _right_part(value, [problem["loc"] for problem in error.errors() if problem["loc"]])
    if spec is not None:
        problems += [
            f"{path}:{_line(root, place)}: {'.'.join(map(str, place))}: {said}"
            for place, said in _found_missing(path, spec)
        ]
    if problems or spec is None:
        raise _refused(problems)
    return spec


def _right_part(value: Mapping[str, Any], wrong: Collection[tuple[int | str, ...]]) -> SweepSpec | None:
    """The spec without the keys and sources that are wrong, so that the others are checked too."""
    placeholder = {"shape": WORKLOADS}
    keys = {place[0] for place in wrong if place[0] != "topologies" or len(place) == 1}
    right = {key: part for key, part in value.items() if key not in keys}
    sources = right.get("topologies", placeholder)
    listed = sources if isinstance(sources, list) else [sources]
    numbers = {place[1] for place in wrong if place[0] == "topologies" and len(place) > 1}
    right["topologies"] = [
        placeholder if number in numbers else source for number, source in enumerate(listed)
    ]
    try:
        return SweepSpec.model_validate(right)
    except ValidationError:
        return None


def _refused(problems: Sequence[str]) -> InputError:
    unique = list(dict.fromkeys(problems))
    return InputError("\n".join(unique), "docs/sweeps.md describes every key")


def _root(path: str) -> Any:
    """The document as nodes, which know their lines."""
    try:
        with open(path, "rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if len(data) > LARGEST_BYTES:
        raise InputError(f"{path}: is larger than {LARGEST_BYTES >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
        _require_plain(path, text)
        root = core_schema_loader(text).get_single_node()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}:{data[: error.start].count(10) + 1}: is not UTF-8") from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark is not None else ""
        raise InputError(f"{path}{line}: no YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path}: found no object, allowed one with the key topologies")
    return root


def _require_plain(path: str, text: str) -> None:
    """InputError for what makes a small file large, or deep."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        place = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{place}: found an alias (*), allowed values written out")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise InputError(f"{place}: found lists and objects {_DEEPEST + 1} deep, allowed {_DEEPEST}")


def _value(path: str, node: Any) -> Any:
    """The value of a YAML node. InputError for a key that is there twice."""
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in mapping:
                raise InputError(f"{path}:{key.start_mark.line + 1}: {shorten(name)} is there twice")
            mapping[name] = _value(path, value)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, item) for item in node.value]
    try:
        return core_schema_loader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{path}:{node.start_mark.line + 1}: {error}") from error


def _line(node: Any, place: Sequence[Any]) -> int:
    """The line of what is at `place`, or of what is around it."""
    line = int(node.start_mark.line) + 1
    for step in place:
        if isinstance(node, yaml.MappingNode):
            entry = next(((key, value) for key, value in node.value if key.value == step), None)
            if entry is None:
                continue
            line, node = int(entry[0].start_mark.line) + 1, entry[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
            line = int(node.start_mark.line) + 1
    return line


def _said(path: str, root: Any, error: Any) -> str:
    place = [part for part in error["loc"] if not str(part).startswith("function-")]
    line = _line(root, place)
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        *above, key = place
        known = list(_KEYS.get(str(above[0]) if above else "", ()))
        close = get_close_matches(str(key), known, n=1)
        message = f"unknown key; {f'did you mean {close[0]}?' if close else 'allowed ' + ', '.join(known)}"
    elif error["type"] == "missing":
        message = "found nothing, allowed one source of topologies or a list of them"
    elif "found " not in message:
        message = f"found {shorten(error['input'])}: {message[:1].lower()}{message[1:]}"
    return f"{path}:{line}: {'.'.join(str(part) for part in place) or 'spec'}: {message}"


def _found_missing(path: str, spec: SweepSpec) -> list[tuple[tuple[Any, ...], str]]:
    """Things that the spec names and the machine lacks: their place in the spec, and the reason."""

    def options(chosen: Mapping[str, str]) -> None:
        try:
            find_configuration(None, chosen, f"{path}:options")
        except PenstockError as error:
            raise InputError(error.message.split(f"{path}:options: ")[-1]) from error

    of_files = (
        (("topologies", number, key), partial(require, beside(path, file)))
        for number, source in enumerate(spec.topologies)
        for key, require in (("file", _require_there), ("spec", read_fleet_spec))
        for file in getattr(source, key) or ()
    )
    of_planners = ((("planners",), partial(require_planners, [planner])) for planner in spec.planners)
    of_costs = ((("costs",), partial(require_costs, costs_beside(path, cost))) for cost in spec.costs or ())
    of_each = (
        (("options", key), partial(options, option))
        for key, values in spec.options.items()
        for option in axes_of_options({key: values})
    )
    of_constants = (
        (("constants",), partial(read_constants, Path(beside(path, constants))))
        for constants in [spec.constants]
        if constants
    )
    checks: Iterable[_Check] = chain(of_files, of_planners, of_costs, of_constants, of_each)
    together = ((("options",), partial(options, chosen)) for chosen in axes_of_options(spec.options))
    return _failed(checks) or _failed(together)


def _require_there(path: str) -> None:
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file or folder")


def _failed(checks: Iterable[_Check]) -> list[tuple[tuple[Any, ...], str]]:
    """The checks that raise: place and reason."""
    failures: list[tuple[tuple[Any, ...], str]] = []
    for place, check in checks:
        try:
            check()
        except PenstockError as error:
            failures.append((place, error.message))
        except OSError as error:
            failures.append((place, str(error)))
    return failures
