"""Run a sweep from its spec to its results, for the command and the library."""

import base64
import fcntl
import json
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa
import yaml
from pydantic import ValidationError

from penstock.engine.configuration.effective_configuration import EffectiveConfiguration
from penstock.engine.configuration.find_configuration import configuration_directory, find_configuration
from penstock.engine.machine.replace_file import make_output_folder
from penstock.engine.measure.bench.measure_planner import describe_failure
from penstock.engine.measure.bench.measure_quality import plan_and_measure, require_planners
from penstock.engine.measure.bench.measure_suites import describe_machine, describe_versions
from penstock.engine.measure.bench.prepare_inputs import CAPTURED as CAPTURED_FILE
from penstock.engine.measure.bench.prepare_inputs import WORKLOADS as WORKLOADS_FILE
from penstock.engine.measure.bench.run_child import (
    Child,
    end_child,
    python_command,
    request_of_child,
    start_child,
)
from penstock.engine.measure.sweep.grid import Cell, axes_of_options, cells_of
from penstock.engine.measure.sweep.results_table import (
    CellResult,
    append_rows,
    failure_of_row,
    forget_cells,
    measured_cells,
    quality_rows,
    result_row,
)
from penstock.engine.measure.sweep.sweep_spec import (
    CAPTURED,
    PARAMETERS,
    WORKLOADS,
    SweepSource,
    SweepSpec,
    beside,
    costs_beside,
)
from penstock.engine.output.progress import Report
from penstock.engine.planning.chosen_costs import require_costs
from penstock.engine.planning.find_custom_planners import (
    find_custom_planners,
    names_custom_planner,
    send_planners,
)
from penstock.engine.planning.plan_by_custom_planners import call_settings
from penstock.engine.planning.plan_in_process import read_in_process
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.store.store_location import require_no_version
from penstock.operators.common.flink_yaml import core_schema_loader
from penstock.plans.errors import ConfigurationError, InputError, PenstockError
from penstock.plans.generate.draw_by_spec import draw_by_spec, no_counts, read_fleet_spec
from penstock.plans.generate.fleet import Spec, fleet_tables
from penstock.plans.generate.layered import find_shape
from penstock.plans.layers import PlanOptions
from penstock.plans.metrics.plan_metrics import fleet_metrics
from penstock.plans.metrics.rates_and_loads import CONSTANTS, read_constants
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.rules import shorten
from penstock.plans.topology.topologies_of_lines import TopologyTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Measuring the cells without a result.


Answer = Mapping[str, Any]
Measure = Callable[[Sequence[Cell]], Iterator[tuple[Cell, Answer]]]
"""Maps cells, in any order, to answers: `result` or `failure`, and the cell's resources."""

COMMIT_SECONDS = 1.0
"""Interval of commits: faster rows are committed together. Rows lost in a kill are measured again."""

_LOCK = ".lock"


class SweepResult(NamedTuple):
    """Counts of cells measured now and before, and failures with reasons in grid order.

    A cell whose planner failed for some of its topologies counts as failed.
    """

    measured: int
    before: int
    failed: list[tuple[Cell, str]]


