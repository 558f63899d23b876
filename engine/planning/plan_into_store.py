"""Planning an input into a store, by either planner. Spark is imported only where it is used."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from penstock.engine.output.progress import Report
from penstock.engine.planning.choose_planner import Choice, Planner
from penstock.engine.planning.plan_options import PlanOptions, require_nothing_lost
from penstock.engine.spark.describe_spark_error import describe_spark_error
from penstock.engine.store.data_files import DataFile
from penstock.engine.store.plan_versions import is_store, start_manifest
from penstock.engine.store.require_target import require_target
from penstock.engine.store.spark_tables import tables_of_spark
from penstock.engine.store.store_errors import store_errors
from penstock.engine.store.vacuum_store import discard, set_aside_unreadable
from penstock.engine.store.version_notes import VersionNumber
from penstock.engine.store.write_plan import WriteInProgress, new_write_id, unchanged_topologies, write_plan
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.packed_blocks import PackedTables
from penstock.plans.frames.spark_schemas import unless_ended
from penstock.plans.installation import own_version
from penstock.plans.planners.run_joins import Planned
from penstock.plans.tables import TABLES

if TYPE_CHECKING:
    import polars as pl

    from penstock.engine.planning.plan_by_custom_planners import CustomPlanners
    from penstock.engine.planning.plan_in_process import PlannedTables
    from penstock.plans.topology.columnar.topologies_of_lines import TopologyTables


# Write tables of a plan on Spark while its later layers are planned.


class WriteLayers:
    """A write to a store, to which passes hand tables over (see plans.joins.hand_over_tables.Finished).

    Nothing of it can be read before `publish`; every other end of it is `discard`. Where the newest version
    holds the same topologies, tables wait for `publish`, which may find that nothing has changed.
    """

    def __init__(
        self, spark: SparkSession, store: str, *, planner_version: str, options: Mapping[str, str]
    ) -> None:
        """`planner_version`, `options`: as engine.store.write_plan."""
        self._spark = spark
        self._store = store
        self._planner_version, self._options = planner_version, options
        self._rows: int | None = None
        self._write_id = ""
        self._begun: set[str] = set()
        self._written: dict[str, list[DataFile]] = {}
        self._waits = False
        self._starting = Lock()

    def expect(self, rows: int) -> None:
        """As Finished."""
        self._rows = rows

    def add(self, tables: Mapping[str, DataFrame], packed: Sequence[PackedTables]) -> None:
        """As Finished. Raises StoreError, MachineError and SchemaError."""
        delta = tables_of_spark(self._spark, self._store, packed)
        with store_errors(self._store, "writing"):
            with self._starting:
                if not self._begun and not self._waits:
                    self._start(tables)
                self._begun |= set() if self._waits else tables.keys()
            if self._waits:
                return
            about = {} if self._rows is None else dict.fromkeys(tables, self._rows)
            delta.append_all(tables, self._write_id, about)
            self._written |= {table: delta.listed_files(table, self._write_id) or [] for table in tables}

    def clear(self) -> None:
        """As Finished."""
        self.discard()
        self._begun, self._written, self._waits = set(), {}, True

    def publish(self, planned: Planned) -> VersionNumber:
        """The number of the version that holds what `planned` holds, as engine.store.write_plan."""
        files = [file for of_table in self._written.values() for file in of_table]
        begun = WriteInProgress(self._write_id, [*self._written], files) if self._written else None
        return write_plan(
            tables_of_spark(self._spark, self._store, planned.packed),
            planned.tables,
            planner_version=self._planner_version,
            options=self._options,
            rows=dict.fromkeys(planned.tables, planned.rows_read),
            begun=begun,
        )

    def discard(self) -> None:
        """Delete what was written, unless it was published."""
        if self._begun:
            with suppress(Py4JError):  # Spark may have ended
                discard(tables_of_spark(self._spark, self._store), self._begun, self._write_id)

    def _start(self, tables: Mapping[str, DataFrame]) -> None:
        delta = tables_of_spark(self._spark, self._store)
        require_target(self._store)
        topologies = tables.get("topologies")
        if topologies is not None and is_store(delta):
            same = unchanged_topologies(
                delta, topologies, planner_version=self._planner_version, options=self._options
            )
            self._waits = same is not None and same.count() == topologies.count()
        if not self._waits:
            start_manifest(delta)
            set_aside_unreadable(self._store, TABLES)
            self._write_id = new_write_id()


# Tables between passes are kept in a folder that every executor reaches.


@contextmanager
def checkpoints_in(spark: SparkSession, folder: str | None) -> Iterator[None]:
    """Inside the block, `plans.joins.spark_schemas` writes to a folder of its own in `folder`.

    With None, executors keep the tables, or the checkpoint directory that the context has. Raises
    ConfigurationError where the folder cannot be made.
    """
    if folder is None:
        yield
        return
    context: Any = spark.sparkContext
    scala_context, jvm = context._jsc.sc(), context._jvm
    before = scala_context.checkpointDir()
    try:
        context.setCheckpointDir(folder)
    except Py4JError as error:
        raise ConfigurationError(
            f"--checkpoint-dir: {describe_spark_error(error)}", "a folder that all executors can write to"
        ) from None
    path = jvm.org.apache.hadoop.fs.Path(context.getCheckpointDir())
    try:
        yield
    finally:
        with unless_ended(spark):
            getattr(scala_context, "checkpointDir_$eq")(before)
            path.getFileSystem(context._jsc.hadoopConfiguration()).delete(path, True)


class PlanResult(NamedTuple):
    """What became of an input: the version of the store, topologies counted, and who planned, and why."""

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
    """By the columnar planner, in this process, without Spark, and by Flink too if that was chosen.

    `custom_planners`: custom planners, who decide in place of Flink's rules.
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
    """All topologies at once: who decides is shown Flink's plan of them first."""
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
    from penstock.engine.store.write_plan import write_plan

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
    """Many topologies, planned and written in parts while they are read."""
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
    """One topology, each of its tables written as soon as no step reads it; `frames` are emptied."""
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
    """What is to be planned on Spark, with Spark's settings `conf`; `checkpoint_dir`: see checkpoints_in."""

    inputs: tuple[str, ...]
    out: str
    options: PlanOptions
    choice: Choice
    conf: Mapping[str, str]
    max_line_bytes: int
    checkpoint_dir: str | None = None
    custom_planners: "CustomPlanners | None" = None


def plan_into_store_on_spark(work: WorkOnSpark, session: Callable[[], Any], report: Report) -> PlanResult:
    """On the Spark that `session` gives: by columns in its workers, or by the passes over DataFrames (see
    choose_on_spark).
    """
    from penstock.engine.planning.plan_topologies import plan_read_topologies, read_topologies

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
            if planned is not None:  # of a session that goes on, storage would fill up
                with suppress(Exception):  # Spark may have ended
                    planned.release()
    why = planned.why if planned.why == choice.why else f"{choice.why}; {planned.why}"
    return PlanResult(number, planned.inputs, planned.planned, planned.rejected, planned.planner, why)
