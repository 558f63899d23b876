"""Planning in this process, as the library does it: with Arrow tables, or with DataFrames of a session."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from penstock.engine.library.given_topologies import Given, Objects, Paths
from penstock.engine.library.planned_tables import Plan, Tables
from penstock.engine.planning.choose_planner import Choice, Planner
from penstock.engine.planning.plan_options import PlanOptions
from penstock.engine.store.version_number import VersionNumber
from penstock.plans.installation import own_version

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from penstock.engine.planning.custom_planners import CustomPlanners
    from penstock.engine.planning.plan_in_process import PlannedTables


def plan_here(
    source: Given,
    options: PlanOptions,
    longest: int,
    chosen: Choice,
    spark: "SparkSession | None",
    aside: Any,
    own: "CustomPlanners | None" = None,
) -> Plan:
    """A plan made in this process. `own`: a planner of the caller's decides in place of Flink's rules."""
    named = (
        source.paths
        if isinstance(source, Paths)
        else source.topologies
        if isinstance(source, Objects)
        else source
    )
    planned = _planned(named, options, longest, chosen, own)
    recorded = {**options.recorded, **({} if own is None else {"planner": own.name})}

    def write(store: str) -> VersionNumber:
        from penstock.engine.store.delta_rs_tables import DeltaRsTables
        from penstock.engine.store.write_plan import write_plan

        return write_plan(
            DeltaRsTables(store), planned.tables, planner_version=own_version(), options=recorded
        )

    def dataframe(name: str) -> Any:
        from penstock.engine.library.small_inputs import dataframe_of_table

        return dataframe_of_table(spark, name, planned.tables[name])

    here = Tables(planned.tables, planned.tables.__getitem__, planned.tables)
    return Plan(
        here if spark is None else Tables(planned.tables, dataframe, spark=spark),
        planned.inputs,
        planned.planned,
        planned.rejected,
        f"planner {chosen.planner if own is None else own.name}: {chosen.why}",
        options=recorded,
        planner_version=own_version(),
        write=write,
        aside=aside,
        here=None if spark is None else here,
        spark=spark,
    )


def _planned(
    topologies: Any, options: PlanOptions, longest: int, chosen: Choice, own: "CustomPlanners | None"
) -> "PlannedTables":
    settings: Mapping[str, Any] = {
        "until": options.until,
        "choices": options.choices,
        "max_line_bytes": longest,
        "job_defaults": options.job_defaults,
    }
    if own is not None:
        from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
        from penstock.engine.planning.plan_in_process import read_in_process

        read = read_in_process(topologies, lambda stage: None, longest, options.job_defaults)
        return plan_by_custom_planners(
            read.frames,
            read.inputs,
            own.chosen,
            until=options.until,
            choices=options.choices,
            question=own.question(read.frames["topologies"]),
        )
    if chosen.planner is Planner.FLINK:
        from penstock.engine.planning.plan_beside_flink import plan_beside_flink

        return plan_beside_flink(topologies, **settings)
    from penstock.engine.planning.plan_in_process import plan_in_process

    return plan_in_process(topologies, **settings)
