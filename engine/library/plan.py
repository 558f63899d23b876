"""Plan topologies by a library call."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

import pyarrow as pa

from penstock.engine.library.check_arguments import (
    Config,
    arguments_of_call,
    library_configuration,
    member,
    one_of,
    require_session,
    seconds,
    text,
    whole_number,
)
from penstock.engine.library.given_topologies import (
    Objects,
    Paths,
    SparkFrames,
    TopologySource,
    column_named,
    costs_named,
    frame_as_arrow,
    given_topologies,
    is_frame,
    is_spark_frame,
    spelled_names,
)
from penstock.engine.library.planned_graphs import quoted
from penstock.engine.library.planned_tables import Plan, Tables, by_text, running_session
from penstock.engine.output.progress import Report
from penstock.engine.planning.choose_planner import ON_SPARK, ChosenPlanner, Planner, choose_planner
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import plan_topologies
from penstock.engine.store.store_location import is_local
from penstock.engine.store.store_tables import VersionNumber
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.installation import own_version
from penstock.plans.layers import PlanOptions
from penstock.plans.printable import first_and_count
from penstock.plans.resources.memory_and_buffers import PROFILES
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS
from penstock.plans.vocabulary import Layer, LayerName, NetworkName, SlotSharingName, SlotSharingStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


__all__ = ["plan"]

# Custom planners of a caller: functions, or their names.


CustomPlannerFunctions = Callable[..., Any] | Sequence[Callable[..., Any]]
"""Functions marked by penstock.decides."""


def _is_custom_planner(planner: Any) -> bool:
    """Return whether `planner` is a custom planner, after loading and checking it.

    Raises ConfigurationError if it is neither custom nor a member of Planner.
    """
    if isinstance(planner, str):
        if planner in list(Planner):
            return False
        from penstock.engine.planning.find_custom_planners import names_custom_planner

        if not names_custom_planner(planner):
            member("planner", planner, Planner)
    elif not callable(planner) and not isinstance(planner, tuple | list):
        member("planner", planner, Planner)
    from penstock.engine.planning.find_custom_planners import find_custom_planners

    with arguments_of_call():
        find_custom_planners(planner)
    return True


def _plan_by_custom_planner(
    planner: Any,
    costs: Any,
    time_limit: float,
    source: TopologySource,
    options: PlanOptions,
    spark: "SparkSession | None",
    ignored: Any,
) -> Plan:
    """Plan by a custom planner in this process; DataFrames of Spark are collected first.

    Raises ConfigurationError if topologies are not on this machine, and the errors of planning.
    """
    from penstock.engine.planning.plan_by_custom_planners import named_custom_planners

    if isinstance(source, SparkFrames):
        from penstock.engine.library.small_inputs import read_frames

        spark = spark or source.frames[0].sparkSession
        source = read_frames(source)
    if (
        isinstance(source, Paths)
        and choose_planner(Planner.COLUMNAR, source.paths, os.curdir, False).on_spark
    ):
        raise ConfigurationError(
            "topologies must be local paths for a custom planner, which plans in this process",
            "penstock plan --planner NAME --master URL plans in Spark's workers",
        )
    chosen = ChosenPlanner(Planner.COLUMNAR, "as asked")
    with costs_named(costs) as costs_option, arguments_of_call():
        custom_planners = named_custom_planners(planner, costs_option, seconds("time_limit", time_limit))
        planned = plan_topologies(_as_read(source), options, chosen, custom_planners=custom_planners)
    return _plan_of(planned, options, spark, ignored, custom_planners.name)


# Split off the columns of frames that a caller wants ignored.


NAME = "name"


def _split_ignored(topologies: Any, ignore: Sequence[str]) -> tuple[Any, Any]:
    """Split `topologies` into a form without the columns `ignore`, and a frame of `name` and these, if any.

    Raises ConfigurationError if Penstock needs a column, and InputError if a frame lacks one.
    """
    if isinstance(ignore, str) or not all(isinstance(column, str) for column in ignore):
        raise ConfigurationError("ignore must be a list of names of columns, such as ['team']")
    _require_no_keys(ignore)
    if not ignore:
        return topologies, None
    frames = list(topologies) if isinstance(topologies, list | tuple) else [topologies]
    if not frames or not all(map(is_frame, frames)):
        raise ConfigurationError("ignore needs frames, which have columns", "leave it out")
    first, *others = frames
    is_on_spark = is_spark_frame(first)
    columns = list(map(str, first.columns)) if is_on_spark else _columns(first)
    name = NAME
    if is_on_spark:
        name = column_named(first, NAME) or NAME
        ignore = [column_named(first, column) or column for column in ignore]
        _require_no_keys(spelled_names(ignore, TOPOLOGY_KEYS))
    missing = [column for column in (name, *ignore) if column not in columns]
    if missing:
        raise InputError(
            f"ignore: column {', '.join(map(repr, missing))} is missing; "
            f"the frame has {first_and_count(columns)}"
        )
    if is_on_spark:
        other_columns = first.drop(*ignore)
        ignored = first.selectExpr(f"{quoted(name)} as {NAME}", *map(quoted, ignore))
    else:
        table = frame_as_arrow(first)
        other_columns, ignored = table.drop_columns(list(ignore)), table.select([NAME, *ignore])
    return ((other_columns, *others) if others else other_columns), ignored


def _require_no_keys(ignore: Sequence[str]) -> None:
    wrong = [column for column in ignore if column in TOPOLOGY_KEYS]
    if wrong:
        raise ConfigurationError(f"ignore must not name {', '.join(wrong)}: topologies are planned from it")


def _columns(frame: Any) -> list[str]:
    return list(frame_as_arrow(frame).column_names)


class PlanArguments(TypedDict, total=False):
    """Arguments of `plan` that do not affect the type of its tables."""

    until: Layer | LayerName
    costs: Any
    time_limit: float
    slot_sharing: SlotSharingStrategy | SlotSharingName | None
    network: NetworkName
    slots_per_task_manager: int | None
    task_manager_memory: str | None
    parallelism: int | None
    config: Config
    max_line_bytes: int
    ignore: Sequence[str]


@overload
def plan(
    topologies: "DataFrame | Sequence[DataFrame]",
    *,
    planner: CustomPlannerFunctions | Planner | str = Planner.AUTO,
    spark: "SparkSession | None" = None,
    **arguments: Unpack[PlanArguments],
) -> "Plan[DataFrame]": ...


@overload
def plan(
    topologies: Any,
    *,
    planner: CustomPlannerFunctions | Planner | str = Planner.AUTO,
    spark: "SparkSession",
    **arguments: Unpack[PlanArguments],
) -> "Plan[DataFrame]": ...


@overload
def plan(
    topologies: Any,
    *,
    planner: Literal[Planner.WORKERS, "workers", Planner.BLOCKS, "blocks", Planner.JOINS, "joins"],
    spark: None = None,
    **arguments: Unpack[PlanArguments],
) -> "Plan[DataFrame]": ...


@overload
def plan(
    topologies: Any,
    *,
    planner: CustomPlannerFunctions | Planner | str = Planner.AUTO,
    spark: None = None,
    **arguments: Unpack[PlanArguments],
) -> Plan[pa.Table]: ...


def plan(
    topologies: Any,
    *,
    until: Layer | LayerName = Layer.SLOTS,
    planner: CustomPlannerFunctions | Planner | str = Planner.AUTO,
    costs: Any = None,
    time_limit: float = 60,
    spark: "SparkSession | None" = None,
    slot_sharing: SlotSharingStrategy | SlotSharingName | None = None,
    network: NetworkName = "flink-2.3",
    slots_per_task_manager: int | None = None,
    task_manager_memory: str | None = None,
    parallelism: int | None = None,
    config: Config = None,
    max_line_bytes: int = MAX_LINE_BYTES,
    ignore: Sequence[str] = (),
) -> Plan:
    """Plan streaming topologies exactly as Flink 2.3.0 does.

    Planning takes place in this process, without Spark, unless a path is not local, the input does not fit in
    memory, a session is given, or `planner` needs Spark. Of a classic session, Spark plans all paths; other
    topologies are collected and planned in this process if that takes less time than in Spark's workers, and
    fits. Of Spark Connect's, this process plans everything unless `planner` says otherwise.

    Args:
        topologies: Dicts or JSON text as docs/topology-files.md describes them, one or several; paths of
            files, folders and globs, one or several; a frame with one topology per row, its columns the keys
            of such a dict; or two frames (topologies, transformations) with the columns of docs/tables.md.
            Frames are of pandas, polars, PyArrow or Spark.
        until: The last layer to plan: topology, stream_graph, job_graph, execution_graph or slots (default).
        planner: "auto" (default), "process", "workers" (whole topologies in Spark's workers), "blocks" (as
            workers, and topologies too large for one in blocks) or "flink", which give the same rows;
            "columnar" (process or workers) and "joins" (blocks) are former names. Or a custom planner: a
            function marked by `decides`, several of them, or "module:name".
        costs: Operator costs that a custom planner reads as operator_costs; see `Plan.metrics`.
        time_limit: Seconds, above 0, for each batch of a custom planner; default 60.
        spark: A SparkSession; tables are then DataFrames.
        slot_sharing: "local-input-preferred" (default) or "task-balanced-preferred".
        network: Defaults of network buffers: "flink-2.3" (default) or "flink-1.20".
        slots_per_task_manager: 1 to 2**31 - 1; default 1.
        task_manager_memory: Process size of a TaskManager, such as "4g"; default "1728m".
        parallelism: 1 to 32768, for operators that set none; default: their job's.
        config: Options by key, or a directory of YAML files (docs/configuration.md). Arguments and topologies
            win.
        max_line_bytes: Longer lines of files are rejected; default 268,435,456 (256 MiB).
        ignore: Columns of the first frame that are not planned from; they are returned as `Plan.ignored`.

    Returns:
        Plan: `tables` maps names to Arrow tables or DataFrames, keyed by topology_id (int64). inputs ==
        planned + rejected. Topologies that are wrong, or that Flink refuses, are rows of tables["rejected"]
        and of no other table.

    Raises:
        InputError: `topologies` is of another form, or a file cannot be read.
        SchemaError: A frame has other columns or types.
        ConfigurationError: Any other argument is invalid.
        NotEnoughMemoryError: The input does not fit in memory.

    Examples:
        >>> source, sink = {"id": 1, "kind": "source"}, {"id": 2, "kind": "sink", "inputs": [1]}
        >>> plan = penstock.plan({"name": "a", "transformations": [source, sink]})
        >>> plan.planned, plan.rejected
        (1, 0)
        >>> plan.tables["job_vertices"].num_rows
        1
    """
    configuration = library_configuration(config)
    options = plan_options(
        member("until", until, Layer),
        None if slot_sharing is None else member("slot_sharing", slot_sharing, SlotSharingStrategy),
        one_of("network", network, PROFILES),
        None
        if slots_per_task_manager is None
        else whole_number("slots_per_task_manager", slots_per_task_manager),
        None if task_manager_memory is None else text("task_manager_memory", task_manager_memory, "1728m"),
        None if parallelism is None else whole_number("parallelism", parallelism),
        cluster=configuration.cluster,
        job_defaults=configuration.job_defaults,
        max_line_bytes=whole_number("max_line_bytes", max_line_bytes),
    )
    is_custom = _is_custom_planner(planner)
    if costs is not None and not is_custom:
        raise ConfigurationError("costs needs a custom planner")
    if spark is not None:
        require_session(spark)
    with running_session(spark or _session_of(topologies), "plan"):
        topologies, ignored = _split_ignored(topologies, ignore)
        source = given_topologies(topologies)
        if is_custom:
            return _plan_by_custom_planner(planner, costs, time_limit, source, options, spark, ignored)
        if isinstance(source, SparkFrames):
            spark = spark or source.frames[0].sparkSession
            require_session(spark)
        planned = _planned(Planner(str(planner)), source, options, spark)
        return _plan_of(planned, options, spark, ignored)


def _session_of(topologies: Any) -> "SparkSession | None":
    """Return the session of a DataFrame of Spark, or of the first of several frames."""
    frame = topologies[0] if isinstance(topologies, list | tuple) and topologies else topologies
    return cast("SparkSession", frame.sparkSession) if is_spark_frame(frame) else None


def _planned(
    asked: Planner, source: TopologySource, options: PlanOptions, spark: "SparkSession | None"
) -> PlanResult:
    chosen = _choose(asked, source, wants_spark=spark is not None)
    given, on_spark = _as_read(source), lambda chosen: partial(_plan_on_spark, spark, chosen.planner)
    if spark is not None and (chosen.on_spark or asked is Planner.PROCESS):
        from penstock.engine.library.small_inputs import place_topologies

        placed, chosen = place_topologies(spark, source, options, asked, chosen)
        given = _as_read(placed)
    may_change = spark is None or chosen.on_spark
    return plan_topologies(given, options, chosen, asked=asked, on_spark=on_spark if may_change else None)


def _as_read(source: Any) -> Any:
    """Return topologies as planners read them; paths and objects are lists."""
    if isinstance(source, Paths):
        return source.paths
    return source.topologies if isinstance(source, Objects) else source


def _choose(asked: Planner, source: TopologySource, *, wants_spark: bool) -> ChosenPlanner:
    if isinstance(source, Paths):
        return choose_planner(asked, source.paths, os.curdir, wants_spark and asked is not Planner.PROCESS)
    if not isinstance(source, SparkFrames) and not wants_spark and asked not in ON_SPARK:
        return ChosenPlanner(Planner.COLUMNAR if asked is Planner.AUTO else asked, "in this process")
    if asked is Planner.FLINK:
        raise ConfigurationError(
            "planner flink plans in this process, without Spark",
            "leave out spark, and give dicts, paths or frames of Arrow",
        )
    why = "as asked" if asked in ON_SPARK else "a session or DataFrames given"
    return ChosenPlanner(asked, why, on_spark=True)


def _plan_on_spark(
    spark: "SparkSession | None",
    planner: Planner,
    source: Any,
    options: PlanOptions,
    out: str | None,
    report: Report,
) -> PlanResult:
    from penstock.engine.library.small_inputs import topologies_on_spark
    from penstock.engine.planning.plan_on_spark import plan_on_spark
    from penstock.engine.spark.describe_spark_error import penstock_in_workers
    from penstock.engine.spark.session import any_session, use_this_python

    session = any_session() if spark is None else use_this_python(spark)
    with penstock_in_workers():
        given = topologies_on_spark(session, source)
        return plan_on_spark(given, options, out, report, spark=session, planner=planner)


# The result of a call.


def _plan_of(
    planned: PlanResult,
    options: PlanOptions,
    spark: "SparkSession | None",
    ignored: Any,
    custom_planner: str = "",
) -> Plan:
    """Return a plan whose tables are DataFrames if Spark made them, or if a session was given."""
    if is_spark_frame(planned.tables["topologies"]):
        return _plan_of_dataframes(planned, options, ignored)

    def write(store: str) -> VersionNumber:
        return planned.write(store, recorded)

    def dataframe(name: str) -> Any:
        from penstock.engine.library.small_inputs import dataframe_of_table

        return dataframe_of_table(spark, name, planned.tables[name])

    recorded = {**options.recorded, **({"planner": custom_planner} if custom_planner else {})}
    arrow = Tables(planned.tables, planned.tables.__getitem__, planned.tables)
    return Plan(
        arrow if spark is None else Tables(planned.tables, dataframe, spark=spark),
        planned.inputs,
        planned.planned,
        planned.rejected,
        f"planner {planned.planner}: {planned.why}",
        options=recorded,
        planner_version=own_version(),
        write=write,
        ignored=ignored,
        arrow=None if spark is None else arrow,
        spark=spark,
    )


def _plan_of_dataframes(planned: PlanResult, options: PlanOptions, ignored: Any) -> Plan:
    from penstock.engine.spark.session import is_connect

    session = planned.tables["topologies"].sparkSession
    connect = is_connect(session)
    arrow = Tables(planned.tables, lambda name: _arrow(planned.tables[name], name)) if connect else None

    def write(store: str) -> VersionNumber:
        from penstock.engine.spark.describe_spark_error import penstock_in_workers
        from penstock.engine.spark.session import require_delta

        if arrow is not None:
            return replace(planned, tables=dict(by_text(arrow))).write(store, options.recorded)
        with penstock_in_workers():
            if not is_local(store):
                require_delta(session)
            return planned.write(store, options.recorded)

    return Plan(
        Tables(planned.tables, planned.tables.__getitem__, planned.tables, session),
        planned.inputs,
        planned.planned,
        planned.rejected,
        f"planner {planned.planner}: {planned.why}",
        options=options.recorded,
        planner_version=own_version(),
        write=write,
        release=planned.release,
        ignored=ignored,
        arrow=arrow,
        spark=session,
    )


def _arrow(table: Any, name: str) -> pa.Table:
    """Collect a table of a plan."""
    from penstock.plans.frames.polars_frames import from_arrow, to_arrow

    return to_arrow(from_arrow(table.toArrow()), name)
