"""Given tables of topologies and transformations as the topology layer."""

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.plans.error_kinds import INPUT_STAGE, ErrorKind
from penstock.plans.frames.spark_frames import limited_column, no_rows
from penstock.plans.frames.spark_schemas import conform, spark_schema
from penstock.plans.printable import MOST_OF_A_NAME
from penstock.plans.tables import JOB_SETTINGS, TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.topology import flink_options
from penstock.plans.topology.fingerprint import BLOCK
from penstock.plans.topology.joins.fingerprint import canonical_header, canonical_row
from penstock.plans.topology.joins.normalized_tables import normalized_tables
from penstock.plans.topology.joins.reads_unbounded_source import reads_unbounded_source
from penstock.plans.topology.joins.rejected_rows import rejected_rows
from penstock.plans.topology.joins.suspicious_transformation import suspicious_transformation
from penstock.plans.topology.joins.topologies_of_lines import text_of_topology, text_of_transformation
from penstock.plans.topology.joins.topology_tables import TopologyTables
from penstock.plans.topology.joins.wrong_rows_of_large import (
    SETTLED,
    settings_of_topologies,
    wrong_rows_of_large,
)
from penstock.plans.topology.operator_rules import MAX_PARALLELISM
from penstock.plans.topology.parse_lines import parse_lines
from penstock.plans.topology.parsed_batches import PARSED
from penstock.plans.topology.read_topology_tables import ALLOWED_AND_HINT
from penstock.plans.topology.validate_wrong_rows import LARGE
from penstock.plans.vocabulary import Kind, TopologyForm


def read_topology_tables(
    spark: SparkSession, topologies: DataFrame, transformations: DataFrame
) -> TopologyTables:
    """Validated tables out of `topologies` and `transformations`, without going through JSON.

    Both have columns of the tables of these names in `plans.tables`; required are name, and topology_id
    (xxhash64 of the name), id, kind, inputs. Others may be left out and get their defaults. Rows are looked
    at by expressions and one aggregation, which runs here; what looks wrong is explained by
    `validate_topology`, so that errors are those of files. A name on several rows is rejected on all of
    them (DuplicateTopologyName), transformations of no topology as NoTopology. Raises SchemaError for a
    column of another name or type.
    """
    topology_rows, rows, _ = normalized_tables(topologies, transformations)
    summary = _summary(topology_rows, rows).persist(StorageLevel.MEMORY_AND_DISK)
    total = summary.agg(
        F.count(F.lit(1)).alias("inputs"),
        F.count_if(F.expr(_SUSPICIOUS)).alias("suspicious"),
        F.count_if(F.expr(f"{_SUSPICIOUS} AND {_LARGE}")).alias("large"),
        F.count_if(F.expr(f"{_SOUND} AND {_DEPENDS_ON_SOURCES}")).alias("depending_on_sources"),
    ).collect()[0]
    settled = _settled(summary, rows, bool(total["depending_on_sources"]))
    kept_for_settled: list[DataFrame] = []
    if total["suspicious"]:
        explained, kept_for_settled = _explained(summary, rows, bool(total["large"]))
        settled = settled.unionByName(explained)
    settled = settled.persist(StorageLevel.MEMORY_AND_DISK)
    refused = settled.where("errors IS NOT NULL")
    kept = rows
    if refused.count():
        kept = _without(rows, refused)
    outcome = _with_outcome(summary, settled)
    valid = outcome.where("errors IS NULL")
    return TopologyTables(
        topologies=conform(valid.select(*TOPOLOGIES.names), "topologies"),
        transformations=conform(kept.select(*TRANSFORMATIONS.names), "transformations"),
        stream_nodes=no_rows(spark, spark_schema("stream_nodes")),
        stream_edges=no_rows(spark, spark_schema("stream_edges")),
        job_settings=conform(
            valid.select("topology_id", *(f"settings.{n}" for n in JOB_SETTINGS.names[1:])), "job_settings"
        ),
        rejected=rejected_rows(outcome.where("errors IS NOT NULL")),
        inputs=total["inputs"],
        persisted=(summary, *kept_for_settled, settled),
    )


def _without(rows: DataFrame, refused: DataFrame) -> DataFrame:
    same = F.col("rows.topology_id").eqNullSafe(F.col("refused.topology_id"))
    return rows.alias("rows").join(refused.alias("refused"), same, "left_anti")


def _with_outcome(summary: DataFrame, settled: DataFrame) -> DataFrame:
    same = F.col("summary.topology_id").eqNullSafe(F.col("settled.topology_id"))
    joined = summary.alias("summary").join(settled.alias("settled"), same)
    return joined.select("summary.*", *(f"settled.{n}" for n in SETTLED.names if n != "topology_id"))


_SOUND = "row_error IS NULL AND NOT suspicious"
_SUSPICIOUS = "row_error IS NULL AND suspicious"
_LARGE = f"size >= {LARGE}"
_DEPENDS_ON_SOURCES = (
    f"has_legacy_source AND upper(config['{flink_options.RUNTIME_MODE.key}']) IN ('BATCH', 'AUTOMATIC')"
)


