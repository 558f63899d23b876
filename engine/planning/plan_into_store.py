"""Plan an input into a store, by either planner. Spark is imported only where it is used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.engine.output.progress import Report
from penstock.engine.planning.choose_planner import Choice, Planner
from penstock.engine.planning.plan_options import PlanOptions, require_nothing_lost
from penstock.engine.store.version_notes import VersionNumber
from penstock.engine.store.write_plan import write_plan
from penstock.plans.installation import own_version

if TYPE_CHECKING:
    import polars as pl

    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners
    from penstock.engine.planning.plan_in_process import PlannedTables
    from penstock.plans.topology.topologies_of_lines import TopologyTables


class PlanResult(NamedTuple):
    """The version, numbers of topologies, planner, and the reason for it, after planning an input."""

    version: VersionNumber
    inputs: int
    planned: int
    rejected: int
    planner: str
    why: str


def plan_into_store_by_columns(
    inputs: Sequence[str],
    out: str,
    options: PlanOptions,
    report: Report,
    *,
    choice: Choice,
    max_line_bytes: int,
    custom_planners: "CustomPlanners | None" = None,
) -> PlanResult:
    """Plan by the columnar planner, in this process, without Spark; and by Flink, too, if that was chosen.

    `custom_planners` decide in place of Flink's rules.
    """
    if custom_planners is not None:
        return _by_custom_planners(inputs, out, options, report, custom_planners, max_line_bytes)
    if choice.planner is Planner.FLINK:
        from penstock.engine.planning.plan_beside_flink import plan_beside_flink

        planned = plan_beside_flink(
            list(inputs),
            until=options.until,
            choices=options.choices,
            report=report,
            max_line_bytes=max_line_bytes,
            job_defaults=options.job_defaults,
        )
    else:
        from penstock.engine.planning.plan_in_process import (
            is_giant,
            parts_in_process,
            plan_frames,
            read_in_process,
        )
        from penstock.engine.store.is_local import is_local

        if is_local(out):
            report("read topologies")
            parts = parts_in_process(list(inputs), max_line_bytes, options.job_defaults)
            first, second = next(parts), next(parts, None)
            if second is not None:
                return _write_fleet(chain([first, second], parts), out, options, report, choice)
            frames = first._asdict()
            count = frames.pop("inputs")
            del first
        else:
            frames, count, _ = read_in_process(list(inputs), report, max_line_bytes, options.job_defaults)
        if is_giant(frames) and is_local(out):
            return _write_giant(frames, count, out, options, report, choice)
        planned = plan_frames(frames, count, options.until, options.choices, report)
    number = _write(out, planned, options, report, {})
    return PlanResult(
        number, planned.inputs, planned.planned, planned.rejected, choice.planner.value, choice.why
    )


def _by_custom_planners(
    inputs: Sequence[str],
    out: str,
    options: PlanOptions,
    report: Report,
    custom_planners: "CustomPlanners",
    max_line_bytes: int,
) -> PlanResult:
    """Plan all topologies at once, because a custom planner first gets Flink's plan of them."""
    from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
    from penstock.engine.planning.plan_in_process import read_in_process

    frames, count, _ = read_in_process(list(inputs), report, max_line_bytes, options.job_defaults)
    planned = plan_by_custom_planners(
        frames,
        count,
        custom_planners.chosen,
        until=options.until,
        choices=options.choices,
        question=custom_planners.question(frames["topologies"]),
        report=report,
    )
    number = _write(out, planned, options, report, {"planner": custom_planners.name})
    return PlanResult(number, *planned[1:4], custom_planners.name, "as asked")


def _write(
    out: str, planned: "PlannedTables", options: PlanOptions, report: Report, recorded: Mapping[str, str]
) -> VersionNumber:
    from penstock.engine.store.delta_rs_tables import DeltaRsTables

    report("write the version")
    return write_plan(
        DeltaRsTables(out),
        planned.tables,
        planner_version=own_version(),
        options={**options.recorded, **recorded},
    )


