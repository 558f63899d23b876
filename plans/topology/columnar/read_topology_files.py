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
from plans.topology.input_errors import no_files_given, no_topologies
from plans.topology.line_too_long import MAX_LINE_BYTES, line_too_long
from plans.topology.parse_lines import rejected_line
from plans.topology.texts_of_file import texts_of_file

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
    before each block is read; what it raises stops the reading.

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
        texts = texts_of_file(file, before_block, seeks=not is_pipe(file))
        for found in whole_lines(texts, max_line_bytes):
            if isinstance(found, LongLine):
                yield LineTooLong(name, lines, found.size_bytes)
                lines += 1
                continue
            yield Block(found.removeprefix(_BYTE_ORDER_MARK) if lines == 0 else found, name, lines)
            lines += found.count(b"\n")
