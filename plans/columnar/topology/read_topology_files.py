"""Topology files (SPEC section 1) as the tables of the topology layer."""

import os
from collections.abc import Iterator, Sequence
from itertools import chain

import pyarrow as pa

from plans.columnar.side_by_side import one_after_the_other
from plans.columnar.topology.find_topology_files import find_topology_files, is_pipe
from plans.columnar.topology.parse_block import Block, parse_block
from plans.columnar.topology.topologies_of_lines import topologies_of_lines
from plans.columnar.topology.topology_tables import TopologyTables
from plans.topology.input_errors import (
    incomplete_gzip,
    no_files_given,
    no_topologies,
    unreadable_file,
    unusable_path,
)

BLOCK_BYTES = 4 * 2**20
"""Read at once; the lines that end in what is read are parsed together."""

_CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_SPARK_ONLY = (".deflate", ".lz4", ".snappy")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_topology_files(paths: Sequence[str]) -> TopologyTables:
    """JSON lines in local files, compressed files, directories (with those below) and globs.

    As plans.topology.read_topology_files; what only Hadoop can read (other file systems, .lz4, .snappy,
    .deflate) is an InputError.
    """
    if not paths:
        raise no_files_given()
    blocks = blocks_of_files(find_topology_files(paths))
    tables = topologies_of_lines(chain.from_iterable(one_after_the_other(parse_block, blocks)))
    if tables.inputs == 0:
        raise no_topologies(paths)
    return tables


def blocks_of_files(files: Sequence[str]) -> Iterator[Block]:
    """The lines of the files, in order, some megabytes at a time. Raises InputError."""
    for file in files:
        lines = 0
        for text in _whole_lines(file):
            yield Block(text.removeprefix(_BYTE_ORDER_MARK) if lines == 0 else text, file, lines)
            lines += text.count(b"\n")


def _whole_lines(file: str) -> Iterator[bytes]:
    """The lines of a file, those that end in what is read at once together; the last may lack its newline."""
    open_line: list[bytes] = []
    for text in _texts(file):
        whole, newline, rest = text.rpartition(b"\n")
        if newline:
            lines = b"".join([*open_line, whole, newline])
            open_line = [rest]
            yield lines
        else:
            open_line.append(text)
    last = b"".join(open_line)
    if last:
        yield last + b"\n"


def _opened(file: str) -> pa.NativeFile:
    """The file to read; Arrow's own files seek, which pipes cannot."""
    return pa.PythonFile(open(file, "rb")) if is_pipe(file) else pa.OSFile(file)


def _texts(file: str) -> Iterator[bytes]:
    suffix = os.path.splitext(file)[1].lower()
    if suffix in _SPARK_ONLY:
        raise unusable_path(file, f"{suffix} files are read by Spark only")
    codec = _CODECS.get(suffix)
    try:
        with _opened(file) as raw:
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            while text := stream.read(BLOCK_BYTES):
                yield text
    except OSError as error:
        if suffix == ".gz" and error.errno is None:  # not the system's, so the codec's
            raise incomplete_gzip(file) from None
        raise unreadable_file(file, error.strerror or str(error)) from None
