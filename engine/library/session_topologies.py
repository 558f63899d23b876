"""Topologies of a Spark session: where they are planned, and in which form."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from penstock.engine.library.given_topologies import (
    OF_TOPOLOGY,
    SparkFrames,
    TablesOfTopologies,
    TopologySource,
    topology_tables_of_frames,
)
from penstock.engine.output.progress import Report
from penstock.engine.planning.memory_estimate import FleetSize, parts_at_once, require_memory_to_plan
from penstock.engine.planning.plan_in_workers import RowCounts
from penstock.engine.planning.plan_on_spark import (
    count_frames,
    plan_on_spark,
    released_on_error,
)
from penstock.engine.planning.plan_result import PlanResult
from penstock.engine.planning.planners import MARGIN, ON_SPARK, ChosenPlanner, Planner, choose_planner
from penstock.engine.planning.planning_settings import interpreted
from penstock.engine.spark.describe_spark_error import exceeds_result_size, penstock_in_workers
from penstock.engine.spark.session import any_session, cores_of, is_connect, require_delta, use_this_python
from penstock.engine.spark.spark_memory_estimate import heap_bytes
from penstock.engine.store.store_location import is_local
from penstock.engine.store.store_tables import VersionNumber
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError
from penstock.plans.layers import PlanOptions
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.find_topology_files import TopologyPaths
from penstock.plans.topology.lines_batch import TopologyTexts
from penstock.plans.topology.on_spark.topologies_of_lines import GivenLines, GivenTables, texts_of_rows


class Placed(NamedTuple):
    """The planner of a session's topologies, and these in the form that it reads."""

    source: Any
    chosen: ChosenPlanner


FEW = "few enough for this process"


def place_topologies(
    spark: SparkSession, source: TopologySource, options: PlanOptions, asked: Planner
) -> Placed:
    """Decide where topologies of a session are planned, in this process or on Spark.

    Raises ConfigurationError for files that only a classic session reads, and for planner `flink`;
    NotEnoughMemoryError if `asked` is the planner of this process and Spark refuses to collect DataFrames.
    """
    if isinstance(source, TopologyPaths):
        on_spark = choose_planner(asked, source, wants_spark=asked is not Planner.PROCESS)
    elif asked is Planner.FLINK:
        raise ConfigurationError(
            "planner flink plans in this process, without Spark",
            "leave out spark, and give dicts, paths or frames of Arrow",
        )
    else:
        why = "as asked" if asked in ON_SPARK else "a session or DataFrames given"
        on_spark = ChosenPlanner(asked, why, on_spark=True)
    connect = is_connect(spark)
    if asked in ON_SPARK:
        if connect and isinstance(source, TopologyPaths):
            raise ConfigurationError(
                f"planner {asked} reads files by the JVM of a session of classic Spark, got one of Spark "
                "Connect",
                "give DataFrames or dicts, or leave planner out: this process plans",
            )
        return Placed(source, on_spark)
    if asked is Planner.PROCESS:
        return Placed(in_process(source), ChosenPlanner(Planner.PROCESS, "as asked"))
    few = few_rows(source) if isinstance(source, SparkFrames) else None
    if few is not None:
        return Placed(few, ChosenPlanner(Planner.COLUMNAR, FEW))
    if connect:
        why = "whether the workers of Spark Connect have Penstock is unknown"
        return Placed(in_process(source), ChosenPlanner(Planner.COLUMNAR, why))
    if isinstance(source, TopologyPaths):
        return Placed(source, on_spark)
    cores = cores_of(spark)
    if isinstance(source, SparkFrames):
        return _by_cost(spark, source, options, on_spark, cores)
    size = size_here(source)
    why_here = planned_here(size, cores, None)
    return Placed(source, on_spark if why_here is None else ChosenPlanner(Planner.COLUMNAR, why_here))


def in_process(source: TopologySource) -> Any:
    """Return topologies as planners in process take them: DataFrames are collected (see read_frames)."""
    return read_frames(source) if isinstance(source, SparkFrames) else source


def _by_cost(
    spark: SparkSession, source: SparkFrames, options: PlanOptions, on_spark: ChosenPlanner, cores: int
) -> Placed:
    """Count the rows of DataFrames, and collect them if planning them here costs less."""
    frames, session = _as_read(source), use_this_python(spark)
    with penstock_in_workers():
        counted = count_frames(session, frames, options)
        read, counts = counted
        assert isinstance(read, GivenLines | GivenTables)
        with released_on_error(read):
            heap = heap_bytes(session.sparkContext)
            size = size_on_spark(read, counts)
            why = planned_here(size, cores, heap)
            here = None if why is None else collected(read)
    if why is None or here is None:
        return Placed(counted, on_spark)
    return Placed(here, ChosenPlanner(Planner.COLUMNAR, why))


