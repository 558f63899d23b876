"""Write lines to one file or to standard output, as they come."""

import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from engine.machine.replace_file import replace_file
from plans.printable import printable_json

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_lines(lines: "DataFrame", target: Path | None) -> None:
    """Write column `line` of a Spark DataFrame, in the order of its partitions and rows.

    The driver holds one partition of the lines at most. Target and errors: as write_texts.
    """
    write_texts((row["line"] for row in lines.select("line").toLocalIterator()), target)


def write_texts(texts: Iterable[str], target: Path | None) -> None:
    """Write `texts`, each a line or more of JSON without the last line feed.

    What a terminal would act on is written with JSON's own escapes (see printable_json).
    `target`: a file as of replace_file, gzip-compressed if it ends in .gz; None is standard output. Raises
    ConfigurationError and MachineError.
    """
    with _open(target) as out:
        for text in texts:
            out.write(printable_json(text).encode())
            out.write(b"\n")


@contextmanager
def _open(target: Path | None) -> Iterator[BinaryIO]:
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    sys.stdout.flush()  # the target may be /dev/stdout
    with replace_file(target) as file:
        if target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield file
