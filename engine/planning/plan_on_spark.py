"""Plan topologies on Spark: whole topologies in its workers, giants in blocks."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.memory_estimate import (
    BYTES_OF_A_PLANNED_ROW,
    memory_of_workers,
    require_memory_of_workers,
    rows_at_once,
)
from penstock.engine.planning.plan_by_custom_planners import CustomPlanners
from penstock.engine.planning.plan_giants import OF_GIANTS, plan_in_blocks
from penstock.engine.planning.plan_in_workers import (
    Read,
    RowCounts,
    count_rows,
    plan_in_workers,
    storage_of,
)
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import ChosenPlanner, Planner, choose_on_spark
from penstock.engine.planning.planning_settings import (
    ROWS_PER_PARTITION,
    partitions_for,
    planning_settings,
    reading_settings,
)
from penstock.engine.spark.session import any_session, cores_of, is_on_this_machine, require_delta
from penstock.plans.blocks.giant import Write
from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import DEFAULT_OPTIONS, PlanOptions
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.find_topology_files import TopologyPaths, hadoop_path, topology_paths
from penstock.plans.topology.input_errors import tables_beside_others
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.topology.on_spark.local_transformations import is_delta_table
from penstock.plans.topology.on_spark.normalized_tables import load_topology_folder, normalized_tables
from penstock.plans.topology.on_spark.read_topology_files import read_topology_files
from penstock.plans.topology.on_spark.topologies_of_lines import (
    GivenLines,
    GivenTables,
    TopologyTables,
    given_lines,
    given_objects,
    parsed_given_lines,
    texts_of_rows,
)
from penstock.plans.topology.read_topology_files import lines_of_pipes

if TYPE_CHECKING:
    from penstock.engine.planning.write_layers import WriteLayers

Topologies = (
    str
    | Path
    | Sequence[str | Path]
    | TopologyPaths
    | DataFrame
    | tuple[DataFrame, DataFrame]
    | Iterable[Mapping[str, Any] | str | bytes]
)


class CountedTopologies(NamedTuple):
    """Topologies that Spark has read and counted, to decide where they are planned."""

    read: Read
    counts: RowCounts


def plan_on_spark(
    source: Topologies | CountedTopologies,
    options: PlanOptions = DEFAULT_OPTIONS,
    out: str | None = None,
    report: Report = SILENT,
    *,
    spark: SparkSession | None = None,
    planner: Planner = Planner.AUTO,
    custom_planners: CustomPlanners | None = None,
    checkpoint_dir: str | None = None,
) -> PlanResult:
    """Plan all topologies into DataFrames keyed by topology_id, or into a version of the store `out`.

    `source`: a path or several (JSON lines, .gz, directories and globs of them, or a folder with the tables
    topologies and transformations), the DataFrames (topologies, transformations) themselves (schemas
    TOPOLOGIES and TRANSFORMATIONS of plans.tables), a DataFrame with one topology per row, dicts or JSON as
    docs/topology-files.md describes them, or what `count_topologies` returned. `planner`: see
    choose_on_spark; the rows are the same. `custom_planners` decide in place of Flink's rules, in the
    workers. `checkpoint_dir`: of a plan into a store, see checkpoints_in.

    Raises InputError (an input cannot be read at all), ConfigurationError (no usable session, or the planner
    does not use one), LostTopologiesError (see require_nothing_lost), and StoreError and MachineError of the
    store. On an error, frames that reading has persisted are released.
    """
    work = _Work(spark or any_session(), options, report, planner, custom_planners)
    return _plan(work, source) if out is None else _plan_into_store(work, source, out, checkpoint_dir)


Tables = TopologyTables | GivenTables


def without_topologies(read: Tables, chosen: Sequence[int]) -> Tables:
    """The other topologies, rows without an id, what was rejected, and what reading has kept."""
    is_other = ~F.col(TOPOLOGY).isin(list(chosen)) | F.col(TOPOLOGY).isNull()
    others = _where(read, is_other)
    if isinstance(others, GivenTables):
        return others
    return others._replace(inputs=others.inputs - len(chosen))


def _joined_plans(plans: Sequence[PlanResult]) -> PlanResult:
    """Join plans by concatenating their tables and adding up seconds.

    The result is not packed: the rows of a table are in one place.
    """
    first, *further = plans
    for plan in further:
        tables = {name: rows.unionByName(plan.tables[name]) for name, rows in first.tables.items()}
        names = dict.fromkeys([*first.seconds, *plan.seconds])
        first = PlanResult(
            tables,
            first.inputs + plan.inputs,
            first.planned + plan.planned,
            first.rejected + plan.rejected,
            {name: first.seconds.get(name, 0.0) + plan.seconds.get(name, 0.0) for name in names},
            storage=(*first.storage, *plan.storage),
        )
    return first


def _where(read: Tables, chosen: Column) -> Tables:
    tables = ("topologies", "transformations", "stream_nodes", "stream_edges", "job_settings")
    of_them = {name: rows.filter(chosen) for name, rows in read._asdict().items() if name in tables}
    if isinstance(read, GivenTables):
        return read._replace(**of_them, files=())
    return read._replace(**of_them)


_GIVEN = ("topologies", "transformations")


class _BesideGiants:
    """The Store of giants that are not alone: all files become part of the write at once, in `finish`."""

    def __init__(self, store: "WriteLayers") -> None:
        self.taken = 0  #: giants
        self._store = store
        self._files: list[tuple[str, str, int]] = []
        self._write: Write | None = None

    def writer(self, tables: Collection[str]) -> Write | None:
        if self._write is None:
            self._write = self._store.writer(tables)
        return self._write

    def take(self, files: list[tuple[str, str, int]]) -> None:
        self._files += files
        self.taken += 1

    def drop(self) -> None:
        """Files that are not taken are removed when others are."""

    def finish(self, others: Sequence[PlanResult]) -> None:
        """Write the other plans, too, if giants were written; else nothing stays of the write."""
        if self.taken:
            self._store.take([*self._files, *self._store.write(others)])
        elif self._write is not None:
            self._store.drop()


class _Work(NamedTuple):
    """What all steps of a plan on Spark share. `store` receives tables of giants while others are planned."""

    spark: SparkSession
    options: PlanOptions
    report: Report
    planner: Planner = Planner.AUTO
    custom_planners: CustomPlanners | None = None
    store: "WriteLayers | None" = None


def _plan_into_store(
    work: _Work, source: Topologies | CountedTopologies, out: str, checkpoint_dir: str | None
) -> PlanResult:
    from penstock.engine.planning.write_layers import WriteLayers, checkpoints_in

    custom = {} if work.custom_planners is None else {"planner": work.custom_planners.name}
    recorded = {**work.options.recorded, **custom}
    write = WriteLayers(work.spark, out, recorded)
    planned = None
    with checkpoints_in(work.spark, checkpoint_dir):
        try:
            planned = _plan(work._replace(store=write), source)
            work.report("write the version")
            return planned.stored(write.publish(planned))
        except BaseException:
            write.discard()
            raise
        finally:
            if planned is not None:  # else the storage of a long-lived session would fill up
                with suppress(Exception):  # Spark may have ended
                    planned.release()


def _plan(work: _Work, source: Topologies | CountedTopologies) -> PlanResult:
    """Read and count topologies, if that is not done yet, and plan them in workers or in blocks."""
    spark, options, report, planner, custom_planners, _ = work
    started = time.monotonic()
    if not isinstance(source, CountedTopologies):
        report("read topologies")
        source = count_topologies(spark, read_topologies(spark, source, options))
    reading = time.monotonic() - started
    read, counts = source
    partitions = partitions_for(spark, counts.rows)
    with released_on_error(read):
        chosen = _choose(spark, counts, partitions, planner, is_custom=custom_planners is not None)
        if chosen.by_blocks and counts.giants and custom_planners is None:
            planned = _plan_with_giants(work, read, counts)
        else:
            with planning_settings(spark, partitions):
                planned = plan_in_workers(read, options, partitions, report, custom_planners, counts.inputs)
    return replace(
        planned,
        seconds={"read_topologies": reading, **planned.seconds},
        rows_read=counts.rows,
        planner=chosen.name if custom_planners is None else custom_planners.name,
        why=chosen.why,
    )


def count_frames(spark: SparkSession, frames: Sequence[DataFrame], options: PlanOptions) -> CountedTopologies:
    """Read and count DataFrames (see _read_frames), to decide where they are planned."""
    return count_topologies(spark, _read_frames(frames, options.job_defaults))


def count_topologies(spark: SparkSession, read: Read) -> CountedTopologies:
    """Count rows for the choice of a planner, and find giants."""
    with released_on_error(read), reading_settings(spark, partitions_for(spark, ROWS_PER_PARTITION)):
        return CountedTopologies(read, count_rows(read, OF_GIANTS))


@contextmanager
def released_on_error(read: Read, plans: Sequence[PlanResult] = ()) -> Iterator[None]:
    """Release `plans` and the frames that reading `read` has persisted if the block raises."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # Spark may have ended
            for plan in plans:
                plan.release()
            for release in storage_of(read):
                release()
        raise


