"""Write rows to one file or to standard output, as they come: Parquet and CSV."""

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

# Write Arrow batches to one Parquet file or to standard output, as they come.


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], target: Path | None) -> None:
    """Write `batches` of that schema, each as a row group.

    `target`: a file as of replace_file; None is standard output, which must not be a terminal. Raises
    ConfigurationError, also for types that Parquet lacks, and MachineError.
    """
    if target is None and may_be_terminal(sys.stdout):
        raise ConfigurationError("Parquet is not for a terminal", "name a file with --to FILE.parquet")
    with open_target(target, compress=False) as file, pa.PythonFile(_Counted(file), mode="w") as sink:
        try:
            writer = pq.ParquetWriter(sink, schema, compression="zstd")
        except pa.ArrowNotImplementedError as error:
            raise ConfigurationError(f"Parquet cannot hold this: {error}", "cast it to text") from error
        with writer:
            for batch in batches:
                writer.write_batch(batch)
        sink.flush()


class _Counted:
    """A file that says how far it was written; Arrow asks, and a pipe cannot tell."""

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
        """Left to the one who opened the file."""

    def close(self) -> None:
        """Left to the one who opened the file."""


# Write rows of texts as CSV to one file or to standard output, as they come.


_CHARACTERS_AT_A_TIME = 1 << 16


def write_csv(names: Sequence[str], rows: Iterable[Sequence[str | None]], target: Path | None) -> None:
    """A line of `names`, and one for each row, as RFC 4180 has them but for line feeds; None is empty.

    Texts are written as they are, but on a terminal printable. `target`: a file as of replace_file,
    gzip-compressed if it ends in .gz; None is standard output. Raises ConfigurationError and MachineError.
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
