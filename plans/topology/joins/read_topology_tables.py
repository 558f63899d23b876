"""Given tables of topologies and transformations as the topology layer."""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from penstock.plans.errors import INPUT_STAGE, ErrorKind, TopologyError
from penstock.plans.frames.spark_frames import limited_column, no_rows
from penstock.plans.frames.spark_schemas import conform, spark_schema
from penstock.plans.printable import MOST_OF_A_NAME
from penstock.plans.tables import JOB_SETTINGS, TOPOLOGIES, TRANSFORMATIONS
from penstock.plans.tables.column_types import INT, LONG, STR
from penstock.plans.topology import flink_options
from penstock.plans.topology.columnar.canonical_texts import JSON_COLUMNS
from penstock.plans.topology.columnar.lines_of_tables import (
    LARGE,
    cycle_of,
    known,
    misplaced,
    position_of,
    position_of_counted,
    validate_wrong_rows,
)
from penstock.plans.topology.columnar.suspicious_transformation import OPERATOR_COLUMNS, PHYSICAL
from penstock.plans.topology.fingerprint import BLOCK, CAPTURE_NOTES
from penstock.plans.topology.job_settings import settings_or_errors
from penstock.plans.topology.joins.normalized_tables import normalized_tables
from penstock.plans.topology.joins.topologies_of_lines import (
    TopologyTables,
    rejected_rows,
    text_of_topology,
    text_of_transformation,
)
from penstock.plans.topology.operator_rules import (
    INPUT_COUNTS,
    MAX_PARALLELISM,
    OPERATOR_SCOPE,
    RESOURCE_RULES,
    SLOT_SCOPE,
)
from penstock.plans.topology.parse_lines import ERRORS, PARSED, SETTINGS, as_arrow, parse_lines, shown
from penstock.plans.topology.rules import ALLOWED_AND_HINT
from penstock.plans.vocabulary import (
    SOURCE_KINDS,
    VIRTUAL_KINDS,
    WRITTEN_KINDS,
    ChainingStrategy,
    Kind,
    Partitioner,
    StreamExchangeMode,
    TopologyForm,
)

# Whether one row of a transformations table may be wrong, as one expression.


# Finds topologies with an operator that reads an unbounded source, without holding a whole topology.


_TOPOLOGY = pa.schema([("topology_id", LONG)])


def _reads_unbounded_source(rows: DataFrame, topologies: DataFrame) -> DataFrame:
    """topology_id of those of `topologies` (topology_id) in which an operator reads an unbounded source.

    `rows` are sound transformations (topology_id, id, kind, inputs): ids 1..n, inputs of lower ids. Same
    result as the function of this name for one process; one task walks each topology in the order of its ids,
    with numbers only and one byte per transformation.
    """
    bounded = F.get_json_object("details", "$.bounded")  # see validate_transformations.kind_by_bounds
    is_source = F.col("kind").isin([str(kind) for kind in SOURCE_KINDS])
    unbounded = is_source & F.coalesce(bounded == "false", F.col("kind") == str(Kind.LEGACY_SOURCE))
    numbers = (
        rows.where(~is_source | unbounded)
        .join(topologies, "topology_id", "left_semi")
        .select(
            "topology_id",
            "id",
            unbounded.alias("is_source"),
            F.col("kind").isin([str(kind) for kind in VIRTUAL_KINDS]).alias("is_virtual"),
            "inputs",
        )
        .repartition("topology_id")
        .sortWithinPartitions("topology_id", "id")
    )
    return numbers.mapInArrow(topologies_that_read, "topology_id long")


