"""Plan topologies on Spark by a library call, into tables of DataFrames."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

import polars as pl
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.planning.choose_planner import Choice, Planner, choose_on_spark
from penstock.engine.planning.memory_estimate import (
    BYTES_OF_A_PLANNED_ROW,
    memory_of_workers,
    require_memory_of_workers,
    rows_at_once,
)
from penstock.engine.planning.plan_by_custom_planners import CustomPlanners
from penstock.engine.planning.plan_giants import OF_GIANTS, Store, plan_giant
from penstock.engine.planning.plan_in_workers import Read, RowCounts, count_rows, plan_in_workers
from penstock.engine.planning.plan_options import require_nothing_lost
from penstock.engine.planning.planned_on_spark import Planned
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
from penstock.plans.layers import Choices
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.input_errors import MAX_LINE_BYTES, tables_beside_others
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
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
from penstock.plans.vocabulary import Layer

# Topologies that a worker holds apart from giants, and one plan of the plans of both.


Tables = TopologyTables | GivenTables


def without_topologies(read: Tables, chosen: Sequence[int]) -> Tables:
    """The other topologies, rows without an id, what was rejected, and what reading has kept."""
    is_other = ~F.col(TOPOLOGY).isin(list(chosen)) | F.col(TOPOLOGY).isNull()
    others = _where(read, is_other)
    if isinstance(others, GivenTables):
        return others
    return others._replace(inputs=others.inputs - len(chosen))


def _joined_plans(plans: Sequence[Planned]) -> Planned:
    """Join plans by concatenating their tables and adding up seconds.

    The result is not packed: the rows of a table are in one place.
    """
    first, *further = plans
    for plan in further:
        tables = {name: rows.unionByName(plan.tables[name]) for name, rows in first.tables.items()}
        names = dict.fromkeys([*first.seconds, *plan.seconds])
        seconds = {name: first.seconds.get(name, 0.0) + plan.seconds.get(name, 0.0) for name in names}
        first = Planned(
            tables,
            first.inputs + plan.inputs,
            seconds,
            [*first.kept, *plan.kept],
            (*first.persisted, *plan.persisted),
        )
    first.is_counted = all(plan.is_counted for plan in plans)
    first.planned = sum(plan.planned for plan in plans)
    first.rejected = sum(plan.rejected for plan in plans)
    return first


def _where(read: Tables, chosen: Column) -> Tables:
    tables = ("topologies", "transformations", "stream_nodes", "stream_edges", "job_settings")
    of_them = {name: rows.filter(chosen) for name, rows in read._asdict().items() if name in tables}
    if isinstance(read, GivenTables):
        return read._replace(**of_them, files=())
    return read._replace(**of_them)


_GIVEN = ("topologies", "transformations")


class WritesGiants(Store, Protocol):
    """Where tables of giants go before the plan is finished."""

    def write(self, plans: Sequence[Planned]) -> list[tuple[str, str, int]]:
        """Write other plans beside giants, after `writer`; return (table, path, rows) for `take`."""


class _BesideGiants:
    """The Store of giants that are not alone: all files become part of the write at once, in `finish`."""

    def __init__(self, store: WritesGiants) -> None:
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

    def finish(self, others: Sequence[Planned]) -> None:
        """Write the other plans, too, if giants were written; else nothing stays of the write."""
        if self.taken:
            self._store.take([*self._files, *self._store.write(others)])
        elif self._write is not None:
            self._store.drop()


Topologies = (
    str
    | Path
    | Sequence[str | Path]
    | DataFrame
    | tuple[DataFrame, DataFrame]
    | Iterable[Mapping[str, Any] | str | bytes]
)


def plan(
    topologies: Topologies,
    *,
    until: Layer = Layer.SLOTS,
    choices: Choices | None = None,
    spark: SparkSession | None = None,
    planner: Planner = Planner.AUTO,
    report: Callable[[str], None] = lambda stage: None,
    max_line_bytes: int = MAX_LINE_BYTES,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> Planned:
    """Plan all topologies into DataFrames.

    `topologies`: a path or several (JSON lines, .gz, directories and globs of them, or a folder with the
    tables topologies and transformations), the DataFrames (topologies, transformations) themselves (schemas
    TOPOLOGIES and TRANSFORMATIONS of plans.tables), a DataFrame with one topology per row, or dicts or JSON
    as docs/topology-files.md describes them. `until`: the last layer to plan. `choices`: the cluster's
    configuration (default: Flink's). `planner`: see choose_on_spark; the rows are the same. `report` is
    called with the name of each stage as it starts. `max_line_bytes`: a longer line of a file is rejected.
    `job_defaults`: settings for topologies that leave them unset.

    Returns Planned; `tables` maps the names in plans.tables.TABLES to DataFrames keyed by topology_id.
    Topologies that are wrong or that Flink refuses are rows of `rejected` and of no other table.

    Raises InputError (an input cannot be read at all), ConfigurationError (no usable session, or the planner
    does not use one), and LostTopologiesError (see require_nothing_lost).
    """
    session = spark or any_session()
    report("read topologies")
    read = read_topologies(session, topologies, max_line_bytes, job_defaults)
    return plan_read_topologies(session, read, until, report, choices, planner)


def plan_read_topologies(
    spark: SparkSession,
    read: Read,
    until: Layer,
    report: Callable[[str], None],
    choices: Choices | None = None,
    planner: Planner = Planner.AUTO,
    custom_planners: CustomPlanners | None = None,
    finished: WritesGiants | None = None,
    counts: RowCounts | None = None,
) -> Planned:
    """Plan the tables of read_topologies like `plan`, and check that no topology is lost.

    `custom_planners` decide in place of Flink's rules, in the workers. `finished` receives tables of giants
    while later layers are planned, if the input is only giants. On an error, frames that reading has
    persisted are released. `counts`: what `count_topologies` returned, if it was called.
    """
    with released_on_error(read):
        return _plan_by_choice(
            spark,
            read,
            until,
            report,
            choices,
            planner,
            custom_planners,
            finished,
            counts or count_topologies(spark, read),
        )


def count_topologies(spark: SparkSession, read: Read) -> RowCounts:
    """Count rows for the choice of a planner, and find giants."""
    with reading_settings(spark, partitions_for(spark, ROWS_PER_PARTITION)):
        return count_rows(read, OF_GIANTS)


@contextmanager
def released_on_error(read: Read, plans: Sequence[Planned] = ()) -> Iterator[None]:
    """Release `plans` and the frames that reading `read` has persisted if the block raises."""
    try:
        yield
    except BaseException:
        with suppress(Exception):  # Spark may have ended
            for plan in plans:
                plan.release()
            for frame in () if isinstance(read, GivenTables) else read.persisted:
                frame.unpersist()
        raise


def _plan_by_choice(
    spark: SparkSession,
    read: Read,
    until: Layer,
    report: Callable[[str], None],
    choices: Choices | None,
    planner: Planner,
    custom_planners: CustomPlanners | None,
    finished: WritesGiants | None,
    counts: RowCounts,
) -> Planned:
    rows, largest, most_tasks, giants, *_ = counts
    cores = cores_of(spark)
    choice = choose_on_spark(
        planner, largest, most_tasks, lambda: memory_of_workers(spark).size_bytes // cores
    )
    foreseen = is_on_this_machine(spark)  # on a cluster, memory is the executors'
    partitions = partitions_for(spark, rows)
    if (not choice.by_blocks or custom_planners is not None) and foreseen:
        try:
            at_once = rows_at_once(rows, largest, partitions, cores)
            require_memory_of_workers(at_once, at_once * BYTES_OF_A_PLANNED_ROW, memory_of_workers(spark))
        except NotEnoughMemoryError as error:
            if planner is not Planner.AUTO or custom_planners is not None:
                raise
            choice = Choice(Planner.BLOCKS, error.message, on_spark=True)
    if choice.by_blocks and giants and custom_planners is None:
        planned = _plan_with_giants(spark, read, counts, until, report, choices, finished)
    else:
        with planning_settings(spark, partitions):
            planned = plan_in_workers(
                read, until, partitions, report, choices, custom_planners, counts.inputs
            )
    with released_on_error(read, [planned]):
        if not planned.is_counted:
            with planning_settings(spark, partitions):
                report("check that nothing is lost")
                ids = F.count_distinct(TOPOLOGY).alias("ids")
                kept, different = planned.tables["topologies"].agg(F.count(F.lit(1)), ids).collect()[0]
                rejected = planned.tables["rejected"].count()
            require_nothing_lost(planned.inputs, kept, rejected, different)
            planned.planned, planned.rejected = kept, rejected
    planned.rows_read = rows
    planned.planner = choice.planner if custom_planners is None else custom_planners.name
    planned.why = choice.why
    return planned


def _plan_lines_with_giants(
    spark: SparkSession,
    given: GivenLines,
    counts: RowCounts,
    until: Layer,
    report: Callable[[str], None],
    choices: Choices | None,
    finished: WritesGiants | None,
) -> Planned:
    """Giants, and what has their names, parsed by Spark and planned as tables; others in workers, whole."""
    is_giant = F.col("key").isin(list(counts.giants))
    tables = parsed_given_lines(given._replace(lines=given.lines.where(is_giant), persisted=()))
    inputs = given.inputs - tables.inputs
    with released_on_error(given), released_on_error(tables):
        counted = count_topologies(spark, tables)
        if not inputs:
            tables = tables._replace(persisted=(*tables.persisted, *given.persisted))
            return _plan_with_giants(spark, tables, counted, until, report, choices, finished)
        others = given._replace(lines=given.lines.where(~is_giant), inputs=inputs)
        partitions = partitions_for(spark, counts.rows - counted.rows)

        def plan_others() -> Planned:
            with planning_settings(spark, partitions):
                return plan_in_workers(others, until, partitions, report, choices)

        return _plan_with_giants(spark, tables, counted, until, report, choices, finished, plan_others)


def _plan_with_giants(
    spark: SparkSession,
    read: Read,
    counts: RowCounts,
    until: Layer,
    report: Callable[[str], None],
    choices: Choices | None,
    finished: WritesGiants | None,
    plan_further: Callable[[], Planned] | None = None,
) -> Planned:
    """Plan giants one after the other, each in blocks, and the other topologies whole in workers.

    `plan_further` plans topologies that are not in `read`.
    """
    if isinstance(read, GivenLines):
        return _plan_lines_with_giants(spark, read, counts, until, report, choices, finished)
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
    beside = None if alone or finished is None else _BesideGiants(finished)
    into = finished if alone else beside
    plans: list[Planned] = []
    written: list[Planned] = []
    with released_on_error(read, plans):
        for giant, size in giants.items():
            of_it = topologies.filter(pl.col(TOPOLOGY) == giant)
            before = 0 if beside is None else beside.taken
            planned = plan_giant(spark, read, of_it, giant, size, until, choices, report, into)
            plans.append(planned)
            written += [planned] if beside is not None and beside.taken > before else []
        if not alone:
            others = without_topologies(read, list(giants))
            partitions = partitions_for(spark, rows_of_others)
            with planning_settings(spark, partitions):
                plans.append(plan_in_workers(others, until, partitions, report, choices))
        if plan_further is not None:
            plans.append(plan_further())
        if beside is not None:
            beside.finish([plan for plan in plans if not any(plan is of_giant for of_giant in written)])
        if alone and isinstance(read, TopologyTables):
            plans[0].persisted += read.persisted
        return _joined_plans(plans)


def read_topologies(
    spark: SparkSession,
    topologies: Topologies,
    max_line_bytes: int = MAX_LINE_BYTES,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> Read:
    """Read the tables of `topologies`, in any form that `plan` accepts. Raises InputError.

    Given tables and texts are returned as they are: the planner decides where they are validated.
    """
    if isinstance(topologies, str | Path):
        return _read_paths(spark, [str(topologies)], max_line_bytes, job_defaults)
    if isinstance(topologies, DataFrame):
        return given_lines(texts_of_rows(topologies, job_defaults), job_defaults)
    items: list[Any] = list(topologies)
    match items:
        case [DataFrame() as rows, DataFrame() as transformations]:
            return normalized_tables(rows, transformations, job_defaults)
    if items and all(isinstance(item, str | Path) for item in items):
        return _read_paths(spark, [str(item) for item in items], max_line_bytes, job_defaults)
    return given_objects(spark, items, job_defaults)


def _read_paths(
    spark: SparkSession, paths: list[str], max_line_bytes: int, job_defaults: JobDefaults
) -> TopologyTables | GivenTables:
    folders = [path for path in paths if _holds_tables(spark, path)]
    if not folders:
        piped = lines_of_pipes(paths, max_line_bytes)
        return read_topology_files(spark, paths, max_line_bytes, piped, job_defaults)
    if len(paths) > 1:
        raise tables_beside_others(folders[0])
    if any(is_delta_table(spark, f"{paths[0].rstrip('/')}/{table}") for table in _GIVEN):
        require_delta(spark)
    return load_topology_folder(spark, paths[0], job_defaults)


def _holds_tables(spark: SparkSession, path: str) -> bool:
    table = f"{path.rstrip('/')}/transformations"
    return is_delta_table(spark, table) or any(Path(table).glob("*.parquet"))
