"""Planning as a library call."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

import pyarrow as pa

from penstock.engine.library.check_arguments import member, one_of, require_session, text, whole_number
from penstock.engine.library.given_topologies import (
    Given,
    Paths,
    SparkFrames,
    given_topologies,
    is_spark_frame,
)
from penstock.engine.library.ignored_columns import set_aside
from penstock.engine.library.library_configuration import Config, library_configuration
from penstock.engine.library.own_planner import OwnPlanner, is_own_planner, plan_by_own_planner
from penstock.engine.library.plan_here import plan_here
from penstock.engine.library.planned_tables import Plan, Tables, running_session
from penstock.engine.planning.choose_planner import Choice, Planner, choose_planner, on_spark_instead
from penstock.engine.planning.plan_options import PlanOptions, plan_options
from penstock.engine.store.is_local import is_local
from penstock.engine.store.version_number import VersionNumber
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError
from penstock.plans.installation import own_version
from penstock.plans.literals import LayerName, NetworkName, SlotSharingName
from penstock.plans.resources.network_options import PROFILES
from penstock.plans.topology.columnar.find_topology_files import is_pipe
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.vocabulary import Layer, SlotSharingStrategy

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class PlanArguments(TypedDict, total=False):
    """The arguments of `plan` that say nothing of what its tables are."""

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
    planner: OwnPlanner | Planner | str = Planner.AUTO,
    spark: "SparkSession | None" = None,
    **arguments: Unpack[PlanArguments],
) -> "Plan[DataFrame]": ...


@overload
def plan(
    topologies: Any,
    *,
    planner: OwnPlanner | Planner | str = Planner.AUTO,
    spark: "SparkSession",
    **arguments: Unpack[PlanArguments],
) -> "Plan[DataFrame]": ...


@overload
def plan(
    topologies: Any,
    *,
    planner: Literal[Planner.JOINS, "joins"],
    spark: None = None,
    **arguments: Unpack[PlanArguments],
) -> "Plan[DataFrame]": ...


@overload
def plan(
    topologies: Any,
    *,
    planner: OwnPlanner | Planner | str = Planner.AUTO,
    spark: None = None,
    **arguments: Unpack[PlanArguments],
) -> Plan[pa.Table]: ...


def plan(
    topologies: Any,
    *,
    until: Layer | LayerName = Layer.SLOTS,
    planner: OwnPlanner | Planner | str = Planner.AUTO,
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
    """Plan topologies exactly as Flink does.

    `topologies` are one of:

    - dicts as docs/topology-files.md describes them, one dict, or JSON text (bytes or str);
    - paths of files, folders and globs, or one path;
    - one frame with a topology in each row, its columns the keys of such a dict;
    - two frames, (topologies, transformations), with the columns of docs/tables.md; transformations name
    their topology in the column `topology`, or by `topology_id`.

    A frame is of pandas, polars, PyArrow or Spark. Columns `ignore` of the first one are not planned from,
    but kept beside the plan (see Plan). Planning takes place in this process, without Spark, unless a path is
    not local, the input does not fit in memory, or a session is given: as `spark`, or by frames of Spark.
    Then tables are DataFrames, and Spark plans more than some thousand topologies or transformations. For a
    session of Spark Connect this process plans everything.

    `until` is the last layer to plan. `planner` says who plans: one of Planner (the plans are the same), or
    a planner of your own, which decides in place of Flink's rules: a function marked by `decides`, a tuple or
    list of them with different decisions, or "module:name". It plans in this process, is shown `costs` (see
    Plan.metrics) if it reads operator_costs, and may take `time_limit` seconds for a batch of topologies.

    `parallelism`: of all operators that set none of their own, in place of their job's. `slot_sharing` and
    the three arguments after it say how the cluster is configured, as the options of
    `penstock plan` do; what they leave out, and what topologies do not set, is as `config` says: options by
    key, or a directory of YAML files (see docs/configuration.md), else Flink's defaults. Lines of files with
    more than `max_line_bytes` are rejected.

    Topologies that are wrong, or that Flink refuses, are rows of `tables["rejected"]` and of no other table.

    Raises InputError (nothing of what is allowed, a file that cannot be read), SchemaError (frames with other
    columns), ConfigurationError (any other argument) and NotEnoughMemoryError.
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
    is_own = is_own_planner(planner)
    if costs is not None and not is_own:
        raise ConfigurationError("costs: found costs, and no planner of your own that reads them")
    longest = whole_number("max_line_bytes", max_line_bytes)
    if spark is not None:
        require_session(spark)
    with running_session(spark or _session_of(topologies), "plan"):
        topologies, aside = set_aside(topologies, ignore)
        source = given_topologies(topologies)
        if is_own:
            return plan_by_own_planner(planner, costs, time_limit, source, options, longest, spark, aside)
        asked = Planner(str(planner))
        if isinstance(source, SparkFrames):
            spark = spark or source.frames[0].sparkSession
            require_session(spark)
        return _plan_chosen(asked, source, options, longest, spark, aside)


