"""Plan fleets on Spark, whose Python workers plan whole topologies by columns."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.engine.output.progress import SILENT, Report
from penstock.engine.planning.find_custom_planners import send_planners
from penstock.engine.planning.plan_by_custom_planners import CustomPlanners
from penstock.engine.planning.plan_result import PlanResult, require_nothing_lost
from penstock.engine.spark.session import cores_of
from penstock.engine.spark.shared_settings import scoped_settings
from penstock.plans.frames.packed_blocks import PackedTables
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.frames.spark_frames import with_null_lists, without_null_lists
from penstock.plans.frames.spark_schemas import conform, free, keep_with_lineage, unless_ended
from penstock.plans.layers import LAYER_TABLES, PlanOptions, layers_until
from penstock.plans.planners.plan_packed_tables import (
    COUNTS,
    PACKED,
    STAGE_SECONDS,
    Counts,
    PlanPart,
    divide,
    packed_parts,
    plan_packed_tables,
    plan_texts,
    planned_by_flinks_rules,
    unpack,
    validate_tables,
    validated_tables,
)
from penstock.plans.tables import TABLES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.on_spark.local_transformations import (
    RowGroups,
    local_transformations,
    read_row_groups,
)
from penstock.plans.topology.on_spark.topologies_of_lines import GivenLines, GivenTables, TopologyTables
from penstock.plans.vocabulary import Kind

if TYPE_CHECKING:
    import polars as pl

    from penstock.plans.execution_graph.job_graph_arrays import TaskRows
    from penstock.plans.planners.plan_in_parts import InParts


# Sizes of the input: rows of all topologies, and of the largest one.


MOST_ROWS_HERE = 20_000_000
"""Above this, Spark counts: each row might be a topology of its own."""

MOST_TOPOLOGIES_HERE = 1_000_000
"""The default parallelism of at most this many topologies is collected in this process."""


class Size(NamedTuple):
    """Of a topology: transformations or given stream nodes, and tasks, if nothing is chained."""

    rows: int
    tasks: int


class RowCounts(NamedTuple):
    """Transformations and given stream nodes of all topologies, and of the largest one; tasks of the one that
    has most, if nothing is chained; and the sizes of `giants`. `topologies`: all their rows, where some are
    giants and counting read them. `inputs`: topologies, where counting found them."""

    rows: int
    largest: int
    most_tasks: int
    giants: dict[int, Size]
    topologies: "pl.DataFrame | None" = None
    inputs: int | None = None


Read = TopologyTables | GivenTables | GivenLines
"""Topologies on Spark, in the forms that reading gives."""


def count_rows(topology_tables: Read, of_giants: Size) -> RowCounts:
    """Counted by a query or two, or in this process where the files are here (see local_transformations).

    A giant has more rows or tasks than `of_giants`, and no `cache`, which blocks do not expand.
    Transformations without a topology_id are none, but count as one topology in `largest`: one worker would
    get them.
    """
    if isinstance(topology_tables, GivenLines):
        return _count_lines(topology_tables, of_giants)
    here = _sizes_here(topology_tables)
    if here is not None and len(here) <= MOST_TOPOLOGIES_HERE:
        has_giants = bool((here["size"] > of_giants.rows).any())
        defaults = topology_tables.topologies.select(
            TOPOLOGY, F.col("parallelism").cast("long").alias("default")
        )
        rows = from_arrow((topology_tables.topologies if has_giants else defaults).toArrow())
        counted = _counted_here(here, rows, of_giants)
        return counted._replace(topologies=rows) if has_giants else counted
    sizes = _sizes(topology_tables)
    sums = sizes.agg(
        F.sum("size").alias("rows"),
        F.max("size").alias("largest"),
        F.max(F.when(F.col(TOPOLOGY).isNotNull(), F.col("tasks"))).alias("most_tasks"),
        F.sum(F.greatest("topologies", F.lit(1))).alias("inputs"),
    )
    row = sums.collect()[0]
    giants = {}
    if (row["largest"] or 0) > of_giants.rows or (row["most_tasks"] or 0) > of_giants.tasks:
        is_large = (F.col("size") > of_giants.rows) | (F.col("tasks") > of_giants.tasks)
        large = sizes.where(F.col(TOPOLOGY).isNotNull() & F.col("in_blocks") & is_large).collect()
        giants = {giant[TOPOLOGY]: Size(giant["size"], giant["tasks"]) for giant in large}
    inputs = (row["inputs"] or 0) if isinstance(topology_tables, GivenTables) else None
    return RowCounts(row["rows"] or 0, row["largest"] or 0, row["most_tasks"] or 0, giants, inputs=inputs)


def _count_lines(given: GivenLines, of_giants: Size) -> RowCounts:
    """The giants' ids are keys of their lines."""
    giants = {}
    if given.largest > of_giants.rows or given.most_tasks > of_giants.tasks:
        is_giant = (F.col("rows") > of_giants.rows) | (F.col("tasks") > of_giants.tasks)
        large = given.lines.where(is_giant).groupBy("key").agg(F.max("rows"), F.max("tasks")).collect()
        giants = {key: Size(rows, tasks) for key, rows, tasks in large}
    return RowCounts(given.rows, given.largest, given.most_tasks, giants, inputs=given.inputs)


