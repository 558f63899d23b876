"""Topologies of a Spark session: where they are planned, and in which form; and plans as its DataFrames."""

from typing import Any, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, MapType, StructField, StructType

from penstock.engine.library.given_topologies import (
    OF_TOPOLOGY,
    Objects,
    Paths,
    SparkFrames,
    TablesOfTopologies,
    TopologySource,
    topology_tables_of_frames,
)
from penstock.engine.planning.choose_planner import (
    ON_SPARK,
    ChosenPlanner,
    GivenToSpark,
    Planner,
    planned_here,
)
from penstock.engine.planning.plan_in_workers import RowCounts
from penstock.engine.planning.plan_on_spark import count_topologies, read_topologies, released_on_error
from penstock.engine.planning.planning_settings import interpreted
from penstock.engine.spark.describe_spark_error import exceeds_result_size, penstock_in_workers
from penstock.engine.spark.session import cores_of, is_connect, use_this_python
from penstock.engine.spark.spark_memory_estimate import heap_bytes
from penstock.plans.errors import ConfigurationError, NotEnoughMemoryError
from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.layers import PlanOptions
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.lines_batch import TopologyTexts
from penstock.plans.topology.on_spark.topologies_of_lines import GivenLines, GivenTables, texts_of_rows
from penstock.plans.topology.topologies_of_lines import NAMED_BY_TRANSFORMATIONS


class Placed(NamedTuple):
    """The planner of a session's topologies, and these in the form that it reads."""

    source: Any
    chosen: ChosenPlanner


FEW = "few enough for this process"


def place_topologies(
    spark: SparkSession, source: TopologySource, options: PlanOptions, asked: Planner, on_spark: ChosenPlanner
) -> Placed:
    """Decide where topologies of a session are planned, in this process or `on_spark`.

    Raises ConfigurationError for files that only a classic session reads, and NotEnoughMemoryError if
    `asked` is the planner of this process and Spark refuses to collect DataFrames.
    """
    connect = is_connect(spark)
    if asked in ON_SPARK:
        if connect and isinstance(source, Paths):
            raise ConfigurationError(
                f"planner {asked} reads files by the JVM of a session of classic Spark, got one of Spark "
                "Connect",
                "give DataFrames or dicts, or leave planner out: this process plans",
            )
        return Placed(source, on_spark)
    if asked is Planner.PROCESS:
        return Placed(_here(source), ChosenPlanner(Planner.PROCESS, "as asked"))
    few = few_rows(source) if isinstance(source, SparkFrames) else None
    if few is not None:
        return Placed(few, ChosenPlanner(Planner.COLUMNAR, FEW))
    if connect:
        why = "whether the workers of Spark Connect have Penstock is unknown"
        return Placed(_here(source), ChosenPlanner(Planner.COLUMNAR, why))
    if isinstance(source, Objects | TablesOfTopologies):
        why_here = planned_here(size_here(source), cores_of(spark), None)
        return Placed(source, on_spark if why_here is None else ChosenPlanner(Planner.COLUMNAR, why_here))
    if isinstance(source, SparkFrames):
        return _by_cost(spark, source, options, on_spark)
    return Placed(source, on_spark)


def _here(source: TopologySource) -> Any:
    return read_frames(source) if isinstance(source, SparkFrames) else source


def _by_cost(
    spark: SparkSession, source: SparkFrames, options: PlanOptions, on_spark: ChosenPlanner
) -> Placed:
    """Count the rows of DataFrames, and collect them if planning them here costs less."""
    session = use_this_python(spark)
    with penstock_in_workers():
        given = read_topologies(session, topologies_on_spark(session, source), options)
        assert isinstance(given, GivenLines | GivenTables)
        counted = count_topologies(session, given)
        with released_on_error(given):
            size = size_on_spark(given, counted.counts)
            why = planned_here(size, cores_of(session), heap_bytes(session.sparkContext))
            here = None if why is None else collected(given)
    if why is None or here is None:
        return Placed(counted, on_spark)
    return Placed(here, ChosenPlanner(Planner.COLUMNAR, why))


# Convert a caller's topologies to the form that planners on Spark read.


def topologies_on_spark(spark: SparkSession, source: Any) -> Any:
    """Return topologies as plan_on_spark reads them: tables become DataFrames, other forms stay."""
    if isinstance(source, TablesOfTopologies):
        return tuple(spark.createDataFrame(table) for table in source)
    if not isinstance(source, SparkFrames):
        return source
    frames = source.frames
    if len(frames) == 1:
        return frames[0]
    topologies, rows = frames
    if OF_TOPOLOGY not in rows.columns or TOPOLOGY in rows.columns:
        return topologies, rows
    with_id = rows.withColumn(TOPOLOGY, F.xxhash64(OF_TOPOLOGY)).drop(OF_TOPOLOGY)
    return _with_missing(topologies, rows), with_id


_MOST_NAMED = 10_000
"""Topologies that only transformations name; the others are rejected by their topology_id."""


def _with_missing(topologies: DataFrame, rows: DataFrame) -> DataFrame:
    """Add a row, to be rejected, for each topology that only `rows` name."""
    if "name" not in topologies.columns:
        return topologies
    names = rows.select(F.col(OF_TOPOLOGY).alias("name")).dropna().distinct()
    missing = names.join(topologies.select("name"), "name", "left_anti").limit(_MOST_NAMED).toArrow()
    if not len(missing):
        return topologies
    form = pa.array([NAMED_BY_TRANSFORMATIONS] * len(missing))
    added = topologies.sparkSession.createDataFrame(missing.append_column("form", form))
    return topologies.unionByName(added, allowMissingColumns=True)


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
    """Collect topologies that plan_on_spark.read_topologies returned, to plan them in this process.

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


def size_here(source: Objects | TablesOfTopologies) -> GivenToSpark:
    """Return the size of topologies that this process holds."""
    if isinstance(source, TablesOfTopologies):
        return GivenToSpark(len(source.transformations), len(source.topologies))
    rows = sum(
        len(topology) // 500 if isinstance(topology, bytes) else _rows(topology)
        for topology in source.topologies
    )
    return GivenToSpark(rows, len(source.topologies))


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


def dataframe_of_table(spark: Any, name: str, table: pa.Table) -> Any:
    """Return a table of a plan as a DataFrame of `spark`, with the declared columns, in one partition."""
    schema = spark_schema(name)
    # PySpark casts, and rejects null for a struct whose fields are declared as not null.
    rows = spark.createDataFrame(table, _with_nulls(schema)).coalesce(1)
    return rows.select(*(rows[field.name].alias(field.name, metadata=field.metadata) for field in schema))


def _with_nulls(kind: Any) -> Any:
    """Return the type with nullable values at any depth."""
    if isinstance(kind, StructType):
        return StructType([StructField(field.name, _with_nulls(field.dataType)) for field in kind])
    if isinstance(kind, ArrayType):
        return ArrayType(_with_nulls(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _with_nulls(kind.valueType))
    return kind