# Whether planning here costs less than in the workers of the session.


# Measured on 2 cores, as CPU time, with fleets of 3 and of 19 transformations for each topology
# (docs/scaling.md). A row below is a transformation, or a share of what a topology takes by itself.

ROWS_OF_A_TOPOLOGY = 4
"""A topology takes as long as this many transformations, besides its own."""

COLLECT_MICROSECONDS = 2.0
"""Of one core, for each row of DataFrames on its way from Spark to this process."""

READ_MICROSECONDS = 7.0
"""Of one core of this process, for each row: topologies are read by one thread."""

PLAN_MICROSECONDS = 4.0
"""Of one core, for each row: parts are planned on all cores, four at most."""

WORKER_MICROSECONDS = 14.0
"""Of one of Spark's cores, for each row that is exchanged, read, planned and packed."""

WORKERS_SECONDS = 1.0
"""What planning in workers takes whatever the size: three jobs."""

HEAP_SHARE = 1 / 8
"""Of the driver's heap, for rows on their way to this process: Spark loses results that it cannot hold."""


class GivenToSpark(NamedTuple):
    """Topologies of a session: transformations, topologies, and the bytes to collect (0: they are here)."""

    transformations: int
    topologies: int
    collected_bytes: int = 0


def planned_here(given: GivenToSpark, sparks_cores: int, heap: int | None) -> str | None:
    """Return the reason to plan topologies of a session in this process, or None if workers do it.

    This process plans if that takes less time, by the figures above, and if everything fits: rows into
    HEAP_SHARE of the driver's `heap` (None: unknown) on their way, the plan into this process' memory, with
    the margin of AUTO. `sparks_cores`: tasks that Spark runs at once, here or on a cluster.
    """
    transformations, topologies, collected_bytes = given
    if heap is not None and collected_bytes > heap * HEAP_SHARE:
        return None
    rows = transformations + topologies * ROWS_OF_A_TOPOLOGY
    collecting = COLLECT_MICROSECONDS if collected_bytes else 0.0
    here = rows * (collecting + READ_MICROSECONDS + PLAN_MICROSECONDS / parts_at_once()) / 1e6
    in_workers = WORKERS_SECONDS + rows * WORKER_MICROSECONDS / sparks_cores / 1e6
    if here > in_workers:
        return None
    try:
        require_memory_to_plan(FleetSize(transformations, topologies), MARGIN)
    except NotEnoughMemoryError:
        return None
    return f"takes about {max(here, 0.1):.1f} s in this process, {in_workers:.1f} s in Spark's workers"


def size_here(source: Sequence[Any] | TablesOfTopologies) -> GivenToSpark:
    """Return the size of topologies that this process holds."""
    if isinstance(source, TablesOfTopologies):
        return GivenToSpark(len(source.transformations), len(source.topologies))
    rows = sum(
        len(topology) // 500 if isinstance(topology, bytes) else _rows(topology) for topology in source
    )
    return GivenToSpark(rows, len(source))


def _rows(topology: Any) -> int:
    rows = topology.get("transformations") or topology.get("stream_graph") or ()
    return len(rows) if isinstance(rows, list | tuple | dict) else 1


def size_on_spark(read: GivenLines | GivenTables, counts: RowCounts) -> GivenToSpark:
    """Return the size of topologies in DataFrames that were counted."""
    if isinstance(read, GivenLines):
        return GivenToSpark(counts.rows, counts.inputs or 0, read.size_bytes)
    bytes_ = 0 if read.files else counts.rows * _BYTES_OF_A_ROW
    return GivenToSpark(counts.rows, counts.inputs or 0, bytes_)


_BYTES_OF_A_ROW = 300
"""Of a table of transformations, as Arrow."""


# Plan on the Spark of a session.


def plan_in_session(
    spark: SparkSession | None,
    planner: Planner,
    source: Any,
    options: PlanOptions,
    out: str | None,
    report: Report,
) -> PlanResult:
    """Plan on `spark`, by default any running or new session, in the form PlanTopologies."""
    session = any_session() if spark is None else use_this_python(spark)
    with penstock_in_workers():
        given = topologies_on_spark(session, source)
        return plan_on_spark(given, options, out, report, spark=session, planner=planner)


