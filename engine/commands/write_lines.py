"""Write the lines of a DataFrame to one file or to standard output, a partition at a time."""

import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from os import replace
from pathlib import Path
from typing import BinaryIO, cast

from pyspark.sql import DataFrame

from plans.errors import ConfigurationError


def write_lines(lines: DataFrame, target: Path | None) -> int:
    """The number of lines written: column `line` of `lines`, in the order of its partitions and rows.

    `target`: a file, gzip-compressed if it ends in .gz, that appears when it is complete; None is standard
    output. The driver holds one partition of the lines at most. Raises ConfigurationError where the
    file's directory is not there.
    """
    written = 0
    with _open(target) as out:
        for row in lines.select("line").toLocalIterator():
            out.write(row["line"].encode())
            out.write(b"\n")
            written += 1
    return written


@contextmanager
def _open(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    if not target.parent.is_dir():
        raise ConfigurationError(f"cannot write {target}: there is no directory {target.parent}")
    unfinished = target.with_name(f".{target.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            if target.suffix == ".gz":
                with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                    yield cast(BinaryIO, packed)
            else:
                yield file
        replace(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
