"""Planning an input into a store, by either planner. Spark is imported only where it is used."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, NamedTuple

from engine.output.progress import Report
from engine.planning.choose_planner import Choice, Planner
from engine.planning.nothing_lost import require_nothing_lost
from plans.choices import Choices
from plans.vocabulary import Layer

if TYPE_CHECKING:
    import polars as pl

#: What `penstock plan` records as options where none are given: what plans of scripts are made with.
DEFAULT_OPTIONS = {
    "until": Layer.SLOTS.value,
    "slot_sharing": Choices().slot_sharing_strategy.value,
    "network": "flink-2.3",
    "slots_per_task_manager": str(Choices().task_manager.slots),
    "task_manager_memory": Choices().task_manager.process_size,
}


class Stored(NamedTuple):
    """What became of an input: the version of the store, topologies counted, and who planned, and why."""

    version: int
    inputs: int
    planned: int
    rejected: int
    planner: str
    why: str


def plan_into_store_by_columns(
    inputs: Sequence[str],
    out: str,
    until: Layer,
    choices: Choices,
    options: Mapping[str, str],
    report: Report,
    *,
    choice: Choice,
    max_line_bytes: int,
) -> Stored:
    """By the columnar planner, in this process, without Spark; beside Flink, if that was chosen."""
    from engine.store.without_spark.write_plan import write_plan

    if choice.planner is Planner.FLINK:
        from engine.planning.plan_beside_flink import plan_by_flink

        planned = plan_by_flink(
            list(inputs), until=until, choices=choices, report=report, max_line_bytes=max_line_bytes
        )
    else:
        from engine.planning.plan_in_process import is_giant, plan_frames, read_in_process
        from engine.store.is_local import is_local

        frames, count, _ = read_in_process(list(inputs), report, max_line_bytes)
        if is_giant(frames) and is_local(out):
            return _write_giant(frames, count, out, until, choices, options, report, choice)
        planned = plan_frames(frames, count, until, choices, report)
    report("write the version")
    number = write_plan(out, planned.tables, planner_version=version("penstock"), options=options)
    return Stored(number, planned.inputs, planned.planned, planned.rejected, choice.planner.value, choice.why)


def _write_giant(
    frames: "dict[str, pl.DataFrame]",
    inputs: int,
    out: str,
    until: Layer,
    choices: Choices,
    options: Mapping[str, str],
    report: Report,
    choice: Choice,
) -> Stored:
    """One topology, each of its tables written as soon as no step reads it; `frames` are emptied."""
    from engine.planning.plan_in_process import plan_giant
    from engine.store.without_spark.write_while_planning import WriteWhilePlanning

    write = WriteWhilePlanning(out)
    try:
        plan_giant(write, frames, until, choices, report)
        topologies, rejected = write.planned()
        require_nothing_lost(inputs, len(topologies), len(rejected), len(topologies))
        report("write the version")
        number = write.publish(planner_version=version("penstock"), options=options)
    except BaseException:
        write.discard()
        raise
    return Stored(number, inputs, len(topologies), len(rejected), choice.planner.value, choice.why)


def plan_into_store_on_spark(
    inputs: Sequence[str],
    out: str,
    until: Layer,
    choices: Choices,
    options: Mapping[str, str],
    report: Report,
    *,
    choice: Choice,
    master: str | None,
    conf: Mapping[str, str],
    max_line_bytes: int,
) -> Stored:
    """On Spark: by columns in its workers, or by the passes over DataFrames (see choose_on_spark)."""
    from engine.planning.plan_topologies import plan_tables, read_topologies
    from engine.spark.session import get_session
    from engine.store.write_plan import write_plan

    report("start Spark")
    spark = get_session(master=master, conf=conf, app_name="penstock plan")
    report("read topologies")
    given = read_topologies(spark, list(inputs), max_line_bytes)
    planned = plan_tables(spark, given, until, report, choices, choice.planner)
    report("write the version")
    number = write_plan(
        spark,
        out,
        planned.tables,
        planner_version=version("penstock"),
        options=options,
        rows=dict.fromkeys(planned.tables, planned.rows_read),
    )
    why = planned.why if planned.why == choice.why else f"{choice.why}; {planned.why}"
    return Stored(number, planned.inputs, planned.planned, planned.rejected, planned.planner, why)
