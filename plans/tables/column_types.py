"""Column types that tables share, and how a table is written down.

Types are Arrow's. Values inside lists, maps and structs are never null in a plan, but they are declared
nullable, because Delta keeps NOT NULL for columns only.
"""

import pyarrow as pa

INT, LONG, STR, BOOL, DOUBLE = pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.float64()
TIMESTAMP = pa.timestamp("us", "UTC")
TOPOLOGY = "topology_id"
"""The key of every table."""

COMMENT = b"comment"
"""The key of a column's comment in the metadata of its field."""

Column = tuple[str, pa.DataType, str] | tuple[str, pa.DataType, str, bool]


def list_of(element: pa.DataType | pa.Schema) -> pa.DataType:
    """A list of values, or of rows with the columns of a table."""
    if isinstance(element, pa.Schema):
        element = pa.struct([(column.name, column.type) for column in element])
    return pa.list_(element)


def map_of(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """A map."""
    return pa.map_(key, value)


def table(*columns: Column) -> pa.Schema:
    """Columns as (name, type, comment[, nullable=False])."""
    return pa.schema([pa.field(c[0], c[1], len(c) == 4 and c[3], {COMMENT: c[2].encode()}) for c in columns])


INTS, STRINGS = list_of(INT), list_of(STR)
CONFIG = map_of(STR, STR)
WEIGHTS = map_of(STR, INT)
FRACTIONS = map_of(STR, DOUBLE)
RESOURCES = pa.struct(
    [
        ("cpu_cores", DOUBLE),
        ("task_heap_memory_bytes", LONG),
        ("task_off_heap_memory_bytes", LONG),
        ("managed_memory_bytes", LONG),
    ]
)
TOPOLOGY_ID = (TOPOLOGY, LONG, "xxhash64 of the topology's name; keys every table")
