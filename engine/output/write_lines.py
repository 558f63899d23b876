"""Write lines to one file or to standard output, as they come."""

import gzip
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from penstock.engine.machine.replace_file import replace_file
from penstock.plans.printable import printable_json


def write_texts(texts: Iterable[str], target: Path | None) -> None:
    """Write `texts`, each a line or more of JSON without the last line feed.

    What a terminal would act on is written with JSON's own escapes (see printable_json).
    `target`: a file as of replace_file, gzip-compressed if it ends in .gz; None is standard output. Raises
    ConfigurationError and MachineError.
    """
    write_pieces((f"{text}\n" for text in texts), target)


def write_pieces(pieces: Iterable[str], target: Path | None) -> None:
    """As write_texts, of JSON text in pieces of any length, line feeds included."""
    with open_target(target) as out:
        for piece in pieces:
            out.write(printable_json(piece).encode())


@contextmanager
def open_target(target: Path | None, *, compress: bool = True) -> Iterator[BinaryIO]:
    """What `target` is to hold: see write_texts. `compress`: as its name says."""
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