def _write_fleet(
    parts: "Iterator[TopologyTables]", out: str, options: PlanOptions, report: Report, choice: Choice
) -> PlanResult:
    """Plan many topologies in parts, and write each part while later ones are read."""
    from penstock.engine.planning.plan_in_process import plan_parts
    from penstock.engine.store.write_plan import WriteWhilePlanning

    write = WriteWhilePlanning(out)
    report("plan and write topologies")
    report.count(0, choice.topologies, "topologies")
    try:
        inputs = plan_parts(
            parts,
            options.until,
            options.choices,
            write.add_part,
            lambda done: report.count(done, choice.topologies, "topologies"),
        )
        planned, ids, rejected = write.planned()
        require_nothing_lost(inputs, planned, rejected, ids)
        report("write the version")
        number = write.publish(planner_version=own_version(), options=options.recorded)
    except BaseException:
        write.discard()
        raise
    return PlanResult(number, inputs, planned, rejected, choice.planner.value, choice.why)


def _write_giant(
    frames: "dict[str, pl.DataFrame]",
    inputs: int,
    out: str,
    options: PlanOptions,
    report: Report,
    choice: Choice,
) -> PlanResult:
    """Plan one topology, and write each table as soon as no step reads it; `frames` are emptied."""
    from penstock.engine.planning.plan_in_process import plan_giant
    from penstock.engine.store.write_plan import WriteWhilePlanning

    write = WriteWhilePlanning(out)
    try:
        plan_giant(write, frames, options.until, options.choices, report)
        planned, ids, rejected = write.planned()
        require_nothing_lost(inputs, planned, rejected, ids)
        report("write the version")
        number = write.publish(planner_version=own_version(), options=options.recorded)
    except BaseException:
        write.discard()
        raise
    return PlanResult(number, inputs, planned, rejected, choice.planner.value, choice.why)


class WorkOnSpark(NamedTuple):
    """An input to plan on Spark, with Spark's settings `conf`; `checkpoint_dir`: see checkpoints_in."""

    inputs: tuple[str, ...]
    out: str
    options: PlanOptions
    choice: Choice
    conf: Mapping[str, str]
    max_line_bytes: int
    checkpoint_dir: str | None = None
    custom_planners: "CustomPlanners | None" = None


def plan_into_store_on_spark(work: WorkOnSpark, session: Callable[[], Any], report: Report) -> PlanResult:
    """Plan on Spark, whole topologies in its workers or giants in blocks (see choose_on_spark).

    `session` returns the Spark session.
    """
    from penstock.engine.planning.plan_topologies import plan_read_topologies, read_topologies
    from penstock.engine.planning.write_layers import WriteLayers, checkpoints_in

    options, choice = work.options, work.choice
    report("start Spark")
    spark = session()
    write = WriteLayers(
        spark,
        work.out,
        planner_version=own_version(),
        options=options.recorded
        | ({} if work.custom_planners is None else {"planner": work.custom_planners.name}),
    )
    planned = None
    with checkpoints_in(spark, work.checkpoint_dir):
        try:
            report("read topologies")
            read = read_topologies(spark, list(work.inputs), work.max_line_bytes, options.job_defaults)
            planned = plan_read_topologies(
                spark,
                read,
                options.until,
                report,
                options.choices,
                choice.planner,
                work.custom_planners,
                write,
            )
            report("write the version")
            number = write.publish(planned)
        except BaseException:
            write.discard()
            raise
        finally:
            if planned is not None:  # else the storage of a long-lived session would fill up
                with suppress(Exception):  # Spark may have ended
                    planned.release()
    why = planned.why if planned.why == choice.why else f"{choice.why}; {planned.why}"
    return PlanResult(number, planned.inputs, planned.planned, planned.rejected, planned.planner, why)
