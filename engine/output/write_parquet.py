"""Write rows to a file or to standard output as they arrive, as Parquet or CSV."""

import csv
import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.output.pieces import may_be_terminal
from penstock.engine.output.write_lines import open_target
from penstock.plans.errors import ConfigurationError
from penstock.plans.printable import printable

# Write Arrow batches as Parquet.


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path | None) -> None:
    """Write `batches` of that schema, each as a row group.

    `target` is a file, written as by replace_file, or None for standard output, which must not be a terminal.
    Raises ConfigurationError, also for types that Parquet lacks, and MachineError.
    """
    if target is None and may_be_terminal(sys.stdout):
        raise ConfigurationError(
            "Parquet cannot be written to a terminal", "name a file with --to FILE.parquet"
        )
    with open_target(target, compress=False) as file, pa.PythonFile(_CountedFile(file), mode="w") as sink:
        try:
            writer = pq.ParquetWriter(sink, schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            raise ConfigurationError(f"Parquet lacks a type: {error}", "cast the column to text") from error
        with writer:
            for batch in batches:
                writer.write_batch(batch)
        sink.flush()


class _CountedFile:
    """A writable file that counts its position; Arrow reads it, and a pipe has none."""

    closed = False

    def __init__(self, file: object) -> None:
        self._write = file.write  # type: ignore[attr-defined]
        self._at = 0

    def write(self, data: bytes) -> int:
        self._write(data)
        self._at += len(data)
        return len(data)

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """Do nothing, because the opener of the file flushes it."""

    def close(self) -> None:
        """Do nothing, because the opener of the file closes it."""


# Write rows of texts as CSV.


_CHARACTERS_AT_A_TIME = 1 << 16


def write_csv(names: Sequence[str], rows: Iterable[Sequence[str | None]], target: Path | None) -> None:
    """Write a line of `names` and a line for each row, as in RFC 4180 but with line feeds; None is empty.

    Texts are written unchanged, but on a terminal printable. `target` is a file, written as by replace_file
    and gzip-compressed if it ends in .gz, or None for standard output. Raises ConfigurationError and
    MachineError.
    """
    shown = target is None and may_be_terminal(sys.stdout)
    with open_target(target) as out:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")

        def flush() -> None:
            out.write(lines.getvalue().encode(errors="backslashreplace"))
            lines.seek(0)
            lines.truncate()

        writer.writerow([printable(name) for name in names] if shown else names)
        for row in rows:
            writer.writerow([value and printable(value) for value in row] if shown else row)
            if lines.tell() > _CHARACTERS_AT_A_TIME:
                flush()
        flush()
