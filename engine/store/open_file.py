"""A Parquet file of a table, row group by row group."""

import os
from contextlib import suppress
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.machine.replace_file import make_durable
from penstock.engine.store.column_encodings import with_dictionary


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
