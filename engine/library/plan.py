"""Plan topologies by a library call."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict, Unpack, cast, overload

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
    TablesOfTopologies,
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
from penstock.engine.planning.choose_planner import (
    ON_SPARK,
    Choice,
    Planner,
    choose_planner,
    on_spark_instead,
    planned_here,
)
from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.engine.store.is_local import is_local
from penstock.engine.store.version_notes import VersionNumber
from penstock.plans.errors import ConfigurationError, InputError, NotEnoughMemoryError
from penstock.plans.installation import own_version
from penstock.plans.printable import first_and_count
from penstock.plans.resources.memory_and_buffers import PROFILES
from penstock.plans.topology.find_topology_files import is_pipe
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.validate_topology import TOPOLOGY_KEYS
from penstock.plans.vocabulary import Layer, LayerName, NetworkName, SlotSharingName, SlotSharingStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners
    from penstock.engine.planning.plan_in_process import PlannedTables
    from penstock.engine.planning.plan_in_workers import RowCounts
    from penstock.plans.topology.on_spark.topologies_of_lines import GivenLines, GivenTables

__all__ = ["plan"]


# Plan in this process, into Arrow tables, or into DataFrames of a session.


def _plan_in_this_process(
    source: TopologySource,
    options: PlanOptions,
    max_line_bytes: int,
    chosen: Choice,
    spark: "SparkSession | None",
    ignored: Any,
    custom_planners: "CustomPlanners | None" = None,
) -> Plan:
    """Plan in this process. `custom_planners`, if any, decide in place of Flink's rules."""
    topologies = (
        source.paths
        if isinstance(source, Paths)
        else source.topologies
        if isinstance(source, Objects)
        else source
    )
    planned = _planned(topologies, options, max_line_bytes, chosen, custom_planners)
    recorded = {**options.recorded, **({} if custom_planners is None else {"planner": custom_planners.name})}

    def write(store: str) -> VersionNumber:
        return _written_here(store, planned.tables, recorded)

    def dataframe(name: str) -> Any:
        from penstock.engine.library.small_inputs import dataframe_of_table

        return dataframe_of_table(spark, name, planned.tables[name])

    arrow = Tables(planned.tables, planned.tables.__getitem__, planned.tables)
    return Plan(
        arrow if spark is None else Tables(planned.tables, dataframe, spark=spark),
        planned.inputs,
        planned.planned,
        planned.rejected,
        f"planner {chosen.planner if custom_planners is None else custom_planners.name}: {chosen.why}",
        options=recorded,
        planner_version=own_version(),
        write=write,
        ignored=ignored,
        arrow=None if spark is None else arrow,
        spark=spark,
    )


def _written_here(store: str, tables: Mapping[str, pa.Table], recorded: Mapping[str, str]) -> VersionNumber:
    from penstock.engine.store.delta_rs_tables import DeltaRsTables
    from penstock.engine.store.write_plan import write_plan

    return write_plan(DeltaRsTables(store), tables, planner_version=own_version(), options=recorded)


def _planned(
    topologies: Any,
    options: PlanOptions,
    max_line_bytes: int,
    chosen: Choice,
    custom_planners: "CustomPlanners | None",
) -> "PlannedTables":
    settings: Mapping[str, Any] = {
        "until": options.until,
        "choices": options.choices,
        "max_line_bytes": max_line_bytes,
        "job_defaults": options.job_defaults,
    }
    if custom_planners is not None:
        from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
        from penstock.engine.planning.plan_in_process import read_in_process

        read = read_in_process(topologies, lambda stage: None, max_line_bytes, options.job_defaults)
        return plan_by_custom_planners(
            read.frames,
            read.inputs,
            custom_planners.chosen,
            until=options.until,
            choices=options.choices,
            question=custom_planners.question(read.frames["topologies"]),
        )
    if chosen.planner is Planner.FLINK:
        from penstock.engine.planning.plan_beside_flink import plan_beside_flink

        return plan_beside_flink(topologies, **settings)
    from penstock.engine.planning.plan_in_process import plan_in_process

    return plan_in_process(topologies, **settings)


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
    max_line_bytes: int,
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
    chosen = Choice(Planner.COLUMNAR, "as asked")
    with costs_named(costs) as costs_option, arguments_of_call():
        custom_planners = named_custom_planners(planner, costs_option, seconds("time_limit", time_limit))
        return _plan_in_this_process(source, options, max_line_bytes, chosen, spark, ignored, custom_planners)


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
    )
    is_custom = _is_custom_planner(planner)
    if costs is not None and not is_custom:
        raise ConfigurationError("costs needs a custom planner")
    max_line_bytes = whole_number("max_line_bytes", max_line_bytes)
    if spark is not None:
        require_session(spark)
    with running_session(spark or _session_of(topologies), "plan"):
        topologies, ignored = _split_ignored(topologies, ignore)
        source = given_topologies(topologies)
        if is_custom:
            return _plan_by_custom_planner(
                planner, costs, time_limit, source, options, max_line_bytes, spark, ignored
            )
        asked = Planner(str(planner))
        if isinstance(source, SparkFrames):
            spark = spark or source.frames[0].sparkSession
            require_session(spark)
        return _plan_chosen(asked, source, options, max_line_bytes, spark, ignored)