def run_sweep(
    cells: Sequence[Cell],
    folder: str,
    measure: Measure,
    report: Report,
    again: bool,
    anew: bool = False,
) -> SweepResult:
    """Append a row for each cell without one to the table in `folder`; existing rows stay.

    `again`: cells of this grid with an error are measured once more. `anew`: all rows of the grid are deleted
    first, so that everything is measured. Each (cell, repetition) without an error has one row, even if the
    sweep is killed and continued several times. Raises ConfigurationError if another sweep writes to the
    folder, StoreError and MachineError.
    """
    with _alone(folder):
        if anew:
            forget_cells(folder, cells)
        earlier = measured_cells(folder)
        todo = [cell for cell in cells if _needs_measuring(earlier, cell, again)]
        failures = {key: row.failure for key, row in earlier.items()}
        versions = {
            "penstock_version": describe_versions(False).get("penstock"),
            "processor": describe_machine()["processor"],
        }
        started, pending, quality, committed = time.monotonic(), [], [], time.monotonic()
        measured = 0
        try:
            report(_label(todo, 0, started))
            for cell, answer in measure(todo):
                measured += 1
                row = result_row(cell, datetime.now(UTC), answer, versions)
                pending.append(row)
                metrics = quality_rows(row, answer)
                quality += [] if metrics is None else [metrics]
                failures[cell.key, cell.repetition] = failure_of_row(row)
                if time.monotonic() - committed >= COMMIT_SECONDS:
                    rows, metrics_of_rows, pending, quality = pending, quality, [], []
                    append_rows(folder, rows, metrics_of_rows)
                    committed = time.monotonic()
                if measured < len(todo):
                    report(_label(todo, measured, started))
        finally:
            append_rows(folder, pending, quality)
        failed = [(c, why) for c in cells if (why := failures.get((c.key, c.repetition)))]
        return SweepResult(measured, len(cells) - len(todo), failed)


def _needs_measuring(earlier: Mapping[tuple[str, int], CellResult], cell: Cell, again: bool) -> bool:
    row = earlier.get((cell.key, cell.repetition))
    return row is None or (again and row.error is not None)


def _label(todo: Sequence[Cell], done: int, started: float) -> str:
    """Describe the next cell, and the remaining time at the pace so far."""
    if not todo:
        return "nothing to measure"
    if not done:
        return str(todo[0])
    remaining_seconds = (time.monotonic() - started) / done * (len(todo) - done)
    return f"{todo[done]} (about {_rounded(remaining_seconds)} left)"


