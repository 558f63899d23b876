"""Which columns of a store's Parquet files are worth a dictionary."""

from collections.abc import Iterable, Iterator

import pyarrow as pa

_HARDLY_REPEATED = ("data_set_id", "edge_id", "operator_id", "uid", "uid_hash", "vertex_id")


def with_dictionary(schema: Iterable[pa.Field]) -> list[str]:
    """The paths of columns whose values are numbered by a dictionary in each row group.

    Numbers and texts that hardly repeat take zstd less time without, and come out about as small.
    """
    return [path for field in schema if _repeats(field) for path in _leaves(field.name, field.type)]


def without_dictionary(schema: Iterable[pa.Field]) -> list[str]:
    """The paths of columns whose values are stored without a dictionary."""
    return [field.name for field in schema if not _repeats(field)]


def _repeats(field: pa.Field) -> bool:
    return not pa.types.is_integer(field.type) and field.name not in _HARDLY_REPEATED


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    """The paths that Parquet gives to the values of a column."""
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", kind.key_type)
        yield from _leaves(f"{path}.key_value.value", kind.item_type)
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    else:
        yield path