def _session_of(topologies: Any) -> "SparkSession | None":
    """Return the session of a DataFrame of Spark, or of the first of several frames."""
    frame = topologies[0] if isinstance(topologies, list | tuple) and topologies else topologies
    return cast("SparkSession", frame.sparkSession) if is_spark_frame(frame) else None


def _plan_chosen(
    asked: Planner,
    source: TopologySource,
    options: PlanOptions,
    max_line_bytes: int,
    spark: "SparkSession | None",
    ignored: Any,
) -> Plan:
    chosen = _choose(asked, source, wants_spark=spark is not None)
    counted = None
    if spark is not None and (chosen.on_spark or asked is Planner.PROCESS):
        place = _place(asked, source, spark, options)
        if isinstance(place, _Here):
            here, chosen = place
            return _plan_in_this_process(here, options, max_line_bytes, chosen, spark, ignored)
        counted = place
    if not chosen.on_spark:
        try:
            return _plan_in_this_process(source, options, max_line_bytes, chosen, None, ignored)
        except NotEnoughMemoryError as error:
            # Lines already read from a pipe are gone.
            if isinstance(source, Paths) and any(map(is_pipe, source.paths)):
                raise
            chosen = on_spark_instead(asked, error)
    return _on_spark(source, options, max_line_bytes, chosen, spark, ignored, counted)


class _Here(NamedTuple):
    """Topologies to plan in this process, and why."""

    source: TopologySource
    chosen: Choice


class _OnSpark(NamedTuple):
    """DataFrames of topologies that were read and counted, for planning on Spark."""

    read: "GivenLines | GivenTables"
    counts: "RowCounts"


def _place(
    asked: Planner, source: TopologySource, spark: "SparkSession", options: PlanOptions
) -> _Here | _OnSpark | None:
    """Return where topologies of a session are planned; None is on Spark, not read yet.

    Raises ConfigurationError for files that only a classic session reads.
    """
    from penstock.engine.library.small_inputs import few_rows, read_frames
    from penstock.engine.spark.session import is_connect

    on_spark, connect = asked in ON_SPARK, is_connect(spark)
    if on_spark:
        if connect and isinstance(source, Paths):
            raise ConfigurationError(
                f"planner {asked} reads files by the JVM of a session of classic Spark, got one of Spark "
                "Connect",
                "give DataFrames or dicts, or leave planner out: this process plans",
            )
        return None
    if asked is Planner.PROCESS:
        here = read_frames(source) if isinstance(source, SparkFrames) else source
        return _Here(here, Choice(Planner.PROCESS, "as asked"))
    few = few_rows(source) if isinstance(source, SparkFrames) else None
    if few is not None:
        return _Here(few, Choice(Planner.COLUMNAR, FEW))
    if connect:
        here = read_frames(source) if isinstance(source, SparkFrames) else source
        why = "whether the workers of Spark Connect have Penstock is unknown"
        return _Here(here, Choice(Planner.COLUMNAR, why))
    if isinstance(source, Paths):
        return None
    return _by_cost(source, spark, options)


FEW = "few enough for this process"


