"""A Parquet file of a table, row group by row group."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.machine.replace_file import make_durable

# Which columns of a store's Parquet files are worth a dictionary.


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


class OpenFile:
    """A new Parquet file in the subfolder `inside` of `folder`, which is there, to which rows are added."""

    def __init__(self, folder: str, inside: str, schema: pa.Schema) -> None:
        """Create the file. Raises OSError."""
        self._folder = folder
        self._path = os.path.join(inside, f"part-00000-{uuid4()}-c000.zstd.parquet")
        self._whole = os.path.join(folder, self._path)
        self._writer = pq.ParquetWriter(
            self._whole,
            schema,
            compression="zstd",
            use_dictionary=with_dictionary(schema),
            write_statistics=_with_statistics(schema),
        )

    def write(self, rows: pa.Table) -> None:
        """Add rows, which are not kept in memory. Raises OSError."""
        self._writer.write_table(rows)

    def close(self) -> str:
        """The path of the file, relative to its folder, which is durable now. Raises OSError."""
        self._writer.close()
        make_durable([self._whole], below=self._folder)
        return self._path

    def abandon(self) -> None:
        """Remove what was written."""
        with suppress(OSError):
            self._writer.close()
        with suppress(OSError):
            os.unlink(self._whole)


def _with_statistics(schema: pa.Schema) -> list[str]:
    """The columns whose least and largest values are recorded for each row group.

    Readers pass over row groups by topology, which is a number. Texts are hashes and names, in no order:
    their statistics would rule nothing out, and take as long as zstd takes beyond snappy.
    """
    return [field.name for field in schema if pa.types.is_primitive(field.type)]
