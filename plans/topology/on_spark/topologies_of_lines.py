"""The topology tables out of one parse of lines, each name once, every line with its number in its file."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    ByteType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

from penstock.plans.errors import EACH_NAME_ONCE, INPUT_STAGE, RENAME_ONE, ErrorKind
from penstock.plans.frames.spark_frames import limited_column
from penstock.plans.frames.spark_schemas import conform
from penstock.plans.printable import MOST_OF_A_NAME
from penstock.plans.tables import JOB_SETTINGS, TOPOLOGIES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.lines_batch import encode
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.topology.parse_lines import PARSED, parse_lines
from penstock.plans.topology.topologies_of_lines import MOST_OBJECTS, topology_id
from penstock.plans.topology.validate_topology import LINE, parse_topology
from penstock.plans.vocabulary import TopologyForm

# Rows of the `rejected` table out of topologies and their errors.


def _labelled(label: str, value: Column) -> Column:
    return F.when(value != "", F.concat(F.lit(label), value))


def error_message(error: Column) -> Column:
    """TopologyError.message as an expression over the error's struct."""
    problem = F.concat(error["location"], F.lit(": found "), error["found"])
    return F.concat_ws(
        "; ", problem, _labelled("allowed: ", error["allowed"]), _labelled("hint: ", error["hint"])
    )


def _located(error: Column) -> Column:
    """An error of a whole line says which line of which file it is."""
    line = F.concat(F.lit("line "), F.col("source_line").cast("string"), F.lit(" of "), F.col("source_file"))
    location = F.when(error["location"] == LINE, F.coalesce(line, F.lit("object"))).otherwise(
        error["location"]
    )
    names = ("error", "location", "found", "allowed", "hint")
    return F.struct(*(location.alias(n) if n == "location" else error[n].alias(n) for n in names))


def rejected_rows(refused: DataFrame) -> DataFrame:
    """REJECTED out of name, source_file, source_line, error_stage, errors (not empty, in order of finding).

    At stage input the message joins all errors by newlines; at others Flink's message is the first error's
    `found`, word for word.
    """
    located = refused.select(
        "name",
        "source_file",
        F.col("source_line").cast("long").alias("source_line"),
        "error_stage",
        F.transform("errors", _located).alias("errors"),
    )
    first = F.col("errors")[0]
    ours = F.array_join(F.transform("errors", error_message), "\n")
    return conform(
        located.select(
            F.when(F.col("name").isNotNull(), F.xxhash64("name")).alias("topology_id"),
            "name",
            "source_file",
            "source_line",
            "error_stage",
            first["error"].alias("error"),
            F.when(F.col("error_stage") == INPUT_STAGE, ours).otherwise(first["found"]).alias("message"),
            "errors",
        ),
        "rejected",
    )


# The tables of the topology layer, whichever way topologies came in.


class TopologyTables(NamedTuple):
    """DataFrames with the schemas of the same names in `plans.tables`, none of them computed yet.

    inputs = topologies + rejected: `inputs` counts what was read (lines that are not blank, objects, rows
    of `topologies`, and topologies that only `transformations` names). `stream_nodes` and `stream_edges`
    hold the topologies of form stream_graph, `transformations` the others. `persisted` is what reading
    keeps in Spark's storage so that no input is read twice: unpersist each when the tables are no longer
    needed. `refused` counts the rows of `rejected`.
    """

    topologies: DataFrame
    transformations: DataFrame
    stream_nodes: DataFrame
    stream_edges: DataFrame
    job_settings: DataFrame
    rejected: DataFrame
    inputs: int
    persisted: tuple[DataFrame, ...]
    refused: int


class GivenTables(NamedTuple):
    """DataFrames with the schemas of the same names in `plans.tables`, defaults filled in.

    Not validated yet; a function that takes them validates both tables. `files`: Parquet files of this
    machine whose rows are just those of `transformations`; none if Spark has to read them.
    """

    topologies: DataFrame
    transformations: DataFrame
    files: tuple[str, ...] = ()


class GivenLines(NamedTuple):
    """Topologies as JSON, not parsed yet: TopologyTexts, with columns `rows` and `tasks` (see Size).

    `inputs`: how many; `rows` and `size_bytes` of all; `largest` and `most_tasks`: of a topology at most.
    `job_defaults` apply when they are parsed. `persisted`: as in TopologyTables.
    """

    lines: DataFrame
    inputs: int
    rows: int
    largest: int
    most_tasks: int
    size_bytes: int
    job_defaults: JobDefaults
    persisted: tuple[DataFrame, ...] = ()


_LINE_KEY = ("source_file", "block_start", "ordinal")


