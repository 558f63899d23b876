"""Read topology files (docs/topology-files.md) into the tables of the topology layer."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import pyarrow as pa

from penstock.plans.frames.compiled import expect_rows
from penstock.plans.planners.plan_in_parts import one_after_the_other
from penstock.plans.topology.find_topology_files import find_topology_files
from penstock.plans.topology.input_errors import MAX_LINE_BYTES, no_files_given, no_topologies
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, Element, elements, is_document
from penstock.plans.topology.lines_batch import lines_batch
from penstock.plans.topology.parse_block import BYTES_PER_ROW, LineBlock, parse_block
from penstock.plans.topology.parse_lines import parse_lines
from penstock.plans.topology.topologies_of_lines import (
    TopologyTables,
    topologies_in_parts,
    topologies_of_lines,
)
from penstock.plans.topology.unpacked_texts import BLOCK_BYTES, texts_of_file

_ELEMENTS_AT_ONCE = 1_000


def read_topology_files(
    paths: Sequence[str],
    max_line_bytes: int = MAX_LINE_BYTES,
    before_block: Callable[[], None] = lambda: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> TopologyTables:
    """Read JSON lines and documents from local files, compressed files, directories (recursively) and globs.

    A line, or an element of a document, of more than `max_line_bytes` is rejected and not held in memory.
    `before_block` is called before each block is read; its exceptions stop the reading. `job_defaults` fill
    in settings that topologies leave unset. See json_documents for the definition of a document.

    Bad lines and topologies are rows of `rejected` by file and line. A path that exists is taken literally,
    even if it looks like a glob. Files on other file systems are an InputError.
    """
    tables = topologies_of_lines(_parsed(paths, max_line_bytes, before_block, job_defaults))
    if tables.inputs == 0:
        raise no_topologies(paths)
    return tables


def read_topology_files_in_parts(
    paths: Sequence[str],
    rows_of_a_part: int,
    max_line_bytes: int = MAX_LINE_BYTES,
    before_block: Callable[[], None] = lambda: None,
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> Iterator[TopologyTables]:
    """read_topology_files in parts of about `rows_of_a_part` transformations and stream nodes.

    Parts are read on demand; the first one raises errors of the paths.
    """
    inputs = 0
    for part in topologies_in_parts(
        _parsed(paths, max_line_bytes, before_block, job_defaults), rows_of_a_part
    ):
        inputs += part.inputs
        if inputs == 0:
            raise no_topologies(paths)
        yield part


def _parsed(
    paths: Sequence[str], max_line_bytes: int, before_block: Callable[[], None], job_defaults: JobDefaults
) -> Iterator[pa.RecordBatch]:
    """Yield PARSED of all lines."""
    if not paths:
        raise no_files_given()
    files = find_topology_files(paths)
    expect_rows(sum(os.path.getsize(file) for file in files if os.path.isfile(file)) // BYTES_PER_ROW)
    blocks = blocks_of_files(files, max_line_bytes, before_block)
    yield from parsed_blocks(blocks, max_line_bytes, job_defaults)


def parsed_blocks(
    blocks: Iterable[LineBlock | pa.RecordBatch], max_line_bytes: int, job_defaults: JobDefaults
) -> Iterator[pa.RecordBatch]:
    """Yield PARSED of the results of blocks_of_files, several blocks at a time."""

    def parse(block: LineBlock | pa.RecordBatch) -> list[pa.RecordBatch]:
        if isinstance(block, LineBlock):
            return parse_block(block, job_defaults)
        return list(parse_lines([block], max_line_bytes, job_defaults))

    yield from chain.from_iterable(one_after_the_other(parse, blocks))


def blocks_of_files(
    files: Sequence[str], max_line_bytes: int, before_block: Callable[[], None] = lambda: None
) -> Iterator[LineBlock | pa.RecordBatch]:
    """Yield the lines of the files, in order, some megabytes at a time. Raises InputError.

    Yields LINES for lines that are too long, and for documents, whose elements have ordinals of their own.
    """
    for file in files:
        name = os.fsencode(file).decode(errors="backslashreplace")  # escapes bytes that are not UTF-8
        texts = texts_of_file(file, before_block)
        head = head_of(texts)
        texts = chain(head, texts)
        if is_document(b"".join(head)[:HEAD_BYTES]):
            yield from elements_as_lines(texts, name, max_line_bytes)
        else:
            yield from _blocks(texts, name, max_line_bytes)


def elements_as_lines(
    texts: Iterable[bytes], file: str | None, max_line_bytes: int
) -> Iterator[pa.RecordBatch]:
    """Yield the elements of a document, each with its position and its line, as LINES."""
    first = 0
    pending: list[Element] = []
    pending_bytes = 0

    def batch() -> pa.RecordBatch:
        values, lines, too_long_bytes, problems = zip(*pending, strict=True)
        return lines_batch(values, file, range(first, first + len(pending)), problems, lines, too_long_bytes)

    for element in elements(texts, max_line_bytes):
        pending.append(element)
        pending_bytes += len(element.value)
        if pending_bytes >= BLOCK_BYTES or len(pending) == _ELEMENTS_AT_ONCE:
            yield batch()
            first, pending, pending_bytes = first + len(pending), [], 0
    if pending:
        yield batch()


def head_of(texts: Iterator[bytes]) -> list[bytes]:
    """Return the first texts, of HEAD_BYTES together."""
    head: list[bytes] = []
    size = 0
    for text in texts:
        head.append(text)
        size += len(text)
        if size >= HEAD_BYTES:
            break
    return head


def _blocks(texts: Iterable[bytes], file: str, max_line_bytes: int) -> Iterator[LineBlock | pa.RecordBatch]:
    lines = 0
    for piece in whole_lines(texts, max_line_bytes):
        if isinstance(piece, LongLine):
            yield lines_batch([b""], file, [lines], too_long_bytes=[piece.size_bytes])
            lines += 1
            continue
        yield LineBlock(piece.removeprefix(BYTE_ORDER_MARK) if lines == 0 else piece, file, lines)
        lines += piece.count(b"\n")


# A stream of text cut into whole lines, in bounded memory.


class LongLine(NamedTuple):
    """A replacement for a line that is longer than allowed, with the line's size without the newline."""

    size_bytes: int


