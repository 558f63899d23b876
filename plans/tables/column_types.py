"""Column types that tables share, and how a table is written down."""

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

INT, LONG, STR, BOOL = IntegerType(), LongType(), StringType(), BooleanType()
STRINGS = ArrayType(STR, containsNull=False)


def map_of(key: DataType, value: DataType) -> MapType:
    """A map without null values."""
    return MapType(key, value, valueContainsNull=False)


CONFIG = map_of(STR, STR)
WEIGHTS = map_of(STR, INT)
FRACTIONS = map_of(STR, DoubleType())
RESOURCES = StructType(
    [
        StructField("cpu_cores", DoubleType(), False, {"comment": "CPU cores"}),
        StructField("task_heap_memory_bytes", LONG, False, {"comment": "bytes"}),
        StructField("task_off_heap_memory_bytes", LONG, False, {"comment": "bytes"}),
        StructField("managed_memory_bytes", LONG, False, {"comment": "bytes"}),
    ]
)


def table(*columns: tuple[str, DataType, str] | tuple[str, DataType, str, bool]) -> StructType:
    """Columns as (name, type, comment[, nullable=False])."""
    return StructType(
        [StructField(c[0], c[1], c[3] if len(c) == 4 else False, {"comment": c[2]}) for c in columns]
    )


TOPOLOGY_ID = ("topology_id", LONG, "xxhash64 of the topology's name; keys every table")