def _choose(
    spark: SparkSession, counts: RowCounts, partitions: int, planner: Planner, *, is_custom: bool
) -> ChosenPlanner:
    """Choose workers or blocks by the counts and by the memory of workers."""
    cores = cores_of(spark)
    chosen = choose_on_spark(
        planner, counts.largest, counts.most_tasks, lambda: memory_of_workers(spark).size_bytes // cores
    )
    foreseen = is_on_this_machine(spark)  # on a cluster, memory is the executors'
    if (not chosen.by_blocks or is_custom) and foreseen:
        try:
            at_once = rows_at_once(counts.rows, counts.largest, partitions, cores)
            require_memory_of_workers(at_once, at_once * BYTES_OF_A_PLANNED_ROW, memory_of_workers(spark))
        except NotEnoughMemoryError as error:
            if planner is not Planner.AUTO or is_custom:
                raise
            chosen = ChosenPlanner(Planner.BLOCKS, error.message, on_spark=True)
    return chosen


def _plan_lines_with_giants(work: _Work, given: GivenLines, counts: RowCounts) -> PlanResult:
    """Giants, and what has their names, parsed by Spark and planned as tables; others in workers, whole."""
    is_giant = F.col("key").isin(list(counts.giants))
    tables = parsed_given_lines(given._replace(lines=given.lines.where(is_giant), persisted=()))
    inputs = given.inputs - tables.inputs
    with released_on_error(given), released_on_error(tables):
        counted = count_topologies(work.spark, tables).counts
        if not inputs:
            tables = tables._replace(persisted=(*tables.persisted, *given.persisted))
            return _plan_with_giants(work, tables, counted)
        others = given._replace(lines=given.lines.where(~is_giant), inputs=inputs)

        def plan_others() -> PlanResult:
            return _plan_whole(work, others, counts.rows - counted.rows)

        return _plan_with_giants(work, tables, counted, plan_others)