def topologies_that_read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: topology_id of those that read an unbounded source.

    Input columns: topology_id, id, is_source (unbounded), is_virtual, inputs; sorted by topology_id and id,
    bounded sources left out.
    """
    topology, reads_unbounded = None, False
    unbounded = np.zeros(0, np.bool_)
    for batch in batches:
        ids = batch.column("topology_id").to_numpy()
        bounds = [0, *(np.flatnonzero(ids[1:] != ids[:-1]) + 1).tolist(), len(ids)]
        for start, end in pairwise(bounds):
            if start == end:
                continue
            if topology != ids[start]:
                topology, reads_unbounded = ids[start], False
                unbounded = np.zeros(0, np.bool_)
            if reads_unbounded:
                continue
            part = batch.slice(start, end - start)
            last = int(part.column("id")[-1].as_py())
            if last >= len(unbounded):
                unbounded = np.append(unbounded, np.zeros(last + 1, np.bool_))
            if _an_operator_reads(part, unbounded):
                reads_unbounded = True
                yield pa.RecordBatch.from_arrays([pa.array([topology], LONG)], schema=_TOPOLOGY)


def _an_operator_reads(rows: pa.RecordBatch, unbounded: npt.NDArray[np.bool_]) -> bool:
    """Whether one of `rows` does; `unbounded` has a place for each id, and gets what follows from `rows`."""
    ids = rows.column("id").to_numpy()
    is_source, is_virtual = (
        rows.column(name).to_numpy(zero_copy_only=False) for name in ("is_source", "is_virtual")
    )
    offsets, inputs = rows.column("inputs").offsets.to_numpy(), rows.column("inputs").values.to_numpy()
    unbounded[ids[is_source]] = True
    for row in np.flatnonzero(is_virtual).tolist():
        if unbounded[inputs[offsets[row] : offsets[row + 1]]].any():
            unbounded[ids[row]] = True
    of_operators = np.repeat(~is_virtual, np.diff(offsets))
    return bool(unbounded[inputs[offsets[0] : offsets[-1]][of_operators]].any())


# Canonical text (see plans.topology.fingerprint) as expressions of Spark.


def _string(value: Column) -> Column:
    return F.concat(F.octet_length(value).cast("string"), F.lit(":"), value)


def _canonical_row() -> Column:
    """The canonical line of one TRANSFORMATIONS row, without its newline."""
    fields = []
    for field in spark_schema("transformations").fields[1:]:
        if field.name in JSON_COLUMNS:
            continue
        value, kind = F.col(field.name), field.dataType
        match kind:
            case StringType():
                text = _string(F.coalesce(value, F.lit(""))) if field.name == "name" else _string(value)
            case MapType():
                text = F.array_join(
                    F.transform(
                        F.sort_array(F.map_entries(value)),
                        lambda e: F.concat(e["key"], F.lit("="), e["value"].cast("string")),
                    ),
                    ",",
                )
            case StructType():
                sizes = [value[f.name].cast("string") for f in kind.fields[1:]]
                cores = F.floor(value["cpu_cores"] * 1e9 + 0.5).cast("long").cast("string")
                text = F.when(value.isNotNull(), F.concat_ws(",", cores, *sizes))
            case ArrayType(elementType=IntegerType()):
                text = F.array_join(value.cast("array<string>"), ",")
            case ArrayType():
                items = F.sort_array(value) if field.name == "slot_scope" else F.transform(value, _string)
                text = F.array_join(items, ",")
            case IntegerType() | LongType():
                text = value.cast("string")
            case _:
                raise TypeError(f"no canonical text for {field.name}")
        if isinstance(kind, MapType | ArrayType) and field.name != "inputs":
            text = F.when(F.size(value) > 0, text)  # lambdas are slow and such lists are mostly empty
        fields.append(F.coalesce(text, F.lit("")))
    sink, details = (_string(F.col(name)) for name in JSON_COLUMNS)
    before_details = F.when(F.col("details").isNotNull(), F.coalesce(sink, F.lit("")))
    return F.concat_ws("|", *fields, F.coalesce(before_details, sink), details)


def _canonical_header() -> Column:
    """The canonical header of one TOPOLOGIES row of transformations, without its newline."""
    kept = F.filter(F.map_entries(F.col("config")), lambda e: ~F.startswith(e["key"], F.lit(CAPTURE_NOTES)))
    config = F.transform(kept, lambda e: F.concat(_string(e["key"]), F.lit("="), _string(e["value"])))
    return F.concat_ws(
        "|",
        F.lit("transformations"),
        _string(F.col("name")),
        F.col("parallelism").cast("string"),
        F.coalesce(F.col("max_parallelism").cast("string"), F.lit("")),
        F.col("chaining").cast("string"),
        F.array_join(F.sort_array(config), ","),
    )


def _suspicious_transformation() -> Column:
    """True for every row of TRANSFORMATIONS that `validate_transformations` would refuse by itself.

    The rules of `operator_rules` as an expression: a row it calls right is right, given that its
    topology's ids are 1..n. What it calls suspicious is explained, or cleared, by `validate_transformations`.
    """
    kind = F.col("kind")
    physical = kind.isin(PHYSICAL)
    rules = [
        kind.isin([str(k) for k in WRITTEN_KINDS]),
        F.col("sink_topology").isNull(),
        F.col("details").isNull(),
        _number_of_inputs(),
        (F.size("inputs") == 0) | _inputs_are_before(),
        physical | reduce(lambda a, b: a & b, (F.col(c).isNull() for c in OPERATOR_COLUMNS)),
        physical | ((F.size("managed_memory") == 0) & (F.size("slot_scope") == 0)),
        _unset_or("parallelism", F.col("parallelism") >= 1),
        _unset_or("max_parallelism", F.col("max_parallelism").between(1, MAX_PARALLELISM)),
        _unset_or("uid_hash", F.col("uid_hash").rlike("^[0-9A-Fa-f]{32}\\z")),
        _unset_or("buffer_timeout", F.col("buffer_timeout") >= -1),
        _unset_or("chaining", F.col("chaining").isin([str(c) for c in ChainingStrategy])),
        (F.size("managed_memory") == 0) | _managed_memory(),
        (F.size("slot_scope") == 0) | F.forall("slot_scope", lambda u: u.isin([str(s) for s in SLOT_SCOPE])),
        _resources(),
        _only_on(Kind.PARTITION, "partitioner", F.col("partitioner").isin([str(p) for p in Partitioner])),
        _unset_or("exchange_mode", F.col("exchange_mode").isin([str(m) for m in StreamExchangeMode])),
        (kind == str(Kind.PARTITION)) | F.col("exchange_mode").isNull(),
        _only_on(Kind.SIDE_OUTPUT, "tag", F.col("tag") != ""),
        _only_on(Kind.SELECT, "names", F.forall("names", lambda n: n.isNotNull())),
    ]
    return ~F.coalesce(reduce(lambda a, b: a & b, rules), F.lit(False))


def _unset_or(name: str, right: Column) -> Column:
    return F.col(name).isNull() | right


def _only_on(kind: Kind, name: str, right: Column) -> Column:
    """Set and right on its kind, null on others."""
    return F.when(F.col("kind") == str(kind), F.col(name).isNotNull() & right).otherwise(F.col(name).isNull())


def _managed_memory() -> Column:
    known = F.forall(F.map_keys("managed_memory"), lambda k: k.isin([str(u) for u in OPERATOR_SCOPE]))
    distinct = F.size(F.array_distinct(F.map_keys("managed_memory"))) == F.size("managed_memory")
    return known & distinct & F.forall(F.map_values("managed_memory"), lambda w: w >= 1)


def _number_of_inputs() -> Column:
    kinds_by_count: dict[tuple[int, int], list[str]] = {}
    for kind, count in INPUT_COUNTS.items():
        kinds_by_count.setdefault(count, []).append(kind)
    size = F.size("inputs")
    return reduce(
        lambda a, b: a | b,
        (F.col("kind").isin(kinds) & size.between(*count) for count, kinds in kinds_by_count.items()),
    )


def _inputs_are_before() -> Column:
    # Nulls are sorted first. Not exists(): Spark does not compile its lambda, which would run for every row.
    return (F.get(F.sort_array("inputs"), 0) >= 1) & (F.array_max("inputs") < F.col("id"))


def _resources() -> Column:
    low, high = F.col("min_resources"), F.col("preferred_resources")
    ordered = reduce(lambda a, b: a & b, ((low[k] <= high[k]) & (low[k] >= 0) for k in RESOURCE_RULES))
    return (low.isNull() & high.isNull()) | (ordered & (low["cpu_cores"] > 0) & (high["cpu_cores"] < 1e9))


# Errors of large topologies out of their tables: only rows that may be wrong become JSON, one at a time.


_NUMBERS_OF_A_ROW = 250_000

_CYCLE, _IDS, _WRONG_IDS = range(1, 4)
"""What the numbers of a row are: of transformations without an id how many, and a cycle; ids, where they are
not 1..n; ids of rows that may be wrong."""

_NUMBER_FINDINGS = pa.schema([("topology_id", LONG), ("of", INT), ("place", INT), ("numbers", pa.list_(INT))])


def wrong_rows_of_large(topologies: DataFrame, rows: DataFrame) -> DataFrame:
    """SETTLED rows of those of `topologies` that are refused.

    In: TOPOLOGIES columns and size; TRANSFORMATIONS, those of other topologies too. As the function of this
    name for the one process: what ids and inputs tell is found by a task for each topology, which gets
    nothing but these numbers.
    """
    own = rows.join(topologies.select("topology_id"), "topology_id", "left_semi")
    numbers = own.select("topology_id", "id", "inputs").repartition("topology_id")
    in_order = numbers.sortWithinPartitions("topology_id", "id")
    number_findings = in_order.mapInArrow(look_at_numbers, from_arrow_schema(_NUMBER_FINDINGS))
    by_number = number_findings.where(F.col("of") == _WRONG_IDS).select(
        "topology_id", F.explode("numbers").alias("id")
    )
    named = by_number.distinct().withColumn("is_named", F.lit(True))
    may_be_wrong = F.col("is_named") | F.col("id").isNull() | _suspicious_transformation()
    wrong = own.join(named, ["topology_id", "id"], "left").where(may_be_wrong)
    heads = topologies.select(
        "topology_id",
        F.lit(0).alias("of"),
        text_of_topology().alias("text"),
        F.col("size").cast("long").alias("size"),
    )
    texts = wrong.select(
        "topology_id",
        F.lit(_WRONG_IDS).alias("of"),
        F.col("id").alias("place"),
        text_of_transformation().alias("text"),
    )
    both = heads.unionByName(number_findings.where(F.col("of") != _WRONG_IDS), allowMissingColumns=True)
    all_of_it = both.unionByName(texts, allowMissingColumns=True).repartition("topology_id")
    columns = [F.col(name) for name in ("topology_id", "of", "place", "numbers", "size", "text")]
    each_in_order = all_of_it.select(*columns).sortWithinPartitions("topology_id", "of", "place", "text")
    return each_in_order.mapInArrow(refused_topologies, from_arrow_schema(_SETTLED))


def look_at_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: _NUMBER_FINDINGS of each topology.

    Input columns: topology_id, id, inputs; sorted by topology_id and id, nulls first.
    """
    parts = (part for batch in batches for part in _parts_of_topologies(batch))
    for topology, of_topology in groupby(parts, lambda part: part.topology):
        without_id = 0
        ids, lengths, inputs = [], [], []
        for _, part_ids, part_inputs in of_topology:
            without_id += part_ids.null_count
            ids.append(part_ids.drop_null().to_numpy())
            lists = part_inputs.slice(part_ids.null_count)
            is_set = pc.is_valid(lists.flatten())
            owners = pc.list_parent_indices(lists).filter(is_set).to_numpy()
            lengths.append(np.bincount(owners, minlength=len(lists)))
            inputs.append(lists.flatten().filter(is_set).to_numpy())
        yield from _found(topology, without_id, *map(np.concatenate, (ids, lengths, inputs)))