def parsed_lines(
    lines: DataFrame,
    max_line_bytes: int | None = None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    cut_bytes: int | None = None,
) -> DataFrame:
    """LINES parsed, as PARSED. A line longer than `max_line_bytes` is rejected. See parse_lines."""
    parse = partial(
        parse_lines, max_line_bytes=max_line_bytes, job_defaults=job_defaults, cut_bytes=cut_bytes
    )
    return lines.mapInArrow(parse, from_arrow_schema(PARSED))


def topologies_of_lines(
    parsed: DataFrame,
    run: Callable[[Callable[[], None]], None],
    read_documents: Callable[[Sequence[str]], DataFrame] | None = None,
) -> TopologyTables:
    """Parse once, keep the outcome (PARSED) in Spark's storage, and derive every table from it.

    Runs one Spark job through `run`, which turns what it raises into an error of the run. If that finds files
    that are documents, `read_documents` gives the outcome with their elements, and a second job runs. A name
    that several lines have belongs to the first by file and line; the others are rejected as
    DuplicateTopologyName, and a different name with the same xxhash64 as TopologyIdCollision.
    """
    parsed = parsed.persist(StorageLevel.MEMORY_AND_DISK)
    topology_id = F.xxhash64("name")
    valid = F.col("form").isNotNull()
    totals = parsed.agg(
        F.count(F.when(valid, 1)).alias("topologies"),
        F.count("error_stage").alias("rejected"),
        F.count_distinct(F.when(valid, topology_id)).alias("ids"),
        F.max("block_start").alias("last_block"),
        F.collect_set(F.when(F.col("is_document"), F.col("source_file"))).alias("documents"),
    )
    collected = []
    try:
        run(lambda: collected.extend(totals.collect()))
    except Exception:
        parsed.unpersist()
        raise
    total = collected[0]
    if total["documents"] and read_documents is not None:
        parsed.unpersist()
        return topologies_of_lines(read_documents(total["documents"]), run)
    numbered = _with_line_numbers(parsed, bool(total["last_block"]))
    topologies = numbered.where(valid).withColumn("topology_id", topology_id)
    refused = numbered.where("error_stage IS NOT NULL").select(
        "name", "source_file", "source_line", "error_stage", "errors"
    )
    kept_rows = parsed.withColumn("topology_id", topology_id)
    if total["ids"] < total["topologies"]:
        ranked = _ranked(topologies)
        topologies = ranked.where("place = 1")
        later = ranked.where("place > 1")
        kept_rows = _without(kept_rows, later)
        refused = refused.unionByName(later.select(*refused.columns[:3], *_duplicate_error()))
    return TopologyTables(
        topologies=conform(topologies.select(*TOPOLOGIES.names), "topologies"),
        transformations=_exploded(kept_rows, "transformations"),
        stream_nodes=_exploded(kept_rows, "stream_nodes"),
        stream_edges=_exploded(kept_rows, "stream_edges"),
        job_settings=conform(
            topologies.select("topology_id", *(f"settings.{n}" for n in JOB_SETTINGS.names[1:])),
            "job_settings",
        ),
        rejected=rejected_rows(refused),
        inputs=total["topologies"] + total["rejected"],
        persisted=(parsed,),
        refused=total["topologies"] + total["rejected"] - total["ids"],
    )


def _with_line_numbers(parsed: DataFrame, several_blocks: bool) -> DataFrame:
    """Rows of lines with source_line: their place in the block, after the lines of earlier blocks."""
    rows = parsed.where("form IS NOT NULL OR error_stage IS NOT NULL")
    of_element = F.col("line") + 1
    line = F.when(F.col("source_file").isNotNull(), F.coalesce(of_element, F.col("ordinal") + 1))
    if not several_blocks:
        return rows.withColumn("source_line", line)
    earlier = (
        Window.partitionBy("source_file").orderBy("block_start").rowsBetween(Window.unboundedPreceding, -1)
    )
    before = parsed.where("block_lines IS NOT NULL").select(
        "source_file",
        "block_start",
        F.coalesce(F.sum("block_lines").over(earlier), F.lit(0)).alias("lines_before"),
    )
    joined = rows.join(before, ["source_file", "block_start"])
    return joined.withColumn("source_line", line + F.col("lines_before")).drop("lines_before")


def _ranked(topologies: DataFrame) -> DataFrame:
    """Topologies with their place among those of their id, and the name that the first of them has."""
    order = Window.partitionBy("topology_id").orderBy(
        "source_file", F.coalesce("source_line", "ordinal"), "ordinal"
    )
    return topologies.withColumns(
        {
            "place": F.row_number().over(order),
            "first_name": F.first("name").over(order),
            "first_file": F.first("source_file").over(order),
            "first_line": F.first(F.coalesce("source_line", F.col("ordinal") + 1)).over(order),
        }
    )


