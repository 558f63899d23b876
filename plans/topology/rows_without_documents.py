"""Lines of files that Spark reads, but of those that are JSON documents."""

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

from plans.topology.json_documents import BYTE_ORDER_MARK, HEAD_BYTES, is_document, may_open_document


def rows_without_documents(
    rows: Iterable[tuple[Any, ...]], documents: list[str]
) -> Iterator[tuple[Any, ...]]:
    """The rows but those of a file's first block if it is a document, which is added to `documents`."""
    for (file, start), of_block in groupby(rows, itemgetter(1, 2)):
        if file is None or start != 0:
            yield from of_block
            continue
        head: list[tuple[Any, ...]] = []
        size, opened = 0, False
        for row in of_block:
            head.append(row)
            size += len(row[0]) + 1
            if not opened and row[0].removeprefix(BYTE_ORDER_MARK).strip():
                opened = may_open_document(row[0])
                if not opened:
                    break
            if size >= HEAD_BYTES:
                break
        numbered = head[0][3] is not None  # elements of a document that was read through a pipe
        if opened and not numbered and is_document(b"".join(row[0] + b"\n" for row in head)[:HEAD_BYTES]):
            documents.append(file)
            continue
        yield from chain(head, of_block)  # noqa: B031 - the rest of the block