def _found(topology: int, without_id: int, ids: Any, lengths: Any, inputs: Any) -> Iterator[pa.RecordBatch]:
    starts = np.append(0, np.cumsum(lengths, dtype=np.int64))
    out_of_place = misplaced(ids, without_id)
    counted = not (without_id or out_of_place.any())
    yield _numbers(topology, _CYCLE, 0, [without_id, *cycle_of(ids, starts, inputs)])
    if not counted:
        for start in range(0, max(len(ids), 1), _NUMBERS_OF_A_ROW):
            yield _numbers(topology, _IDS, start, ids[start : start + _NUMBERS_OF_A_ROW])
    out_of_place[np.repeat(np.arange(len(ids)), lengths)[~known(ids, inputs)]] = True
    wrong = ids[out_of_place]
    for start in range(0, len(wrong), _NUMBERS_OF_A_ROW):
        yield _numbers(topology, _WRONG_IDS, start, wrong[start : start + _NUMBERS_OF_A_ROW])


def _numbers(topology: int, of: int, place: int, numbers: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(
        {"topology_id": [topology], "of": [of], "place": [place], "numbers": [numbers]}, _NUMBER_FINDINGS
    )


class _Part(NamedTuple):
    topology: int
    ids: pa.Array
    inputs: pa.ListArray


def _parts_of_topologies(batch: pa.RecordBatch) -> Iterator[_Part]:
    topologies = batch.column("topology_id").to_numpy()
    bounds = np.concatenate([[0], np.flatnonzero(topologies[1:] != topologies[:-1]) + 1, [len(topologies)]])
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if start < end:
            part = batch.slice(start, end - start)
            yield _Part(int(topologies[start]), part.column("id"), part.column("inputs"))


def refused_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED of the topologies that are refused.

    Input columns: topology_id, of, place, numbers, size, text; sorted by all of them. Each topology
    begins with its own row, which has its size; rows of _NUMBER_FINDINGS follow, then rows that may be wrong,
    with their ids.
    """
    rows = (row for batch in batches for row in zip(*map(_values, batch.columns), strict=True))
    for topology, of_topology in groupby(rows, lambda row: row[0]):
        each = iter(of_topology)
        *_, size, head = next(each)
        _, _, _, (without_id, *cycle), _, _ = next(each)
        chunks: list[Any] = []
        listed: Iterable[Any] = ()
        for of, of_kind in groupby(each, lambda row: row[1]):
            if of == _IDS:
                chunks.extend(np.array(numbers, np.int32) for _, _, _, numbers, _, _ in of_kind)
            else:
                listed = of_kind
                break
        position = position_of(np.concatenate(chunks), without_id) if chunks else position_of_counted(size)
        refusal = validate_wrong_rows(head.encode(), _with_positions(listed, position), position, cycle)
        if refusal is not None:
            stage, errors = refusal
            row = {"topology_id": topology, "error_stage": stage, "errors": errors, "settings": None}
            yield pa.RecordBatch.from_pylist([row], _SETTLED)


def _with_positions(rows: Iterable[Any], position_of_id: Any) -> Iterator[tuple[int, bytes]]:
    """Rows with an id that occurs twice, and rows without an id, which come first."""
    for number, of_id in groupby(rows, lambda row: row[2]):
        first = 1 if number is None else position_of_id(number)
        for place, (*_, text) in enumerate(of_id, first):
            yield place, text.encode()


def _values(column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


# Options and job settings of topologies that came in as a table, in Spark's Python workers.


_SETTLED = pa.schema(
    [("topology_id", LONG), ("error_stage", STR), ("errors", ERRORS), ("settings", SETTINGS)]
)


def _settings_of_topologies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow`: SETTLED, one row per topology, with either settings or errors.

    Input columns: topology_id, name, parallelism, max_parallelism, chaining, config, reads_unbounded (whether
    an operator reads an unbounded source; false where the job type does not depend on that).
    """
    for batch in batches:
        stages, errors, settings = [], [], []
        for row in batch.to_pylist():
            stage, row_errors, derived = settings_or_errors(row, row["reads_unbounded"])
            stages.append(stage)
            errors.append(_or_none(row_errors))
            settings.append(None if derived is None else as_arrow(derived))
        yield pa.RecordBatch.from_pydict(
            {
                "topology_id": batch.column("topology_id"),
                "error_stage": pa.array(stages, pa.string()),
                "errors": pa.array(errors, ERRORS),
                "settings": pa.array(settings, SETTINGS),
            }
        )


def _or_none(errors: list[TopologyError]) -> list[dict[str, str]] | None:
    return [shown(e) for e in errors] or None


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
    return joined.select("summary.*", *(f"settled.{n}" for n in _SETTLED.names if n != "topology_id"))


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
    text = F.concat(_canonical_header(), F.lit("\n"), F.col("block_digests"))
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
        F.struct(F.col("id"), _canonical_row().alias("line")).alias("row"),
        _suspicious_transformation().alias("suspicious"),
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
        unbounded = _reads_unbounded_source(rows, sound.where(_DEPENDS_ON_SOURCES).select("topology_id"))
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
    return jobs.mapInArrow(_settings_of_topologies, from_arrow_schema(_SETTLED)).unionByName(
        wrong.select(
            "topology_id",
            F.lit(INPUT_STAGE).alias("error_stage"),
            F.array("row_error").alias("errors"),
            F.lit(None).cast(from_arrow_schema(_SETTLED)["settings"].dataType).alias("settings"),
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