def topologies_on_spark(spark: SparkSession, source: Any) -> Any:
    """Return topologies as plan_on_spark reads them: tables become DataFrames, other forms stay."""
    if isinstance(source, TablesOfTopologies):
        return tuple(spark.createDataFrame(table) for table in source)
    if not isinstance(source, SparkFrames):
        return source
    frames = _as_read(source)
    return frames[0] if len(frames) == 1 else tuple(frames)


def _as_read(source: SparkFrames) -> list[DataFrame]:
    """Return DataFrames whose transformations have topology_id."""
    first, *others = source.frames
    if not others or OF_TOPOLOGY not in others[0].columns or TOPOLOGY in others[0].columns:
        return source.frames
    return [first, others[0].withColumn(TOPOLOGY, F.xxhash64(OF_TOPOLOGY)).drop(OF_TOPOLOGY)]


def write_dataframes(
    spark: SparkSession,
    planned: PlanResult,
    recorded: Mapping[str, str],
    arrow: Mapping[str, pa.Table] | None,
    store: str,
) -> VersionNumber:
    """Write a plan of `spark`; this process writes `arrow`, the tables of a session of Spark Connect."""
    if arrow is not None:
        return replace(planned, tables=dict(arrow)).write(store, recorded)
    with penstock_in_workers():
        if not is_local(store):
            require_delta(spark)
        return planned.write(store, recorded)


# Collect the topologies of a session.


PROBED_TOPOLOGIES = 2_000
PROBED_TRANSFORMATIONS = 50_000
PROBED_BYTES = 32 << 20
"""Rows of DataFrames are collected up to these numbers before they are counted: so few are planned in this
process in less time than Spark takes to count them."""


def few_rows(frames: SparkFrames) -> TopologyTexts | TablesOfTopologies | None:
    """Return the rows of DataFrames, for planning in this process; None if there are more than are probed."""
    tables = []
    most_rows = (PROBED_TOPOLOGIES, PROBED_TRANSFORMATIONS)
    with interpreted(frames.frames[0].sparkSession):
        for frame, most in zip(frames.frames, most_rows, strict=False):
            table = _rows_here(_as_collected(frames, frame.limit(most + 1)))
            if table is None or len(table) > most or table.nbytes > PROBED_BYTES:
                return None
            tables.append(table)
    return _as_topologies(tables)


def read_frames(frames: SparkFrames) -> TopologyTexts | TablesOfTopologies:
    """Collect all rows of DataFrames, to plan them in this process.

    Raises NotEnoughMemoryError if Spark refuses to collect that many.
    """
    tables = [_rows_here(_as_collected(frames, frame)) for frame in frames.frames]
    known = [table for table in tables if table is not None]
    if len(known) < len(tables):
        raise NotEnoughMemoryError(
            "planning in this process takes all rows of the DataFrames, which are more than "
            "spark.driver.maxResultSize allows",
            "raise it where Spark's driver starts, or plan in Spark's workers (planner='workers')",
        )
    return _as_topologies(known)


def collected(read: GivenLines | GivenTables) -> TopologyTexts | TablesOfTopologies | None:
    """Collect topologies that count_frames has read, to plan them in this process.

    None if Spark refuses to collect that many.
    """
    if isinstance(read, GivenTables):
        topologies = _rows_here(read.topologies)
        transformations = _rows_of_files(read.files) or _rows_here(read.transformations)
        known = topologies is not None and transformations is not None
        return TablesOfTopologies(topologies, transformations) if known else None
    texts = _rows_here(read.lines.select(*_TEXTS))
    if texts is None:
        return None
    for frame in read.persisted:
        frame.unpersist()
    return TopologyTexts(texts)


def _rows_here(frame: DataFrame) -> pa.Table | None:
    """Collect rows; None if they are more than spark.driver.maxResultSize allows."""
    try:
        return frame.toArrow()
    except (Py4JError, PySparkException) as error:
        if not exceeds_result_size(error):
            raise
        return None


def _rows_of_files(paths: tuple[str, ...]) -> pa.Table | None:
    if not paths:
        return None
    try:
        return pa.concat_tables(map(parquet.read_table, paths), promote_options="default")
    except (OSError, pa.ArrowException):  # Spark's reader reports what is wrong
        return None


_TEXTS = ("key", "ordinal", "value", "problem")


def _as_collected(frames: SparkFrames, frame: DataFrame) -> DataFrame:
    # As JSON, which Spark's workers read, too: both ways give the same plan.
    return texts_of_rows(frame).select(*_TEXTS) if len(frames.frames) == 1 else frame


def _as_topologies(tables: list[pa.Table]) -> TopologyTexts | TablesOfTopologies:
    if len(tables) == 1:
        return TopologyTexts(tables[0])
    return TablesOfTopologies(*topology_tables_of_frames(*tables))
