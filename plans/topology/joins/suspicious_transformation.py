"""Whether one row of a transformations table may be wrong, as one expression."""

from collections.abc import Iterable, Iterator
from functools import reduce
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, LongType, MapType, StringType, StructType

from penstock.plans.frames.spark_schemas import spark_schema
from penstock.plans.tables.column_types import LONG
from penstock.plans.topology.columnar.suspicious_transformation import OPERATOR_COLUMNS, PHYSICAL
from penstock.plans.topology.fingerprint import CAPTURE_NOTES
from penstock.plans.topology.operator_rules import (
    INPUT_COUNTS,
    MAX_PARALLELISM,
    OPERATOR_SCOPE,
    RESOURCE_RULES,
    SLOT_SCOPE,
)
from penstock.plans.vocabulary import (
    SOURCE_KINDS,
    VIRTUAL_KINDS,
    WRITTEN_KINDS,
    ChainingStrategy,
    Kind,
    Partitioner,
    StreamExchangeMode,
)

# Finds topologies with an operator that reads an unbounded source, without holding a whole topology.


_TOPOLOGY = pa.schema([("topology_id", LONG)])


def reads_unbounded_source(rows: DataFrame, topologies: DataFrame) -> DataFrame:
    """topology_id of those of `topologies` (topology_id) in which an operator reads an unbounded source.

    `rows` are sound transformations (topology_id, id, kind, inputs): ids 1..n, inputs of lower ids. Same
    result as the function of this name for one process; one task walks each topology in the order of its ids,
    with numbers only and one byte per transformation.
    """
    bounded = [str(kind) for kind in SOURCE_KINDS if kind != Kind.LEGACY_SOURCE]
    numbers = (
        rows.where(~F.col("kind").isin(bounded))
        .join(topologies, "topology_id", "left_semi")
        .select(
            "topology_id",
            "id",
            (F.col("kind") == str(Kind.LEGACY_SOURCE)).alias("is_source"),
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


def canonical_row() -> Column:
    """The canonical line of one TRANSFORMATIONS row, without its newline."""
    fields = []
    for field in spark_schema("transformations").fields[1:]:
        if field.name == "sink_topology":
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
    return F.concat_ws("|", *fields, _string(F.col("sink_topology")))


def canonical_header() -> Column:
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


def suspicious_transformation() -> Column:
    """True for every row of TRANSFORMATIONS that `validate_transformations` would refuse by itself.

    The rules of `operator_rules` as an expression: a row it calls right is right, given that its
    topology's ids are 1..n. What it calls suspicious is explained, or cleared, by `validate_transformations`.
    """
    kind = F.col("kind")
    physical = kind.isin(PHYSICAL)
    rules = [
        kind.isin([str(k) for k in WRITTEN_KINDS]),
        F.col("sink_topology").isNull(),
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
