"""Arrow types by the names that Spark's SQL gives them."""

from collections.abc import Callable

import pyarrow as pa

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
    """The type as Spark writes it, without nullability: `map<string,int>`, `array<bigint>`.

    Flavours of one type (large lists, string views, dictionaries) share a name. A type that Spark lacks keeps
    Arrow's.
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