def _rounded(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@contextmanager
def _alone(folder: str) -> Iterator[None]:
    """Make `folder` and lock it for this sweep. The lock ends with the process, even if it is killed."""
    require_no_version(folder, folder)
    make_output_folder(folder)
    with open(os.path.join(folder, _LOCK), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"--out {folder}: another sweep is writing to it", "wait for it, or name another folder"
            ) from None
        yield


# One cell of a sweep: read its topologies, plan them, measure the plans.


Result = dict[str, Any]
"""Counts, seconds and `metrics` of a cell: mean and 95th percentile over its topologies, by metric.
`quality`: the metrics of each topology, as encoded by quality_text."""


class CellRequest(NamedTuple):
    """A cell as sent to a process, as JSON; `defines` are options of all cells."""

    source: Mapping[str, Any]
    options: Mapping[str, str]
    costs: str | None
    planner: str
    config_dir: str | None
    defines: Mapping[str, str]
    time_limit: float
    constants: str | None = None


class CellMeter:
    """Measures cells, and caches the last topologies for the next cell.

    A class, because the cache lives as long as the measuring process.
    """

    def __init__(self) -> None:
        self._source: tuple[str, JobDefaults] | None = None
        self._read: TopologyTables | None = None

    def measure(self, request: CellRequest) -> Result:
        """Measure a cell. Raises the errors of reading and planning."""
        defines = {**request.defines, **request.options}
        configuration = find_configuration(request.config_dir, defines)
        options = plan_options(cluster=configuration.cluster, job_defaults=configuration.job_defaults)
        read, seconds = self._topologies(request.source, options)
        terms = CONSTANTS if request.constants is None else read_constants(Path(request.constants))
        settings = call_settings(request.costs, read.topologies, request.time_limit, constants=terms)
        measured = plan_and_measure(read, request.planner, settings, options)
        metrics = {
            row["metric"]: [row["mean"], row["p95"]]
            for row in fleet_metrics(measured.plans).iter_rows(named=True)
        }
        counts = {"inputs": read.inputs, "read_seconds": seconds, **measured.summary}
        return {**counts, "metrics": metrics, "quality": quality_text(measured.plans)}

    def _topologies(
        self, source: Mapping[str, Any], options: PlanOptions
    ) -> tuple[TopologyTables, float | None]:
        """Return the topologies of a source, and the seconds of reading; None if they were cached."""
        key = (json.dumps(dict(source), sort_keys=True), options.job_defaults)
        if self._source == key and self._read is not None:
            return self._read, None
        self._source, self._read = None, None  # frees the old topologies before new ones are read
        given = _given(source)
        started = time.monotonic()
        self._read = read_in_process(given, options)
        self._source = key
        return self._read, time.monotonic() - started


def quality_text(plans: pl.DataFrame) -> str:
    """Encode plan_metrics as text for JSON, a compressed Arrow stream in Base64."""
    numbers = [name for name in plans.columns if plans.schema[name].is_numeric() and name != TOPOLOGY]
    rows = plans.select(pl.col("name").alias("topology"), pl.col(numbers).cast(pl.Float64))
    sink = pa.BufferOutputStream()
    table = rows.to_arrow(compat_level=pl.CompatLevel.oldest())
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(table)
    return base64.b64encode(sink.getvalue()).decode()


def _given(source: Mapping[str, Any]) -> Any:
    """Return the topologies of a source in a form that planning reads."""
    if "file" in source:
        return source["file"]
    if "spec" in source:
        spec, counts = read_fleet_spec(source["spec"]), no_counts()
        return [draw_by_spec(spec, source["seed"], number, counts) for number in range(source["topologies"])]
    if source["shape"] == CAPTURED:
        return str(CAPTURED_FILE)
    if source["shape"] == WORKLOADS:
        lines = [json.loads(line) for line in WORKLOADS_FILE.read_text(encoding="utf-8").splitlines()]
        at = {key: source[key] for key in ("parallelism",) if key in source}
        return [{**line, **at} for line in lines]
    shape = find_shape(source["shape"])
    fleet = shape.fleet(Spec(**{key: source[key] for key in PARAMETERS if key in source}))
    return fleet_tables(fleet)


# Cells measured by the workers of a Spark cluster, several at a time.


def _measure_on_spark(spark: "SparkSession", request: CellRequest) -> Measure:
    """Return a Measure for `request`. A task measures all cells with equal topologies and options, in turn.

    Files in the spec must exist where the workers run; modules of planners are sent there. If a task fails,
    each of its cells has that failure.
    """
    threads = max(1, spark.sparkContext.defaultParallelism)

    def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Answer]]:
        custom_names = {cell.planner for cell in cells if names_custom_planner(cell.planner)}
        send_planners(
            spark, [custom_planner for name in custom_names for custom_planner in find_custom_planners(name)]
        )
        grouped = [list(group) for _, group in groupby(cells, lambda c: (dict(c.source), dict(c.options)))]
        pool = ThreadPoolExecutor(threads, thread_name_prefix="penstock-sweep")
        try:
            tasks = {pool.submit(_measured, spark, request, group): group for group in grouped}
            for task in as_completed(tasks):
                group = tasks[task]
                try:
                    answers = task.result()
                except Exception as error:
                    answers = [{"failure": describe_failure(error)}] * len(group)
                yield from zip(group, answers, strict=True)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    return measure


def _measured(spark: "SparkSession", request: CellRequest, cells: Sequence[Cell]) -> list[Answer]:
    cell_requests = [
        request._replace(
            source=c.source, options=c.options, costs=c.costs, planner=c.planner, constants=c.constants
        )
        for c in cells
    ]
    requests = spark.createDataFrame(
        [(json.dumps([cell_request._asdict() for cell_request in cell_requests]),)], "requests string"
    )
    rows = requests.coalesce(1).mapInArrow(_answers, "answer string").collect()
    return [json.loads(row["answer"]) for row in rows]