def _plan_whole(work: _Work, read: Read, rows: int) -> PlanResult:
    partitions = partitions_for(work.spark, rows)
    with planning_settings(work.spark, partitions):
        return plan_in_workers(read, work.options, partitions, work.report)


def _plan_with_giants(
    work: _Work, read: Read, counts: RowCounts, plan_further: Callable[[], PlanResult] | None = None
) -> PlanResult:
    """Plan giants one after the other, each in blocks, and the other topologies whole in workers.

    `plan_further` plans topologies that are not in `read`.
    """
    if isinstance(read, GivenLines):
        return _plan_lines_with_giants(work, read, counts)
    spark, options, report, *_, store = work
    giants = counts.giants
    rows_of_others = counts.rows - sum(size.rows for size in giants.values())
    is_giant = F.col(TOPOLOGY).isin(list(giants))
    topologies = counts.topologies
    if topologies is None:
        with reading_settings(spark, partitions_for(spark, ROWS_PER_PARTITION)):
            another = read.topologies.where(~is_giant).limit(1)
            topologies = from_arrow(read.topologies.where(is_giant).unionByName(another).toArrow())
    alone = len(giants) == 1 and len(topologies) <= 1 and not rows_of_others
    if isinstance(read, TopologyTables):
        alone = alone and read.inputs == 1 and plan_further is None
    beside = None if alone or store is None else _BesideGiants(store)
    into = store if alone else beside
    plans: list[PlanResult] = []
    written: list[PlanResult] = []
    with released_on_error(read, plans):
        for giant, size in giants.items():
            of_it = topologies.filter(pl.col(TOPOLOGY) == giant)
            before = 0 if beside is None else beside.taken
            planned = plan_in_blocks(spark, read, of_it, giant, size, options, report, into)
            plans.append(planned)
            written += [planned] if beside is not None and beside.taken > before else []
        if not alone:
            plans.append(_plan_whole(work, without_topologies(read, list(giants)), rows_of_others))
        if plan_further is not None:
            plans.append(plan_further())
        if beside is not None:
            beside.finish([plan for plan in plans if not any(plan is of_giant for of_giant in written)])
        if alone and isinstance(read, TopologyTables):
            plans[0].storage += storage_of(read)
        return _joined_plans(plans)