def _sizes(topology_tables: TopologyTables | GivenTables) -> DataFrame:
    """Return one row per topology: size (transformations or given stream nodes), tasks if nothing is chained,
    its rows in `topologies`, and in_blocks: no row is a cache. Null is the topology of rows without one.
    """
    rows = topology_tables.transformations.select(TOPOLOGY, "parallelism", "kind")
    if isinstance(topology_tables, TopologyTables):
        nodes = topology_tables.stream_nodes.select(TOPOLOGY, "parallelism")
        rows = rows.unionByName(nodes, allowMissingColumns=True)
    own = F.col("parallelism").cast("long")
    no, nothing = F.lit(0), F.lit(None).cast("long")
    is_cache = F.col("kind").eqNullSafe(F.lit(str(Kind.CACHE))).cast("int")
    of_rows = (own, F.lit(1), own.isNull().cast("int"), is_cache, nothing, no)
    of_topologies = (nothing, no, no, no, own, F.lit(1))
    names = ("tasks", "size", "unset", "caches", "default", "topologies")
    # One shuffle, of one row for each topology and task: Spark sums up before it.
    both = rows.select(TOPOLOGY, *map(Column.alias, of_rows, names)).unionByName(
        topology_tables.topologies.select(TOPOLOGY, *map(Column.alias, of_topologies, names))
    )
    sums = both.groupBy(TOPOLOGY).agg(
        *(F.sum(name).alias(name) for name in ("size", "tasks", "unset", "caches", "topologies")),
        F.max("default").alias("default"),
    )
    tasks = F.coalesce("tasks", F.lit(0)) + F.col("unset") * F.coalesce("default", F.lit(1))
    in_blocks = (F.col("caches") == 0).alias("in_blocks")
    return sums.select(TOPOLOGY, "size", tasks.alias("tasks"), "topologies", in_blocks)


def _sizes_here(topology_tables: TopologyTables | GivenTables) -> "pl.DataFrame | None":
    """Return the rows of _sizes, read by polars; None if the files are not local or not readable so."""
    files = topology_tables.files if isinstance(topology_tables, GivenTables) else ()
    tasks = local_transformations(files)
    if not tasks:
        return None
    try:
        return _sizes_in_files(tasks)
    except Exception:  # Spark's reader reports the cause
        return None


def _sizes_in_files(tasks: Sequence[Sequence[RowGroups]]) -> "pl.DataFrame | None":
    import polars as pl

    files = sorted({group.path for task in tasks for group in task})
    columns = pl.read_parquet_schema(files[0])
    parallelism = pl.col("parallelism") if "parallelism" in columns else pl.lit(None, pl.Int64)
    rows = pl.scan_parquet(files, glob=False)
    if rows.select(pl.len()).collect().item() > MOST_ROWS_HERE:
        return None
    return (
        rows.select(TOPOLOGY, parallelism.cast(pl.Int64).alias("parallelism"), "kind")
        .group_by(TOPOLOGY)
        .agg(
            pl.len().cast(pl.Int64).alias("size"),
            pl.col("parallelism").sum().alias("tasks"),
            pl.col("parallelism").null_count().cast(pl.Int64).alias("unset"),
            (pl.col("kind") != Kind.CACHE).all().alias("in_blocks"),
        )
        .collect(engine="streaming")
    )


def _counted_here(sizes: "pl.DataFrame", topologies: "pl.DataFrame", of_giants: Size) -> RowCounts:
    import polars as pl

    with_topology = pl.col(TOPOLOGY).is_not_null()
    tasks = pl.col("tasks") + pl.col("unset") * pl.col("default").fill_null(1)
    default = pl.col("parallelism" if "parallelism" in topologies.columns else "default").cast(pl.Int64)
    of_topologies = topologies.group_by(TOPOLOGY).agg(default.max().alias("default"))
    counted = sizes.join(of_topologies, on=TOPOLOGY, how="left").with_columns(tasks.alias("tasks"))
    sums = counted.select(
        pl.col("size").sum().alias("rows"),
        pl.col("size").max().alias("largest"),
        pl.col("tasks").filter(with_topology).max().alias("most_tasks"),
    )
    is_large = (pl.col("size") > of_giants.rows) | (pl.col("tasks") > of_giants.tasks)
    large = counted.filter(with_topology & pl.col("in_blocks") & is_large).select(TOPOLOGY, "size", "tasks")
    giants = {topology: Size(size, tasks) for topology, size, tasks in large.rows()}
    rows, largest, most_tasks = (count or 0 for count in sums.row(0))
    return RowCounts(rows, largest, most_tasks, giants)


