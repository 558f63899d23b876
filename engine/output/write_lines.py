"""Write lines to a file or to standard output as they arrive."""

import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from penstock.engine.machine.replace_file import replace_file
from penstock.plans.printable import printable_json


def write_texts(texts: Iterable[str], target: Path | None) -> None:
    """Write `texts`, each one or more lines of JSON without the last line feed.

    Characters that a terminal would act on become JSON escapes (see printable_json). `target` is a file,
    written as by replace_file and gzip-compressed if it ends in .gz, or None for standard output. Raises
    ConfigurationError and MachineError.
    """
    write_pieces((f"{text}\n" for text in texts), target)


def write_pieces(pieces: Iterable[str], target: Path | None) -> None:
    """Write JSON text in pieces of any length, line feeds included, as write_texts does."""
    with open_target(target) as out:
        for piece in pieces:
            out.write(printable_json(piece).encode())


@contextmanager
def open_target(target: Path | None, *, compress: bool = True) -> Iterator[BinaryIO]:
    """Open `target` for writing (see write_texts); with `compress`, compress it if its name ends in .gz."""
    if target is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    sys.stdout.flush()  # the target may be /dev/stdout
    with replace_file(target) as file:
        if compress and target.suffix == ".gz":
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                yield cast(BinaryIO, packed)
        else:
            yield file
