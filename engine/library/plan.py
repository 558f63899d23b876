"""Plan topologies by a library call."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, overload

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
    SparkFrames,
    TopologySource,
    costs_named,
    given_topologies,
    session_of,
)
from penstock.engine.library.planned_tables import (
    Plan,
    Tables,
    by_text,
    dataframe_of_table,
    running_session,
    table_of_dataframe,
)
from penstock.engine.planning.plan_options import plan_options
from penstock.engine.planning.plan_result import PlanResult, PlanTopologies
from penstock.engine.planning.planners import (
    ON_SPARK,
    ChosenPlanner,
    Planner,
    choose_planner,
    plan_topologies,
)
from penstock.engine.store.store_tables import VersionNumber
from penstock.plans.errors import ConfigurationError
from penstock.plans.installation import own_version
from penstock.plans.layers import PlanOptions
from penstock.plans.resources.memory_and_buffers import PROFILES
from penstock.plans.topology.find_topology_files import TopologyPaths
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.vocabulary import Layer, LayerName, NetworkName, SlotSharingName, SlotSharingStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners

__all__ = ["plan"]

CustomPlannerFunctions = Callable[..., Any] | Sequence[Callable[..., Any]]
"""Functions marked by penstock.decides."""


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
    with _custom_planners(planner, costs, time_limit) as custom_planners:
        if spark is not None:
            require_session(spark)
        with running_session(spark or session_of(topologies), "plan"):
            source, ignored = given_topologies(topologies, ignore)
            if isinstance(source, SparkFrames):
                spark = spark or source.frames[0].sparkSession
            asked = Planner(str(planner)) if custom_planners is None else Planner.COLUMNAR
            placed, chosen = _placed(source, options, asked, spark, is_custom=custom_planners is not None)
            planned = plan_topologies(
                placed,
                options,
                chosen,
                asked=asked,
                custom_planners=custom_planners,
                on_spark=partial(_on_spark, spark) if spark is None or chosen.on_spark else None,
            )
            recorded = {} if custom_planners is None else {"planner": custom_planners.name}
            return _plan_of(planned, {**options.recorded, **recorded}, spark, ignored)


@contextmanager
def _custom_planners(planner: Any, costs: Any, time_limit: float) -> Iterator["CustomPlanners | None"]:
    """Yield the custom planner that is asked for, once it is loaded and checked; None for one of Penstock.

    Errors inside the context name arguments of the call. Raises ConfigurationError if `planner` is neither
    custom nor a member of Planner, and for wrong costs and time limits.
    """
    if isinstance(planner, str) and planner in list(Planner):
        if costs is not None:
            raise ConfigurationError("costs needs a custom planner")
        yield None
        return
    from penstock.engine.planning.find_custom_planners import names_custom_planner
    from penstock.engine.planning.plan_by_custom_planners import named_custom_planners

    are_functions = callable(planner) or isinstance(planner, tuple | list)
    if not (names_custom_planner(planner) if isinstance(planner, str) else are_functions):
        member("planner", planner, Planner)
    with costs_named(costs) as costs_option, arguments_of_call():
        yield named_custom_planners(planner, costs_option, seconds("time_limit", time_limit))


def _placed(
    source: TopologySource,
    options: PlanOptions,
    asked: Planner,
    spark: "SparkSession | None",
    *,
    is_custom: bool,
) -> tuple[Any, ChosenPlanner]:
    """Choose the planner, and return topologies in the form that it takes.

    Custom planners plan in this process. Raises ConfigurationError if topologies are not on this machine.
    """
    if is_custom and isinstance(source, SparkFrames):
        from penstock.engine.library.session_topologies import read_frames

        source = read_frames(source)
    elif spark is not None and not is_custom:
        from penstock.engine.library.session_topologies import place_topologies

        return place_topologies(spark, source, options, asked)
    if not isinstance(source, TopologyPaths):
        why = "as asked" if is_custom or asked in ON_SPARK else "in this process"
        here = Planner.COLUMNAR if asked is Planner.AUTO else asked
        return source, ChosenPlanner(here, why, on_spark=asked in ON_SPARK)
    chosen = choose_planner(asked, source)
    if is_custom and chosen.on_spark:
        raise ConfigurationError(
            "topologies must be local paths for a custom planner, which plans in this process",
            "penstock plan --planner NAME --master URL plans in Spark's workers",
        )
    return source, chosen


def _on_spark(spark: "SparkSession | None", chosen: ChosenPlanner) -> PlanTopologies:
    from penstock.engine.library.session_topologies import plan_in_session

    return partial(plan_in_session, spark, chosen.planner)


def _plan_of(
    planned: PlanResult, recorded: Mapping[str, str], spark: "SparkSession | None", ignored: Any
) -> Plan:
    """Return a plan whose tables are DataFrames if Spark made them, or if a session was given."""
    made = planned.tables
    tables: Tables[Any] = Tables(made, made.__getitem__, made)
    arrow: Tables[pa.Table] | None = None
    write: Callable[[str], VersionNumber] = partial(planned.write, options=recorded)
    if planned.spark is not None:
        from penstock.engine.library.session_topologies import write_dataframes
        from penstock.engine.spark.session import is_connect

        spark = planned.spark
        tables = Tables(made, made.__getitem__, made, spark)
        if is_connect(spark):
            arrow = Tables(made, lambda name: table_of_dataframe(name, made[name]))
        write = partial(write_dataframes, spark, planned, recorded, None if arrow is None else by_text(arrow))
    elif spark is not None:
        arrow = tables
        tables = Tables(made, lambda name: dataframe_of_table(spark, name, made[name]), spark=spark)
    return Plan(
        tables,
        planned.inputs,
        planned.planned,
        planned.rejected,
        f"planner {planned.planner}: {planned.why}",
        options=recorded,
        planner_version=own_version(),
        write=write,
        release=planned.release,
        ignored=ignored,
        arrow=arrow,
        spark=spark,
    )