def _by_cost(source: TopologySource, spark: "SparkSession", options: PlanOptions) -> _Here | _OnSpark | None:
    from penstock.engine.library.small_inputs import collected, size_here, size_on_spark, topologies_on_spark
    from penstock.engine.planning.plan_topologies import count_topologies, read_topologies, released_on_error
    from penstock.engine.spark.describe_spark_error import penstock_in_workers
    from penstock.engine.spark.session import cores_of, use_this_python
    from penstock.engine.spark.spark_memory_estimate import heap_bytes

    if not isinstance(source, SparkFrames):
        assert isinstance(source, Objects | TablesOfTopologies)
        why = planned_here(size_here(source), cores_of(spark), None)
        return None if why is None else _Here(source, Choice(Planner.COLUMNAR, why))
    session = use_this_python(spark)
    with penstock_in_workers():
        given = topologies_on_spark(session, source)
        read = cast(
            "GivenLines | GivenTables",
            read_topologies(session, given, job_defaults=options.job_defaults),
        )
        with released_on_error(read):
            counts = count_topologies(session, read)
            why = planned_here(
                size_on_spark(read, counts), cores_of(session), heap_bytes(session.sparkContext)
            )
            if why is None:
                return _OnSpark(read, counts)
            here = collected(read)
            if here is None:
                return _OnSpark(read, counts)
            return _Here(here, Choice(Planner.COLUMNAR, why))


def _choose(asked: Planner, source: TopologySource, *, wants_spark: bool) -> Choice:
    if isinstance(source, Paths):
        return choose_planner(asked, source.paths, os.curdir, wants_spark and asked is not Planner.PROCESS)
    if not isinstance(source, SparkFrames) and not wants_spark and asked not in ON_SPARK:
        return Choice(Planner.COLUMNAR if asked is Planner.AUTO else asked, "in this process")
    if asked is Planner.FLINK:
        raise ConfigurationError(
            "planner flink plans in this process, without Spark",
            "leave out spark, and give dicts, paths or frames of Arrow",
        )
    return Choice(asked, "as asked" if asked in ON_SPARK else "a session or DataFrames given", on_spark=True)


def _on_spark(
    source: TopologySource,
    options: PlanOptions,
    max_line_bytes: int,
    chosen: Choice,
    spark: "SparkSession | None",
    ignored: Any,
    counted: _OnSpark | None,
) -> Plan:
    from penstock.engine.library.small_inputs import topologies_on_spark
    from penstock.engine.planning.plan_topologies import plan_read_topologies, read_topologies
    from penstock.engine.spark.describe_spark_error import penstock_in_workers
    from penstock.engine.spark.session import any_session, is_connect, use_this_python

    session = any_session() if spark is None else use_this_python(spark)
    with penstock_in_workers():
        read, counts = counted or (
            read_topologies(
                session, topologies_on_spark(session, source), max_line_bytes, options.job_defaults
            ),
            None,
        )
        planned = plan_read_topologies(
            session,
            read,
            options.until,
            lambda stage: None,
            options.choices,
            chosen.planner,
            counts=counts,
        )

    connect = is_connect(session)
    arrow = Tables(planned.tables, lambda name: _arrow(name, planned.tables[name])) if connect else None

    def write(store: str) -> VersionNumber:
        if arrow is not None:
            return _written_here(store, by_text(arrow), options.recorded)
        from penstock.engine.spark.session import require_delta
        from penstock.engine.store.spark_tables import tables_of_spark
        from penstock.engine.store.write_plan import write_plan

        with penstock_in_workers():
            return write_plan(
                tables_of_spark(
                    session if is_local(store) else require_delta(session), store, planned.packed
                ),
                planned.tables,
                planner_version=own_version(),
                options=options.recorded,
                rows=dict.fromkeys(planned.tables, planned.rows_read),
            )

    why = planned.why if planned.why == chosen.why else f"{chosen.why}; {planned.why}"
    return Plan(
        Tables(planned.tables, planned.tables.__getitem__, planned.tables, session),
        planned.inputs,
        planned.planned,
        planned.rejected,
        f"planner {planned.planner}: {why}",
        options=options.recorded,
        planner_version=own_version(),
        write=write,
        release=planned.release,
        ignored=ignored,
        arrow=arrow,
        spark=session,
    )


def _arrow(name: str, table: Any) -> pa.Table:
    """Collect a table of a plan."""
    from penstock.plans.frames.polars_frames import from_arrow, to_arrow

    return to_arrow(from_arrow(table.toArrow()), name)
