"""Cutting files over subtasks: whole files, and pieces of big ones.

Source: org.apache.flink.connector.file.src.enumerate.BlockSplittingRecursiveEnumerator; the assignment is
made once, by size, where Flink's assigners hand splits out on request.
"""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from penstock.operators.files.filesystem import FileEntry

#: No file is cut into pieces smaller than this, bytes.
SMALLEST_PIECE = 8 << 20


class FileSplit(NamedTuple):
    """A piece of a file: the records that start in these bytes, or that are in these row groups."""

    path: str
    start: int  #: bytes
    length: int  #: bytes
    details: Any = None  #: what else the format needs to read it: row groups, partition values


Cut = Callable[[FileEntry, int], list[FileSplit]]


def whole(file: FileEntry, piece: int) -> list[FileSplit]:
    """The file as one split."""
    return [FileSplit(file.path, 0, file.size)]


def by_bytes(file: FileEntry, piece: int) -> list[FileSplit]:
    """Equal ranges of bytes, of `piece` bytes or somewhat less; the last one may be shorter."""
    count = -(-file.size // piece)
    length = -(-file.size // count)
    starts = range(0, file.size, length)
    return [FileSplit(file.path, start, min(length, file.size - start)) for start in starts]


def split_files(files: Sequence[FileEntry], parallelism: int, cut: Cut) -> list[list[FileSplit]]:
    """The splits of each subtask; empty files have none.

    A piece is as much as a subtask gets where all get the same, so that one big file keeps all of them busy.
    """
    total = sum(file.size for file in files)
    piece = max(SMALLEST_PIECE, -(-total // parallelism))
    return balanced([split for file in files if file.size for split in cut(file, piece)], parallelism)


def balanced(splits: Iterable[FileSplit], parallelism: int) -> list[list[FileSplit]]:
    """`splits` over subtasks of about equal bytes; a subtask reads its own in the order they came in."""
    numbered = list(enumerate(splits))
    loads = [(0, subtask) for subtask in range(parallelism)]
    owner: dict[int, int] = {}
    for number, split in sorted(numbered, key=lambda pair: (-pair[1].length, pair[0])):
        load, subtask = heapq.heappop(loads)
        owner[number] = subtask
        heapq.heappush(loads, (load + split.length, subtask))
    result: list[list[FileSplit]] = [[] for _ in range(parallelism)]
    for number, split in numbered:
        result[owner[number]].append(split)
    return result
