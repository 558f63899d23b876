"""Small tables in, rows out: what the tests of passes are written with."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chispa import assert_df_equality
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from plans.joins.spark_schemas import spark_schema
from plans.tables import TABLES

_TYPES: dict[str, DataType] = {
    "BIGINT": LongType(),
    "INT": IntegerType(),
    "STRING": StringType(),
    "BOOLEAN": BooleanType(),
    "ARRAY<INT>": ArrayType(IntegerType()),
    "ARRAY<STRING>": ArrayType(StringType()),
}
Make = Callable[..., DataFrame]
ONE = {"topology_id": 1}


def make_frame(
    spark: SparkSession, schema: str | StructType, rows: Iterable[Mapping[str, Any]], **defaults: Any
) -> DataFrame:
    """`rows` as a table, partitioned by topology, as passes get them.

    `schema`: a table of plans.tables by name, a StructType or columns as in DDL. What neither a row nor
    `defaults` say is topology 1, null, or the zero of the column's type where it is not nullable.
    """
    struct = schema if isinstance(schema, StructType) else _struct(schema)
    shared = {**ONE, **defaults}
    values = []
    for row in rows:
        unknown = set(row) - set(struct.names)
        assert not unknown, f"no such columns: {unknown}"
        values.append(
            tuple({**shared, **row}.get(f.name, None if f.nullable else zero_of(f.dataType)) for f in struct)
        )
    return spark.createDataFrame(values, struct).repartition(2, "topology_id")


def assert_rows(frame: DataFrame, columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    """The `columns` (separated by spaces) of `frame` are exactly `rows`, in any order."""
    picked = frame.select(*columns.split())
    nullable = StructType([StructField(f.name, f.dataType) for f in picked.schema])
    expected = frame.sparkSession.createDataFrame(list(rows), nullable)
    assert_df_equality(picked, expected, ignore_row_order=True, ignore_nullable=True, ignore_metadata=True)


def fixed_point(rows: DataFrame, step: Callable[[DataFrame], DataFrame]) -> tuple[DataFrame, int]:
    """`rows` after as many steps as close all of them, and that number."""
    rounds = 0
    rows = rows.localCheckpoint()
    while not rows.filter("open").isEmpty():
        rows = step(rows).localCheckpoint()
        rounds += 1
        assert rounds < 20
    return rows, rounds


def extended(table: StructType, without: Iterable[str] = (), ddl: str = "") -> StructType:
    """The columns of `table` but some, and those of `ddl`."""
    left_out = set(without)
    kept = [field for field in table if field.name not in left_out]
    return StructType([*kept, *(_struct(ddl) if ddl else ())])


def _struct(schema: str) -> StructType:
    return (
        spark_schema(schema)
        if schema in TABLES
        else StructType([_field(*c.split()) for c in schema.split(", ")])
    )


def _field(name: str, kind: str, *not_null: str) -> StructField:
    return StructField(name, _TYPES[kind], not not_null)


def zero_of(data_type: DataType) -> Any:
    """What stands for a value that a test leaves out and that must not be null."""
    match data_type:
        case StringType():
            return ""
        case BooleanType():
            return False
        case ArrayType():
            return []
        case MapType():
            return {}
        case _:
            return 0


_ENDS = "name STRING, parallelism INT, max_parallelism INT, slot_sharing_group STRING, chaining STRING"
_OF_SOURCE = f"{_ENDS}, source BOOLEAN, legacy_source BOOLEAN"
_OF_TARGET = f"{_ENDS}, yielding BOOLEAN"
_VERDICTS = ("chainable", "chained_source", "not_chainable_reasons")


def _prefixed(prefix: str, ddl: str) -> str:
    return ", ".join(f"{prefix}_{column}" for column in ddl.split(", "))


EDGES_WITH_ENDS = extended(
    spark_schema("stream_edges"),
    _VERDICTS,
    "in_degree INT, input_degree INT, out_degree INT, "
    f"{_prefixed('source', _OF_SOURCE)}, {_prefixed('target', _OF_TARGET)}",
)
MARKED_EDGES = extended(EDGES_WITH_ENDS, (), "reasons INT, chained_source BOOLEAN")
OPERATORS = extended(
    spark_schema("stream_nodes"),
    ("id",),
    "vertex INT, node INT, chain_index INT, chained_source_index INT, id_lower BIGINT NOT NULL, "
    "id_upper BIGINT NOT NULL, preorder INT, postorder INT, branch INT, closings INT",
)
CHAIN_VERTICES = extended(
    spark_schema("job_vertices"),
    ("slot_sharing_group", "co_location_group", "pipelined_region", "creation_order", "topological_order"),
    "slot_sharing_group_name STRING, co_location_group_name STRING, postorder INT",
)