def read_topologies(
    spark: SparkSession, topologies: Topologies, options: PlanOptions = DEFAULT_OPTIONS
) -> Read:
    """Read the tables of `topologies`, in any form that `plan_on_spark` accepts. Raises InputError.

    Given tables and texts are returned as they are: the planner decides where they are validated.
    """
    job_defaults = options.job_defaults
    if isinstance(topologies, DataFrame):
        return _read_frames([topologies], job_defaults)
    given: Any = topologies if isinstance(topologies, str | Path | TopologyPaths) else list(topologies)
    if (paths := topology_paths(given)) is not None:
        return _read_paths(spark, paths, options)
    match given:
        case [DataFrame(), DataFrame()]:
            return _read_frames(given, job_defaults)
    return given_objects(spark, given, job_defaults)


def _read_frames(frames: Sequence[DataFrame], job_defaults: JobDefaults) -> GivenLines | GivenTables:
    """Read one DataFrame with one topology per row, or two: topologies and transformations."""
    if len(frames) == 1:
        return given_lines(texts_of_rows(frames[0], job_defaults), job_defaults)
    return normalized_tables(frames[0], frames[1], job_defaults)


def _read_paths(
    spark: SparkSession, given: TopologyPaths, options: PlanOptions
) -> TopologyTables | GivenTables:
    paths = list(map(hadoop_path, given.paths))
    here = set(map(hadoop_path, given.tables))
    folders = [path for path in paths if path in here or _holds_tables(spark, path)]
    if not folders:
        piped = lines_of_pipes(list(map(hadoop_path, given.pipes)), options.max_line_bytes)
        return read_topology_files(spark, paths, options.max_line_bytes, piped, options.job_defaults)
    if len(paths) > 1:
        raise tables_beside_others(folders[0])
    if any(is_delta_table(spark, f"{paths[0].rstrip('/')}/{table}") for table in _GIVEN):
        require_delta(spark)
    return load_topology_folder(spark, paths[0], options.job_defaults)


def _holds_tables(spark: SparkSession, path: str) -> bool:
    table = f"{path.rstrip('/')}/transformations"
    return is_delta_table(spark, table) or any(Path(table).glob("*.parquet"))