def _duplicate_error() -> tuple[Column, Column]:
    """error_stage and errors of a topology whose name or id another one before it has."""
    is_row = F.col("first_file").isNull() & (F.col("first_line") > MOST_OBJECTS)
    at = F.when(is_row, F.lit("another row")).otherwise(
        F.concat(
            F.when(F.col("first_file").isNull(), "object ").otherwise("line "),
            F.col("first_line").cast("string"),
            F.coalesce(F.concat(F.lit(" of "), F.col("first_file")), F.lit("")),
        )
    )
    same = F.col("name") == F.col("first_name")
    name, first_name = (limited_column(F.col(n), MOST_OF_A_NAME) for n in ("name", "first_name"))
    error = F.struct(
        F.when(same, F.lit(str(ErrorKind.DUPLICATE_TOPOLOGY_NAME)))
        .otherwise(F.lit(str(ErrorKind.TOPOLOGY_ID_COLLISION)))
        .alias("error"),
        F.lit("topology").alias("location"),
        F.coalesce(
            F.when(same, F.concat(F.lit("name "), name, F.lit(", which "), at, F.lit(" has"))),
            F.concat(F.lit("a name with the xxhash64 of "), first_name, F.lit(" at "), at),
            F.lit(""),
        ).alias("found"),
        F.lit(EACH_NAME_ONCE).alias("allowed"),
        F.lit(RENAME_ONE).alias("hint"),
    )
    return F.lit(INPUT_STAGE).alias("error_stage"), F.array(error).alias("errors")


def _without(rows: DataFrame, later: DataFrame) -> DataFrame:
    """Rows but those of the lines in `later`."""
    left, right = rows.alias("rows"), later.select(*_LINE_KEY).alias("later")
    same = [F.col(f"rows.{key}").eqNullSafe(F.col(f"later.{key}")) for key in _LINE_KEY]
    return left.join(right, same, "left_anti")


def _exploded(rows: DataFrame, table: str) -> DataFrame:
    """One row for each element of the arrays in column `table`."""
    filled = rows.where(F.size(table) > 0).select("topology_id", F.inline(table))
    return conform(filled, table)


# DataFrames with a topology in each row as the tables of the topology layer.


_HASH_BITS = 0x7FFFFFFFFFF00000
"""Of a text's hash; the other bits number rows whose hash is the same."""
_BYTES_OF_A_ROW = 150
"""About the size of an operator in JSON."""


def texts_of_rows(rows: DataFrame, job_defaults: JobDefaults = NO_DEFAULTS) -> DataFrame:
    """Return TopologyTexts, with columns `rows` and `tasks` (see Size), of topologies whose keys are columns.

    Null is a key that is not set. Rows have no order of their own: of those with one name, the hash of their
    text decides which is planned.
    """
    size, tasks = _size_and_tasks(rows.schema, job_defaults)
    value = F.to_json(F.struct(*map(_without_nan, rows.schema))).cast("binary")
    has_names = isinstance(rows.schema["name"].dataType, StringType)
    key = F.xxhash64("name") if has_names else F.lit(0).cast("long")
    texts = rows.select(key.alias("key"), value.alias("value"), size, tasks)
    return texts.select(
        "key",
        F.xxhash64("value").bitwiseAND(_HASH_BITS).alias("ordinal"),
        "value",
        F.lit(None).cast("string").alias("problem"),
        F.coalesce("rows", F.octet_length("value") / _BYTES_OF_A_ROW).cast("long").alias("rows"),
        F.coalesce("tasks", "rows", F.lit(0)).cast("long").alias("tasks"),
    )


def _without_nan(column: StructField) -> Column:
    """NaN stands for null in columns that come from pandas."""
    value = F.col("`" + column.name.replace("`", "``") + "`")
    if isinstance(column.dataType, FloatType | DoubleType):
        value = F.when(~F.isnan(value), value)
    return value.alias(column.name)