def whole_lines(texts: Iterable[bytes], max_line_bytes: int) -> Iterator[bytes | LongLine]:
    """Yield the lines of `texts` in order, as many together, each with its newline, or as one LongLine.

    The last line of `texts` may lack its newline. For a line longer than `max_line_bytes`, at most that many
    bytes and one text are in memory.
    """
    open_line: list[bytes] = []
    size = 0
    for text in texts:
        end = text.find(b"\n")
        if end >= 0 and size + end > max_line_bytes:
            yield LongLine(size + end)
            open_line, size = [], 0
            text = text[end + 1 :]  # noqa: PLW2901 - the text after the long line
        whole, newline, rest = text.rpartition(b"\n")
        if newline:
            yield from _without_long_lines(b"".join([*open_line, whole, newline]), max_line_bytes)
            open_line, size = [], 0
        open_line.append(rest)
        size += len(rest)
        if size > max_line_bytes:
            open_line.clear()
    if size > max_line_bytes:
        yield LongLine(size)
    elif size:
        yield b"".join([*open_line, b"\n"])


def _without_long_lines(text: bytes, max_line_bytes: int) -> Iterator[bytes | LongLine]:
    """Cut `text`, which ends with a newline, at the lines that are too long."""
    if len(text) <= max_line_bytes + 1:
        yield text
        return
    start = 0
    begin = 0
    while begin < len(text):
        end = text.index(b"\n", begin)
        if end - begin > max_line_bytes:
            if start < begin:
                yield text[start:begin]
            yield LongLine(end - begin)
            start = end + 1
        begin = end + 1
    if start < len(text):
        yield text[start:]


# Lines of FIFOs and other files that can be read once, from the start, by one process.


def lines_of_pipes(pipes: Sequence[str], max_line_bytes: int = MAX_LINE_BYTES) -> dict[str, pa.Table]:
    """Return LINES, in memory, of `pipes`; a pipe that is named twice is read once.

    For a line longer than `max_line_bytes`, only its size is stored. Raises InputError for a pipe that cannot
    be read to its end.
    """
    schema = lines_batch([], None, []).schema
    lines_by_path: dict[str, pa.Table] = {}
    read: set[str] = set()
    for path in pipes:
        files = [file for file in find_topology_files([path]) if file not in read]
        read.update(files)
        batches = []
        for block in blocks_of_files(files, max_line_bytes):
            if not isinstance(block, LineBlock):
                batches.append(block)
                continue
            data, file, first = block
            values = data.split(b"\n")[:-1]
            batches.append(lines_batch(values, file, range(first, first + len(values))))
        lines_by_path.setdefault(path, pa.Table.from_batches(batches, schema))
    return lines_by_path