def _session_of(topologies: Any) -> "SparkSession | None":
    """The session of a DataFrame of Spark, or of the first of several frames."""
    frame = topologies[0] if isinstance(topologies, list | tuple) and topologies else topologies
    return cast("SparkSession", frame.sparkSession) if is_spark_frame(frame) else None


def _plan_chosen(
    asked: Planner,
    source: Given,
    options: PlanOptions,
    longest: int,
    spark: "SparkSession | None",
    aside: Any,
) -> Plan:
    chosen = _choose(asked, source, wants_spark=spark is not None)
    if chosen.on_spark and spark is not None:
        here = _in_this_process(asked, source, spark, chosen)
        if here is not None:
            return plan_here(here[0], options, longest, here[1], spark, aside)
    if not chosen.on_spark:
        try:
            return plan_here(source, options, longest, chosen, None, aside)
        except NotEnoughMemoryError as error:
            if isinstance(source, Paths) and any(map(is_pipe, source.paths)):  # what was read of it is gone
                raise
            chosen = on_spark_instead(asked, error)
    return _on_spark(source, options, longest, chosen, spark, aside)


def _in_this_process(
    asked: Planner, source: Given, spark: "SparkSession", chosen: Choice
) -> tuple[Given, Choice] | None:
    """What is planned in this process for `spark`, and why; None where Spark is to plan.

    ConfigurationError where it cannot: joins need the JVM of classic Spark.
    """
    from penstock.engine.library.small_inputs import read_frames, small_input
    from penstock.engine.spark.session import is_connect

    connect = is_connect(spark)
    if asked is Planner.JOINS:
        if connect:
            raise ConfigurationError(
                "planner: joins need the JVM of a session of classic Spark; found one of Spark Connect",
                "leave planner out: this process plans, and the tables come back as DataFrames",
            )
        return None
    small = small_input(source)
    if small is not None:
        return small, Choice(Planner.COLUMNAR, "few enough for this process")
    if not connect:
        return None
    if isinstance(source, SparkFrames):
        source = read_frames(source)
    return source, Choice(Planner.COLUMNAR, "Spark Connect has no JVM to plan with")


def _choose(asked: Planner, source: Given, *, wants_spark: bool) -> Choice:
    if isinstance(source, Paths):
        return choose_planner(asked, source.paths, os.curdir, wants_spark)
    if not isinstance(source, SparkFrames) and not wants_spark and asked is not Planner.JOINS:
        return Choice(Planner.COLUMNAR if asked is Planner.AUTO else asked, "in this process")
    if asked is Planner.FLINK:
        raise ConfigurationError(
            "planner: flink plans in this process",
            "leave out spark, and give dicts, paths or frames of Arrow",
        )
    return Choice(
        asked, "as asked" if asked is Planner.JOINS else "a session or DataFrames given", on_spark=True
    )


def _on_spark(
    source: Given,
    options: PlanOptions,
    longest: int,
    chosen: Choice,
    spark: "SparkSession | None",
    aside: Any,
) -> Plan:
    from penstock.engine.library.topologies_on_spark import topologies_on_spark
    from penstock.engine.planning.plan_topologies import plan as plan_on_spark
    from penstock.engine.spark.describe_spark_error import penstock_in_workers
    from penstock.engine.spark.session import any_session, use_this_python

    session = any_session() if spark is None else use_this_python(spark)
    with penstock_in_workers():
        planned = plan_on_spark(
            topologies_on_spark(session, source),
            until=options.until,
            choices=options.choices,
            spark=session,
            planner=chosen.planner,
            max_line_bytes=longest,
            job_defaults=options.job_defaults,
        )

    def write(store: str) -> VersionNumber:
        from penstock.engine.spark.session import require_delta
        from penstock.engine.store.tables_of_spark import tables_of_spark
        from penstock.engine.store.write_plan import write_plan

        return write_plan(
            tables_of_spark(session if is_local(store) else require_delta(session), store, planned.packed),
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
        aside=aside,
        spark=session,
    )