def _answers(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    import pyarrow as pa

    meter = CellMeter()
    for batch in batches:
        for text in batch.column(0).to_pylist():
            for request in json.loads(text):
                try:
                    answer: Answer = {"result": meter.measure(CellRequest(**request)), "failure": None}
                except Exception as error:
                    answer = {"result": None, "failure": describe_failure(error)}
                yield pa.record_batch({"answer": [json.dumps(answer)]})


# Cells measured one after the other by a child process, which may crash.


def _measure_here(request: CellRequest, timeout: float) -> Measure:
    """Return a Measure for `request`, with `timeout` seconds for each cell.

    The process is reused for the next cell, which often has the same topologies, until a cell fails.
    """

    def measure(cells: Sequence[Cell]) -> Iterator[tuple[Cell, Answer]]:
        child: Child | None = None
        try:
            for cell in cells:
                if child is None:
                    child = start_child(python_command("penstock.engine.measure.sweep.answer_requests"))
                cell_request = request._replace(
                    source=cell.source,
                    options=cell.options,
                    costs=cell.costs,
                    planner=cell.planner,
                    constants=cell.constants,
                )
                answer = request_of_child(child, [json.dumps(cell_request._asdict())], timeout)
                if answer["failure"]:
                    end_child(child)
                    child = None
                yield cell, answer
        finally:
            if child is not None:
                end_child(child)

    return measure


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
    """Turn a spec (the path of a file, or its content) into cells.

    Raises InputError and ConfigurationError with all errors.
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
) -> SweepResult:
    """Measure cells without a result (see run_sweep), here or on the Spark of `master` or `spark`."""
    if master is None and spark is None:
        measure = _measure_here(prepared.request, timeout)
    else:
        from penstock.engine.spark.session import any_session

        conf = prepared.configuration.spark
        session = spark or any_session(master=master, conf=conf, app_name="penstock sweep")
        measure = _measure_on_spark(session, prepared.request)
    return run_sweep(prepared.cells, out, measure, report, again, anew)


# Reading the spec file of a sweep, with all errors by line.


_Check = tuple[tuple[Any, ...], Callable[[], object]]
"""A place in the spec, and a function that raises if the machine lacks the thing named there."""

LARGEST_BYTES = 1 << 20
_DEEPEST = 10
_KEYS = {"": SweepSpec.model_fields, "topologies": SweepSource.model_fields}


def read_sweep_spec(path: str) -> SweepSpec:
    """Read the spec of a YAML file.

    Raises InputError with all errors: its form, missing files, planners that cannot be loaded, options
    unknown to Flink.
    """
    return _read(path, _root(path))


def sweep_spec_of(value: Mapping[str, Any], path: str) -> SweepSpec:
    """Check the spec in a mapping with the form of a file; `path` is its name, or the place of its files.

    Raises InputError like read_sweep_spec.
    """
    try:
        text = yaml.safe_dump(dict(value), sort_keys=False)
    except yaml.YAMLError as error:
        raise InputError(f"{path}: not a valid spec: {str(error).splitlines()[0]}") from None
    root = core_schema_loader(text).get_single_node()
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path} must be an object with the key topologies")
    return _read(path, root)


def _read(path: str, root: Any) -> SweepSpec:
    value = _value(path, root)
    problems: list[str] = []
    spec: SweepSpec | None
    try:
        spec = SweepSpec.model_validate(value)
    except ValidationError as error:
        problems = [_error_text(path, root, problem) for problem in error.errors()]
        spec = _right_part(value, [problem["loc"] for problem in error.errors() if problem["loc"]])
    if spec is not None:
        problems += [
            f"{path}:{_line(root, place)}: {'.'.join(map(str, place))}: {problem}"
            for place, problem in _missing_things(path, spec)
        ]
    if problems or spec is None:
        raise _refused(problems)
    return spec


def _right_part(value: Mapping[str, Any], wrong: Collection[tuple[int | str, ...]]) -> SweepSpec | None:
    """Return the spec without wrong keys and sources, so that the others are checked too."""
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
    """Parse the document into nodes, which know their lines."""
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
        raise InputError(f"{path}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if not isinstance(root, yaml.MappingNode):
        raise InputError(f"{path} must be an object with the key topologies")
    return root


def _require_plain(path: str, text: str) -> None:
    """Raise InputError for constructs that make a small file large or deep."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        place = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{place}: values must be written out, got an alias (*)")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise InputError(
                f"{place}: lists and objects must be at most {_DEEPEST} deep, got {_DEEPEST + 1}"
            )


