"""Topology files (SPEC section 1) as the tables of the topology layer."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from plans.columnar.side_by_side import one_after_the_other
from plans.topology.columnar.find_topology_files import STANDARD_INPUT, find_topology_files, is_pipe
from plans.topology.columnar.lines_batch import lines_batch
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
from plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, Element, elements, is_document
from plans.topology.line_too_long import MAX_LINE_BYTES
from plans.topology.parse_lines import parse_lines

BLOCK_BYTES = 4 * 2**20
"""Read at once; the lines that end in what is read are parsed together."""

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_SPARK_ONLY = (".deflate", ".lz4", ".snappy")
_GZIP_MARK = b"\x1f\x8b"
_ELEMENTS_AT_ONCE = 1_000


def read_topology_files(
    paths: Sequence[str],
    max_line_bytes: int = MAX_LINE_BYTES,
    before_block: Callable[[], None] = lambda: None,
) -> TopologyTables:
    """JSON lines and documents in local files, compressed files, directories (with those below) and globs.

    A line, or an element of a document, of more than `max_line_bytes` is rejected and not held in memory.
    `before_block` is called before each BLOCK_BYTES are read; what it raises stops the reading. See
    json_documents for what a document is.

    As joins.read_topology_files; what only Hadoop can read (other file systems, .lz4, .snappy,
    .deflate) is an InputError.
    """
    if not paths:
        raise no_files_given()

    def parse(block: Block | pa.RecordBatch) -> list[pa.RecordBatch]:
        return parse_block(block) if isinstance(block, Block) else list(parse_lines([block], max_line_bytes))

    blocks = blocks_of_files(find_topology_files(paths), max_line_bytes, before_block)
    tables = topologies_of_lines(chain.from_iterable(one_after_the_other(parse, blocks)))
    if tables.inputs == 0:
        raise no_topologies(paths)
    return tables


def blocks_of_files(
    files: Sequence[str], max_line_bytes: int, before_block: Callable[[], None] = lambda: None
) -> Iterator[Block | pa.RecordBatch]:
    """The lines of the files, in order, some megabytes at a time. Raises InputError.

    LINES where lines are too long, and of documents, whose elements have ordinals of their own.
    """
    for file in files:
        name = os.fsencode(file).decode(errors="backslashreplace")  # bytes that are not UTF-8
        texts = _texts(file, before_block)
        head = _head(texts)
        texts = chain(head, texts)
        if is_document(b"".join(head)[:HEAD_BYTES]):
            yield from elements_as_lines(texts, name, max_line_bytes)
        else:
            yield from _blocks(texts, name, max_line_bytes)


def elements_as_lines(
    texts: Iterable[bytes], file: str | None, max_line_bytes: int
) -> Iterator[pa.RecordBatch]:
    """The elements of a document, each with its place among them and its line, as LINES."""
    first = 0
    taken: list[Element] = []
    held_bytes = 0

    def batch() -> pa.RecordBatch:
        values, lines, too_long_bytes, problems = zip(*taken, strict=True)
        return lines_batch(values, file, range(first, first + len(taken)), problems, lines, too_long_bytes)

    for element in elements(texts, max_line_bytes):
        taken.append(element)
        held_bytes += len(element.value)
        if held_bytes >= BLOCK_BYTES or len(taken) == _ELEMENTS_AT_ONCE:
            yield batch()
            first, taken, held_bytes = first + len(taken), [], 0
    if taken:
        yield batch()


def _head(texts: Iterator[bytes]) -> list[bytes]:
    """The first texts, of HEAD_BYTES together."""
    head: list[bytes] = []
    size = 0
    for text in texts:
        head.append(text)
        size += len(text)
        if size >= HEAD_BYTES:
            break
    return head


def _blocks(texts: Iterable[bytes], file: str, max_line_bytes: int) -> Iterator[Block | pa.RecordBatch]:
    lines = 0
    for found in whole_lines(texts, max_line_bytes):
        if isinstance(found, LongLine):
            yield lines_batch([b""], file, [lines], too_long_bytes=[found.size_bytes])
            lines += 1
            continue
        yield Block(found.removeprefix(BYTE_ORDER_MARK) if lines == 0 else found, file, lines)
        lines += found.count(b"\n")


def _opened(file: str) -> tuple[pa.NativeFile, str | None]:
    """The file to read, and how it is packed; Arrow's own files seek, which pipes cannot.

    Standard input has no name to say so, and other pipes need not: they are gzip if they begin as gzip does.
    """
    codec = CODECS.get(os.path.splitext(file)[1].lower())
    if not is_pipe(file):
        return pa.OSFile(os.fsencode(file)), codec
    from_start = file != STANDARD_INPUT
    opened = open(file if from_start else 0, "rb", closefd=from_start)  # noqa: SIM115 - the caller closes it
    packed = codec is None and opened.peek(len(_GZIP_MARK))[: len(_GZIP_MARK)] == _GZIP_MARK
    return pa.PythonFile(opened), "gzip" if packed else codec


def _texts(file: str, before_block: Callable[[], None]) -> Iterator[bytes]:
    suffix = os.path.splitext(file)[1].lower()
    if suffix in _SPARK_ONLY:
        raise unusable_path(file, f"{suffix} files are read by Spark only")
    codec = None
    try:
        opened, codec = _opened(file)
        with opened as raw:
            stream = raw if codec is None else pa.CompressedInputStream(raw, codec)
            before_block()
            while text := stream.read(BLOCK_BYTES):
                yield text
                before_block()
    except OSError as error:
        if codec == "gzip" and error.errno is None:  # not the system's, so the codec's
            raise incomplete_gzip(file) from None
        raise unreadable_file(file, error.strerror or str(error)) from None