def _size_and_tasks(columns: StructType, job_defaults: JobDefaults) -> tuple[Column, Column]:
    """Return `rows` and `tasks` of each topology; null if a column has another type than such rows have."""
    unknown = F.lit(None).cast("long")
    name = str(TopologyForm.TRANSFORMATIONS)
    kind = columns[name].dataType if name in columns.names else None
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return unknown.alias("rows"), unknown.alias("tasks")
    asked = job_defaults.asked_parallelism
    unset = F.lit(job_defaults.parallelism if asked is None else asked)
    of_topology = columns["parallelism"].dataType if "parallelism" in columns.names else None
    if asked is None and isinstance(of_topology, _INTEGERS):
        unset = _whole_column(F.col("parallelism"), unset)
    tasks = F.size(name) * unset.cast("long")
    if "parallelism" in kind.elementType.names:
        of_row = kind.elementType["parallelism"].dataType
        if isinstance(of_row, _INTEGERS):
            tasks = F.aggregate(
                name,
                F.lit(0).cast("long"),
                lambda before, row: before + _whole_column(row["parallelism"], unset).cast("long"),
            )
    return F.size(name).alias("rows"), tasks.alias("tasks")


def _whole_column(value: Column, default: Column) -> Column:
    return F.when(value.between(1, MAX_PARALLELISM), value).otherwise(default)


_INTEGERS = (ByteType, ShortType, IntegerType, LongType)


def given_lines(texts: DataFrame, job_defaults: JobDefaults) -> GivenLines:
    """Keep `texts` in Spark's storage, which computes them once, and count them."""
    texts = texts.persist(StorageLevel.MEMORY_AND_DISK)
    sizes = F.sum("rows"), F.max("rows"), F.max("tasks"), F.sum(F.octet_length("value"))
    counts = texts.agg(F.count(F.lit(1)), *(F.coalesce(size, F.lit(0)) for size in sizes))
    try:
        inputs, all_rows, largest, most_tasks, size_bytes = counts.collect()[0]
        return GivenLines(texts, inputs, all_rows, largest, most_tasks, size_bytes, job_defaults, (texts,))
    except BaseException:
        texts.unpersist()
        raise


def given_objects(
    spark: SparkSession, topologies: Iterable[Mapping[str, Any] | str | bytes], job_defaults: JobDefaults
) -> GivenLines:
    """Dicts as docs/topology-files.md describes them, or JSON strings of them.

    An object that JSON cannot say is rejected as NotJson.
    """
    topologies = list(topologies)
    encoded = [encode(topology) for topology in topologies]
    sizes = [
        _key_and_size(topology if isinstance(topology, Mapping) else parse_topology(text), job_defaults)
        for topology, (text, _) in zip(topologies, encoded, strict=True)
    ]
    keys, rows, tasks = zip(*sizes, strict=True) if sizes else ((), (), ())
    texts, problems = zip(*encoded, strict=True) if encoded else ((), ())
    columns = {"key": keys, "ordinal": range(len(sizes)), "rows": rows, "tasks": tasks}
    table = pa.table({name: pa.array(numbers, pa.int64()) for name, numbers in columns.items()})
    table = table.append_column("value", pa.array(texts, pa.binary()))
    table = table.append_column("problem", pa.array(problems, pa.string()))
    largest = max(rows, default=0), max(tasks, default=0)
    lines = spark.createDataFrame(table)
    return GivenLines(lines, len(sizes), sum(rows), *largest, sum(map(len, texts)), job_defaults)


def _key_and_size(topology: Any, job_defaults: JobDefaults) -> tuple[int, int, int]:
    """Return a topology's key, rows and tasks (see Size); zeros for what is not valid."""
    if not isinstance(topology, Mapping):
        return 0, 0, 0
    name, topology = topology.get("name"), job_defaults.under(dict(topology))
    rows = topology.get(TopologyForm.TRANSFORMATIONS)
    graph = topology.get(TopologyForm.STREAM_GRAPH)
    if rows is None and isinstance(graph, Mapping):
        rows = graph.get("nodes")
    rows = [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list | tuple) else []
    default = _whole(topology.get("parallelism"), 1)
    tasks = sum(_whole(row.get("parallelism"), default) for row in rows)
    return topology_id(name) if type(name) is str else 0, len(rows), tasks


def _whole(value: Any, default: int) -> int:
    return value if type(value) is int and 0 < value <= MAX_PARALLELISM else default


def parsed_given_lines(given: GivenLines) -> TopologyTables:
    """Parse topologies by Spark, such as giants, which `plan_in_workers` does not."""
    equals = Window.partitionBy("key", "ordinal").orderBy("value")
    lines = given.lines.select(
        "value",
        F.lit(None).cast("string").alias("source_file"),
        F.lit(0).cast("long").alias("block_start"),
        (F.col("ordinal") + F.row_number().over(equals) - 1).alias("ordinal"),
        "problem",
        F.lit(None).cast("long").alias("line"),
        F.lit(None).cast("long").alias("too_long_bytes"),
    )
    return topologies_of_lines(parsed_lines(lines, job_defaults=given.job_defaults), _run)


def _run(job: Callable[[], None]) -> None:
    job()