def _value(path: str, node: Any) -> Any:
    """Construct the value of a YAML node. Raises InputError for a key that occurs twice."""
    if isinstance(node, yaml.MappingNode):
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            name = str(key.value)
            if name in mapping:
                raise InputError(f"{path}:{key.start_mark.line + 1}: {shorten(name)} occurs twice")
            mapping[name] = _value(path, value)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_value(path, item) for item in node.value]
    try:
        return core_schema_loader("").construct_object(node)
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{path}:{node.start_mark.line + 1}: {error}") from error


def _line(node: Any, place: Sequence[Any]) -> int:
    """Return the line of the node at `place`, or of the node around it."""
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


def _error_text(path: str, root: Any, error: Any) -> str:
    place = [part for part in error["loc"] if not str(part).startswith("function-")]
    line = _line(root, place)
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        *above, key = place
        known = list(_KEYS.get(str(above[0]) if above else "", ()))
        close = get_close_matches(str(key), known, n=1)
        message = (
            f"unknown key; {f'did you mean {close[0]}?' if close else 'known keys: ' + ', '.join(known)}"
        )
    elif error["type"] == "missing":
        message = "must be a source of topologies or a list of them, got nothing"
    elif error["type"] != "value_error":  # pydantic's own text
        text = f"{message[:1].lower()}{message[1:]}".replace("input should be", "must be", 1)
        message = f"{text}, got {shorten(error['input'])}"
    return f"{path}:{line}: {'.'.join(str(part) for part in place) or 'spec'}: {message}"


def _missing_things(path: str, spec: SweepSpec) -> list[tuple[tuple[Any, ...], str]]:
    """Return files, planners, costs and options of the spec that the machine lacks: place and reason."""

    def options(chosen: Mapping[str, str]) -> None:
        try:
            find_configuration(None, chosen, f"{path}:options")
        except PenstockError as error:
            raise InputError(error.message.split(f"{path}:options: ")[-1]) from error

    file_checks = (
        (("topologies", number, key), partial(require, beside(path, file)))
        for number, source in enumerate(spec.topologies)
        for key, require in (("file", _require_there), ("spec", read_fleet_spec))
        for file in getattr(source, key) or ()
    )
    planner_checks = ((("planners",), partial(require_planners, [planner])) for planner in spec.planners)
    cost_checks = (
        (("costs",), partial(require_costs, costs_beside(path, cost))) for cost in spec.costs or ()
    )
    option_checks = (
        (("options", key), partial(options, option))
        for key, values in spec.options.items()
        for option in axes_of_options({key: values})
    )
    constants_checks = (
        (("constants",), partial(read_constants, Path(beside(path, constants))))
        for constants in [spec.constants]
        if constants
    )
    checks: Iterable[_Check] = chain(
        file_checks, planner_checks, cost_checks, constants_checks, option_checks
    )
    together = ((("options",), partial(options, chosen)) for chosen in axes_of_options(spec.options))
    return _failed(checks) or _failed(together)


def _require_there(path: str) -> None:
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file or folder")


def _failed(checks: Iterable[_Check]) -> list[tuple[tuple[Any, ...], str]]:
    """Return place and reason of each check that raises."""
    failures: list[tuple[tuple[Any, ...], str]] = []
    for place, check in checks:
        try:
            check()
        except PenstockError as error:
            failures.append((place, error.message))
        except OSError as error:
            failures.append((place, str(error)))
    return failures
