"""Lines of files that Spark reads, parsed, with files that turn out to be JSON documents left out."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter

import pyarrow as pa

from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document, may_open_document
from penstock.plans.topology.parse_lines import Line, lines_of, parse_each
from penstock.plans.topology.parsed_batches import PARSED


def parse_all_but_documents(
    batches: Iterable[pa.RecordBatch],
    max_line_bytes: int | None,
    job_defaults: JobDefaults = NO_DEFAULTS,
    cut_bytes: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """For `mapInArrow` over LINES; gives batches of PARSED.

    As parse_lines, but the first block of a file that is a document (see json_documents) gives one row that
    says so; what its other blocks give is of no use.
    """
    documents: list[str] = []
    lines = _without_documents(lines_of(batches), documents)
    yield from parse_each(lines, max_line_bytes, job_defaults, cut_bytes)
    if documents:
        of_each = [{"source_file": file, "block_start": 0, "is_document": True} for file in documents]
        yield pa.RecordBatch.from_pylist(of_each, PARSED)


def _without_documents(lines: Iterable[Line], documents: list[str]) -> Iterator[Line]:
    """The lines but those of a file's first block if it is a document, which is added to `documents`."""
    for (file, start), of_block in groupby(lines, attrgetter("source_file", "block_start")):
        if file is None or start != 0:
            yield from of_block
            continue
        head: list[Line] = []
        size, opened = 0, False
        for line in of_block:
            head.append(line)
            size += len(line.value) + 1
            if not opened and line.value.removeprefix(BYTE_ORDER_MARK).strip():
                opened = may_open_document(line.value)
                if not opened:
                    break
            if size >= HEAD_BYTES:
                break
        if opened and is_document(b"".join(line.value + b"\n" for line in head)[:HEAD_BYTES]):
            documents.append(file)
            continue
        yield from chain(head, of_block)  # noqa: B031 - the rest of the block
