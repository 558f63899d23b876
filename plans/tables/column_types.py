"""Column types shared by tables, and the notation of tables.

Types are Arrow's. Values inside lists, maps and structs are never null in a plan, but are declared nullable,
because Delta stores NOT NULL for columns only.
"""

from collections.abc import Callable

import pyarrow as pa

INT, LONG, STR, BOOL, DOUBLE = pa.int32(), pa.int64(), pa.string(), pa.bool_(), pa.float64()
TIMESTAMP = pa.timestamp("us", "UTC")
TOPOLOGY = "topology_id"
"""The key of every table."""

COMMENT = b"comment"
"""The key of a column's comment in the metadata of its field."""

Column = tuple[str, pa.DataType, str] | tuple[str, pa.DataType, str, bool]


def list_of(element: pa.DataType | pa.Schema) -> pa.DataType:
    """Return the type of a list of values, or of rows with the columns of a table."""
    if isinstance(element, pa.Schema):
        element = pa.struct([(column.name, column.type) for column in element])
    return pa.list_(element)


def map_of(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """Return the type of a map."""
    return pa.map_(key, value)


def table(*columns: Column) -> pa.Schema:
    """Return the schema of columns given as (name, type, comment[, nullable=False])."""
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


_NAMES: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_int8, "tinyint"),
    (pa.types.is_int16, "smallint"),
    (pa.types.is_int32, "int"),
    (pa.types.is_int64, "bigint"),
    (pa.types.is_float32, "float"),
    (pa.types.is_float64, "double"),
    (pa.types.is_string, "string"),
    (pa.types.is_large_string, "string"),
    (pa.types.is_string_view, "string"),
    (pa.types.is_binary, "binary"),
    (pa.types.is_large_binary, "binary"),
    (pa.types.is_date32, "date"),
    (pa.types.is_null, "void"),
)

_LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
    pa.types.is_fixed_size_list,
)


def type_name(kind: pa.DataType) -> str:
    """Return the type in Spark's notation without nullability, such as `map<string,int>` or `array<bigint>`.

    Variants of one type (large lists, string views, dictionaries) share a name. A type that Spark lacks keeps
    Arrow's name.
    """
    for is_kind, name in _NAMES:
        if is_kind(kind):
            return name
    if pa.types.is_dictionary(kind):
        return type_name(kind.value_type)
    if pa.types.is_timestamp(kind):
        return "timestamp" if kind.tz else "timestamp_ntz"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if pa.types.is_map(kind):
        return f"map<{type_name(kind.key_type)},{type_name(kind.item_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{type_name(field.type)}' for field in kind)}>"
    if any(is_list(kind) for is_list in _LISTS):
        return f"array<{type_name(kind.value_type)}>"
    return str(kind)