def _summary(topology_rows: DataFrame, rows: DataFrame) -> DataFrame:
    """TOPOLOGIES with fingerprint, and columns for the validation of each topology.

    One row per row of `topology_rows` and per topology that only `rows` have. More columns: row_error (the
    error of the topology's own row, or null), suspicious (its values or transformations may be wrong), size
    (number of transformations) and has_legacy_source.
    """
    same_id = Window.partitionBy("topology_id")
    topologies = topology_rows.select(
        *(F.col(n) for n in TOPOLOGIES.names if n != "fingerprint"),
        F.count(F.lit(1)).over(same_id).alias("with_this_id"),
        (F.min("name").over(same_id) == F.max("name").over(same_id)).alias("one_name"),
    )
    joined = topologies.join(_transformation_summary(rows), "topology_id", "full")
    suspicious = ~F.coalesce(
        F.col("rows_hold")
        & (F.length("name") > 0)
        & (F.col("form") == str(TopologyForm.TRANSFORMATIONS))
        & (F.col("parallelism") >= 1)
        & (F.col("max_parallelism").isNull() | F.col("max_parallelism").between(1, MAX_PARALLELISM))
        & F.forall(F.map_values("config"), lambda v: v.isNotNull())
        & (F.size(F.array_distinct(F.map_keys("config"))) == F.size("config")),
        F.lit(False),
    )
    text = F.concat(canonical_header(), F.lit("\n"), F.col("block_digests"))
    return joined.select(
        *(F.sha2(text, 256).alias(n) if n == "fingerprint" else F.col(n) for n in TOPOLOGIES.names),
        _row_error().alias("row_error"),
        suspicious.alias("suspicious"),
        F.coalesce("size", F.lit(0)).alias("size"),
        F.coalesce("has_legacy_source", F.lit(False)).alias("has_legacy_source"),
    )


def _row_error() -> Column:
    """The error of the row itself: NoTopology, TopologyIdMismatch, DuplicateTopologyName,
    TopologyIdCollision, or UnknownValue of a form that tables do not have; else null.
    """
    hash_text = F.xxhash64("name").cast("string")
    id_text = F.coalesce(F.col("topology_id").cast("string"), F.lit("null"))
    name = limited_column(F.col("name"), MOST_OF_A_NAME)
    count = F.col("with_this_id").cast("string")
    return (
        F.when(
            F.col("with_this_id").isNull(),
            _error(ErrorKind.NO_TOPOLOGY, F.concat(F.lit("transformations of topology_id "), id_text)),
        )
        .when(
            F.col("topology_id").isNull() | (F.col("name").isNotNull() & (id_text != hash_text)),
            _error(ErrorKind.TOPOLOGY_ID_MISMATCH, F.concat(F.lit("topology_id "), id_text)),
        )
        .when(
            (F.col("with_this_id") > 1) & F.col("one_name"),
            _error(
                ErrorKind.DUPLICATE_TOPOLOGY_NAME,
                F.concat(F.lit("name "), name, F.lit(" on "), count, F.lit(" rows")),
            ),
        )
        .when(
            F.col("with_this_id") > 1,
            _error(
                ErrorKind.TOPOLOGY_ID_COLLISION,
                F.concat(F.lit("topology_id "), id_text, F.lit(" of several names")),
            ),
        )
        .when(
            F.col("form") != str(TopologyForm.TRANSFORMATIONS),
            _error(
                ErrorKind.UNKNOWN_VALUE,
                F.concat(F.lit("form "), limited_column(F.col("form"), MOST_OF_A_NAME)),
            ),
        )
    )


def _error(kind: ErrorKind, found: Column) -> Column:
    allowed, hint = ALLOWED_AND_HINT[kind]
    return F.struct(
        F.lit(str(kind)).alias("error"),
        F.lit("topology").alias("location"),
        F.coalesce(found, F.lit("")).alias("found"),
        F.lit(allowed).alias("allowed"),
        F.lit(hint).alias("hint"),
    )