PARTITION = "partition_topologies"

_DIVIDED = ("topologies", "transformations", "job_settings", "stream_nodes", "stream_edges")

_TEXTS_TO_WORKERS = {"spark.sql.execution.arrow.maxRecordsPerBatch": "4096"}

_ROWS_TO_WORKERS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2048",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}
"""With a limit of bytes, Spark sums the bytes of a batch again for each row, which takes longer than adding
it. So few rows, unlike texts of whole topologies, stay far below Arrow's limit of 2 GiB."""


def plan_in_workers(
    read: Read,
    options: PlanOptions,
    partitions: int,
    report: Report = SILENT,
    custom_planners: CustomPlanners | None = None,
    inputs: int | None = None,
) -> PlanResult:
    """Plan whole topologies, with the same rows as in one process, by a call for each of `partitions`.

    The same call parses lines, or validates given tables. Every topology must fit in a worker. Tables travel
    in blocks (PACKED); the plan's tables stay packed until they are read. `custom_planners` decide in place
    of Flink's rules, one partition at a time; files of costs must be accessible where the workers run.
    `inputs`: the number of topologies in given tables, counted here otherwise.
    """
    report("plan whole topologies")
    started = time.monotonic()
    if custom_planners is None:
        plan_part = planned_by_flinks_rules(options, memory_check_in_worker())
    else:
        send_planners(_some_rows(read).sparkSession, custom_planners.chosen)
        plan_part = planned_in_worker(custom_planners, options)
    planned, stages, counts = call_in_workers(read, partitions, plan_part)
    wall = time.monotonic() - started
    tables = {
        table: _unpacked(planned, table)
        for layer in layers_until(options.until)
        for table in LAYER_TABLES[layer]
    }
    tables["rejected"] = _unpacked(planned, "rejected")
    cores = cores_of(planned.sparkSession)
    seconds = _seconds(stages, wall, min(partitions, cores))
    packed = PackedTables(planned, frozenset(tables), packed_parts)
    rejected = counts.rejected
    if isinstance(read, TopologyTables):
        rejected += read.refused
        tables["rejected"] = read.rejected.unionByName(tables["rejected"])
        packed = packed._replace(tables=packed.tables - {"rejected"})
    if inputs is None:
        inputs = count_inputs(read, counts)
    require_nothing_lost(inputs, counts.planned, rejected, counts.ids)
    storage: tuple[Callable[[], None], ...] = (partial(free, planned),)
    if isinstance(read, TopologyTables):
        storage += storage_of(read)
    elif isinstance(read, GivenLines):
        for frame in read.persisted:
            frame.unpersist()
    return PlanResult(tables, inputs, counts.planned, rejected, seconds, packed=(packed,), storage=storage)


def storage_of(read: Read) -> tuple[Callable[[], None], ...]:
    """Return functions that release each frame which reading has persisted, if its session still runs."""

    def release(frame: DataFrame) -> None:
        with unless_ended(frame.sparkSession):
            frame.unpersist()

    persisted = () if isinstance(read, GivenTables) else read.persisted
    return tuple(partial(release, frame) for frame in persisted)


def call_in_workers(read: Read, partitions: int, plan_part: PlanPart) -> tuple[DataFrame, pa.Table, Counts]:
    """Apply `plan_part` to topologies divided into `partitions`.

    Returns its PACKED rows, computed and kept; the rows of STAGE_SECONDS; and COUNTS of all parts together.
    """
    spark = _some_rows(read).sparkSession
    settings = _ROWS_TO_WORKERS
    if isinstance(read, GivenLines):
        settings = _TEXTS_TO_WORKERS
        texts = read.lines.select("key", "ordinal", "value", "problem")
        blocks = texts.coalesce(1) if partitions == 1 else texts.repartition(partitions, "key")
        run = plan_texts(read.job_defaults, plan_part)
    else:
        blocks = _blocks(read, partitions)
        tables = validate_tables if isinstance(read, GivenTables) else validated_tables
        run = plan_packed_tables(tables, plan_part)
    with scoped_settings(spark, settings):
        planned = blocks.mapInArrow(run, PACKED)
        kept = keep_with_lineage(planned)
        return kept, *_counted(kept)


