"""Topology files (SPEC section 1) as the tables of the topology layer."""

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa

from plans.columnar.topology.find_topology_files import find_topology_files
from plans.columnar.topology.topologies_of_lines import lines_batch, topologies_of_lines
from plans.columnar.topology.topology_tables import TopologyTables
from plans.topology.input_errors import (
    incomplete_gzip,
    no_files_given,
    no_topologies,
    unreadable_file,
    unusable_path,
)

BLOCK_BYTES = 4 * 2**20
"""Read at once; a batch of lines holds one block and the lines that end in it."""

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
    tables = topologies_of_lines(_lines(find_topology_files(paths)))
    if tables.inputs == 0:
        raise no_topologies(paths)
    return tables


def _lines(files: list[str]) -> Iterator[pa.RecordBatch]:
    for file in files:
        first = True
        for values in _lines_of(file):
            if first and values[0].startswith(_BYTE_ORDER_MARK):
                values[0] = values[0][len(_BYTE_ORDER_MARK) :]
            first = False
            batch = lines_batch(values, file)
            values.clear()  # a line may be as large as the memory for it
            yield batch


def _lines_of(file: str) -> Iterator[list[bytes]]:
    """The lines of a file, those of a block at once; a line ends at \\n, the last one also at the end."""
    open_line: list[bytes] = []
    for block in _blocks(file):
        whole, newline, rest = block.rpartition(b"\n")
        if newline:
            open_line.append(whole)
            lines = b"".join(open_line).split(b"\n")
            open_line = [rest]
            yield lines
        else:
            open_line.append(block)
    last = b"".join(open_line)
    open_line.clear()
    if last:
        yield [last]


def _blocks(file: str) -> Iterator[bytes]:
    suffix = os.path.splitext(file)[1].lower()
    if suffix in _SPARK_ONLY:
        raise unusable_path(file, f"{suffix} files are read by Spark only")
    codec = _CODECS.get(suffix)
    try:
        with pa.OSFile(file) as raw:
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            while block := stream.read(BLOCK_BYTES):
                yield block
    except OSError as error:
        if suffix == ".gz" and error.errno is None:  # not the system's, so the codec's
            raise incomplete_gzip(file) from None
        raise unreadable_file(file, error.strerror or str(error)) from None