def _transformation_summary(rows: DataFrame) -> DataFrame:
    """topology_id, rows_hold (ids are 1..n and no row is suspicious), size (the number of rows),

    has_legacy_source, and block_digests (see `fingerprint`).
    """
    block = F.floor((F.col("id").cast("long") - 1) / BLOCK).cast("long")
    checked = rows.select(
        "topology_id",
        block.alias("block"),
        F.struct(F.col("id"), canonical_row().alias("line")).alias("row"),
        suspicious_transformation().alias("suspicious"),
        (F.col("kind") == str(Kind.LEGACY_SOURCE)).alias("is_legacy_source"),
    )
    blocks = checked.groupBy("topology_id", "block").agg(
        # Rows without an id form one group, which may be too large to collect.
        F.sort_array(F.collect_list(F.when(F.col("block").isNotNull(), F.col("row")))).alias("rows"),
        F.count(F.lit(1)).alias("size"),
        F.bool_or("suspicious").alias("suspicious"),
        F.bool_or("is_legacy_source").alias("has_legacy_source"),
    )
    first_id, size = F.col("block") * BLOCK + 1, F.col("size")
    in_order = F.col("rows.id").cast("array<bigint>") == F.sequence(first_id, first_id + size - 1)
    text = F.concat(F.array_join(F.col("rows.line"), "\n"), F.lit("\n"))
    digests = blocks.select(
        "topology_id",
        F.struct("block", F.sha2(text, 256).alias("digest")).alias("block_digest"),
        size.alias("size"),
        (first_id + size - 1).alias("last_id"),
        (F.coalesce(in_order, F.lit(False)) & ~F.col("suspicious")).alias("holds"),
        "has_legacy_source",
    )
    topologies = digests.groupBy("topology_id").agg(
        F.sort_array(F.collect_list("block_digest")).alias("blocks"),
        (F.bool_and("holds") & (F.min("block_digest.block") >= 0)).alias("hold"),
        F.max("last_id").alias("last_id"),
        F.sum("size").alias("size"),
        F.bool_or("has_legacy_source").alias("has_legacy_source"),
    )
    # Each sound block begins with its first id: if the last id equals the number of ids, all blocks are full.
    whole = F.col("last_id") == F.col("size")
    return topologies.select(
        "topology_id",
        F.coalesce(F.col("hold") & whole, F.lit(False)).alias("rows_hold"),
        "size",
        "has_legacy_source",
        F.array_join(F.col("blocks.digest"), "").alias("block_digests"),
    )


def _settled(summary: DataFrame, rows: DataFrame, some_depend_on_sources: bool) -> DataFrame:
    """SETTLED rows of topologies whose values and transformations are right, or whose own row is wrong."""
    sound = summary.where(_SOUND)
    columns = [
        F.col(n) for n in ("topology_id", "name", "parallelism", "max_parallelism", "chaining", "config")
    ]
    if some_depend_on_sources:
        unbounded = reads_unbounded_source(rows, sound.where(_DEPENDS_ON_SOURCES).select("topology_id"))
        jobs = sound.join(unbounded.withColumn("reads", F.lit(True)), "topology_id", "left")
        reads = F.coalesce("reads", F.lit(False))
    else:
        jobs, reads = sound, F.lit(False)
    jobs = jobs.select(*columns, reads.alias("reads_unbounded"))
    wrong = (
        summary.where("row_error IS NOT NULL")
        .groupBy("topology_id")
        .agg(F.min("row_error").alias("row_error"))
    )
    return jobs.mapInArrow(settings_of_topologies, from_arrow_schema(SETTLED)).unionByName(
        wrong.select(
            "topology_id",
            F.lit(INPUT_STAGE).alias("error_stage"),
            F.array("row_error").alias("errors"),
            F.lit(None).cast(from_arrow_schema(SETTLED)["settings"].dataType).alias("settings"),
        )
    )


def _explained(
    summary: DataFrame, rows: DataFrame, some_are_large: bool
) -> tuple[DataFrame, list[DataFrame]]:
    """SETTLED rows of suspicious topologies, and tables that are persisted for them."""
    suspicious = summary.where(_SUSPICIOUS)
    if not some_are_large:
        return _validate_whole_lines(suspicious, rows), []
    refused = wrong_rows_of_large(suspicious.where(_LARGE), rows).persist(StorageLevel.MEMORY_AND_DISK)
    rest = suspicious.join(refused.select("topology_id"), "topology_id", "left_anti")
    return refused.unionByName(_validate_whole_lines(rest, rows)), [refused]


def _validate_whole_lines(topologies: DataFrame, rows: DataFrame) -> DataFrame:
    """SETTLED rows of topologies, through the same validation as lines of a file."""
    listed = (
        rows.join(topologies.select("topology_id"), "topology_id", "left_semi")
        .groupBy("topology_id")
        .agg(F.sort_array(F.collect_list(F.struct("id", text_of_transformation().alias("t")))).alias("ts"))
    )
    transformations = F.array_join(F.transform(F.coalesce("ts", F.array()), lambda r: r["t"]), ",")
    outside = F.rtrim(text_of_topology(), F.lit("}"))
    line = F.concat(outside, F.lit('},"transformations":['), transformations, F.lit("]}"))
    lines = topologies.join(listed, "topology_id", "left").select(
        line.cast("binary").alias("value"),
        F.lit(None).cast("string").alias("source_file"),
        F.lit(0).cast("long").alias("block_start"),
        F.col("topology_id").alias("ordinal"),
        F.lit(None).cast("string").alias("problem"),
        F.lit(None).cast("long").alias("line"),
        F.lit(None).cast("long").alias("too_long_bytes"),
    )
    parsed = lines.mapInArrow(parse_lines, from_arrow_schema(PARSED)).where(
        "form IS NOT NULL OR error_stage IS NOT NULL"
    )
    return parsed.select(F.col("ordinal").alias("topology_id"), "error_stage", "errors", "settings")
