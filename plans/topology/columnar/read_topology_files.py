"""Topology files (docs/topology-files.md) as the tables of the topology layer."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from plans.columnar.side_by_side import one_after_the_other
from plans.topology.columnar.find_topology_files import find_topology_files, is_pipe
from plans.topology.columnar.parse_block import Block, parse_block
from plans.topology.columnar.topologies_of_lines import topologies_of_lines
from plans.topology.columnar.topology_tables import TopologyTables
from plans.topology.columnar.whole_lines import LongLine, whole_lines
from plans.topology.input_errors import (
    incomplete_gzip,
    no_files_given,
    no_topologies,
    unreadable_file,
    unusable_path,
)
from plans.topology.line_too_long import MAX_LINE_BYTES, line_too_long
from plans.topology.parse_lines import rejected_line

BLOCK_BYTES = 4 * 2**20
"""Read at once; the lines that end in what is read are parsed together."""

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_SPARK_ONLY = (".deflate", ".lz4", ".snappy")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineTooLong(NamedTuple):
    """A line that is not read: its file, its ordinal and its size."""

    file: str
    ordinal: int
    size_bytes: int


def read_topology_files(
    paths: Sequence[str],
    max_line_bytes: int = MAX_LINE_BYTES,
    before_block: Callable[[], None] = lambda: None,
) -> TopologyTables:
    """JSON lines in local files, compressed files, directories (with those below) and globs.

    A line of more than `max_line_bytes` is rejected without being held in memory. `before_block` is called
    before each BLOCK_BYTES are read; what it raises stops the reading.

    As joins.read_topology_files; what only Hadoop can read (other file systems, .lz4, .snappy,
    .deflate) is an InputError.
    """
    if not paths:
        raise no_files_given()

    def parse(block: Block | LineTooLong) -> list[pa.RecordBatch]:
        if isinstance(block, Block):
            return parse_block(block)
        error = line_too_long(block.size_bytes, max_line_bytes)
        return [rejected_line(block.file, block.ordinal, error)]

    blocks = blocks_of_files(find_topology_files(paths), max_line_bytes, before_block)
    tables = topologies_of_lines(chain.from_iterable(one_after_the_other(parse, blocks)))
    if tables.inputs == 0:
        raise no_topologies(paths)
    return tables


def blocks_of_files(
    files: Sequence[str], max_line_bytes: int, before_block: Callable[[], None] = lambda: None
) -> Iterator[Block | LineTooLong]:
    """The lines of the files, in order, some megabytes at a time. Raises InputError."""
    for file in files:
        lines, name = 0, os.fsencode(file).decode(errors="backslashreplace")  # bytes that are not UTF-8
        for found in whole_lines(_texts(file, before_block), max_line_bytes):
            if isinstance(found, LongLine):
                yield LineTooLong(name, lines, found.size_bytes)
                lines += 1
                continue
            yield Block(found.removeprefix(_BYTE_ORDER_MARK) if lines == 0 else found, name, lines)
            lines += found.count(b"\n")


def _opened(file: str) -> pa.NativeFile:
    """The file to read; Arrow's own files seek, which pipes cannot."""
    return pa.PythonFile(open(file, "rb")) if is_pipe(file) else pa.OSFile(os.fsencode(file))


def _texts(file: str, before_block: Callable[[], None]) -> Iterator[bytes]:
    suffix = os.path.splitext(file)[1].lower()
    if suffix in _SPARK_ONLY:
        raise unusable_path(file, f"{suffix} files are read by Spark only")
    codec = CODECS.get(suffix)
    try:
        with _opened(file) as raw:
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            before_block()
            while text := stream.read(BLOCK_BYTES):
                yield text
                before_block()
    except OSError as error:
        if suffix == ".gz" and error.errno is None:  # not the system's, so the codec's
            raise incomplete_gzip(file) from None
        raise unreadable_file(file, error.strerror or str(error)) from None