def count_inputs(read: Read, counts: Counts) -> int:
    """Count the topologies of the input; `counts`: see call_in_workers."""
    return read.topologies.count() + counts.orphans if isinstance(read, GivenTables) else read.inputs


def _some_rows(read: Read) -> DataFrame:
    return read.lines if isinstance(read, GivenLines) else read.topologies


def _blocks(topology_tables: TopologyTables | GivenTables, partitions: int) -> DataFrame:
    """Return PACKED rows of all tables, those of a topology in one of `partitions`."""
    divided = {name: rows for name, rows in topology_tables._asdict().items() if name in _DIVIDED}
    files = topology_tables.files if isinstance(topology_tables, GivenTables) else ()
    tasks = local_transformations(files)
    packed = [
        _packed_files(rows.sparkSession, tasks, partitions)
        if name == "transformations" and tasks
        else _packed(rows, name, partitions)
        for name, rows in divided.items()
    ]
    joined = packed[0]
    for table_rows in packed[1:]:
        joined = joined.unionByName(table_rows)
    return joined.coalesce(1) if partitions == 1 else joined.repartitionById(partitions, F.col("part"))


def _counted(planned: DataFrame) -> tuple[pa.Table, Counts]:
    """Compute PACKED rows; return the rows of STAGE_SECONDS, and COUNTS of all parts."""
    wanted = planned.where(F.col("table").isin(STAGE_SECONDS, COUNTS)).select("table", "block")
    tables: dict[str, list[pa.Table]] = {STAGE_SECONDS: [], COUNTS: []}
    for row in wanted.collect():
        tables[row["table"]].append(pa.ipc.open_stream(row["block"]).read_all())
    if not tables[COUNTS]:
        return pa.table({"stage": pa.array([], pa.string()), "seconds": pa.array([], pa.float64())}), Counts()
    counts = pa.concat_tables(tables[COUNTS])
    return pa.concat_tables(tables[STAGE_SECONDS]), Counts(
        *(pc.sum(counts[name]).as_py() for name in Counts._fields)
    )


def memory_check_in_worker() -> "Callable[[TaskRows], None]":
    """Return a function that raises NotEnoughMemoryError before tasks take more than a worker has.

    It is pickled by value, and imports nothing before it is called: workers set the number of polars' threads
    first.
    """

    def require_memory(rows: "TaskRows") -> None:
        from penstock.engine.planning.memory_estimate import require_memory_for_tasks

        require_memory_for_tasks()(rows)

    return require_memory


def planned_in_worker(custom_planners: CustomPlanners, options: PlanOptions) -> PlanPart:
    """Return a function that calls plan_by_custom_planners in a worker, which imports it on first use."""

    def plan(frames: "dict[str, pl.DataFrame]") -> "InParts":
        from penstock.engine.planning.plan_by_custom_planners import plan_by_custom_planners
        from penstock.plans.planners.plan_in_parts import InParts
        from penstock.plans.topology.topologies_of_lines import TopologyTables

        settings = custom_planners.question(frames["topologies"], part=True)
        read = TopologyTables.of(frames)
        planned = plan_by_custom_planners(read, custom_planners.chosen, options, settings)
        return InParts(planned.tables, planned.seconds)

    return plan


def _packed(rows: DataFrame, table: str, partitions: int) -> DataFrame:
    schema, divided = TABLES[table], divide(table, partitions)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return divided(with_null_lists(batch, schema) for batch in batches)

    return without_null_lists(rows, schema).mapInArrow(run, PACKED)


def _packed_files(spark: SparkSession, tasks: Sequence[Sequence[RowGroups]], partitions: int) -> DataFrame:
    """Return the rows of _packed for transformations that workers read from files."""
    read, divided = read_row_groups(tasks), divide("transformations", partitions)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return divided(read(batches))

    return spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(run, PACKED)


def _unpacked(planned: DataFrame, table: str) -> DataFrame:
    schema = from_arrow_schema(TABLES[table])
    return conform(planned.where(F.col("table") == table).mapInArrow(unpack, schema), table)


def _seconds(stages: pa.Table, wall: float, parallel_calls: int) -> dict[str, float]:
    """Return each stage's share of the elapsed time with all cores at work; the rest is PARTITION."""
    summed = stages.group_by("stage", use_threads=False).aggregate([("seconds", "sum")]).to_pylist()
    shares = {row["stage"]: row["seconds_sum"] / parallel_calls for row in summed}
    return {PARTITION: max(0.0, wall - sum(shares.values())), **shares}
