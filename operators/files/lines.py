"""Lines of text of a file or of a range of its bytes, cut as by Java's BufferedReader: \\n, \\r or \\r\\n.

Python's `splitlines` cuts at further characters (form feed, line separator, …).
"""

import codecs
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple

from penstock.operators.files.filesystem import FileEntry, is_compressed, open_at, open_bytes

# Cutting files over subtasks: whole files, and pieces of big ones
#
# Source: org.apache.flink.connector.file.src.enumerate.BlockSplittingRecursiveEnumerator; splits are assigned
# once, by size, while Flink's assigners distribute them on request.


#: No file is cut into pieces of fewer bytes than this.
SMALLEST_PIECE = 8 << 20


class FileSplit(NamedTuple):
    """A piece of a file, with the records that start in these bytes, or that are in these row groups."""

    path: str
    start: int  #: bytes
    length: int  #: bytes
    details: Any = None  #: other data for the format: row groups, partition values


Cut = Callable[[FileEntry, int], list[FileSplit]]


def whole(file: FileEntry, piece: int) -> list[FileSplit]:
    """Return the file as one split."""
    return [FileSplit(file.path, 0, file.size)]


def by_bytes(file: FileEntry, piece: int) -> list[FileSplit]:
    """Return equal ranges of bytes, of `piece` bytes or slightly less; the last one may be shorter."""
    count = -(-file.size // piece)
    length = -(-file.size // count)
    starts = range(0, file.size, length)
    return [FileSplit(file.path, start, min(length, file.size - start)) for start in starts]


def split_files(files: Sequence[FileEntry], parallelism: int, cut: Cut) -> list[list[FileSplit]]:
    """Return the splits of each subtask; empty files have none.

    A piece is an equal share of all bytes per subtask, so that one big file keeps all of them busy.
    """
    total = sum(file.size for file in files)
    piece = max(SMALLEST_PIECE, -(-total // parallelism))
    return balanced([split for file in files if file.size for split in cut(file, piece)], parallelism)


def balanced(splits: Iterable[FileSplit], parallelism: int) -> list[list[FileSplit]]:
    """Distribute `splits` over subtasks of about equal bytes; each reads its splits in their given order."""
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


_BLOCK = 256 << 10

#: Charsets in which the bytes 10 and 13 can only be line ends: their files can be cut anywhere.
_CUTTABLE = ("utf-8", "ascii", "iso8859", "cp125", "cp437", "koi8", "mac-roman")


def python_charset(name: str) -> str:
    """Return Python's name of a Java charset. Raises LookupError for an unknown one."""
    return codecs.lookup(name).name


def can_be_cut(charset: str) -> bool:
    """Whether a range of bytes of a file of this charset can be read independently."""
    return python_charset(charset).startswith(_CUTTABLE)


def read_lines(split: FileSplit, charset: str) -> Iterator[list[str]]:
    """Yield the lines that start in a split, in lists of some hundred KB; malformed bytes become U+FFFD."""
    name = python_charset(charset)
    if split.start == 0 and (is_compressed(split.path) or not can_be_cut(charset)):
        with open_bytes(split.path) as file:
            yield from _decoded_lines(file, name)
        return
    for block in line_blocks(split):
        text = block.decode(name, "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        lines = text.split("\n")
        if not lines[-1]:
            lines.pop()  # no line follows the last line end
        if lines:
            yield lines


def line_blocks(split: FileSplit) -> Iterator[bytes]:
    """Yield the bytes of the lines that start in a split of an uncompressed file, cut after line ends."""
    end = split.start + split.length
    with open_at(split.path, max(split.start - 1, 0)) as file:
        rest = b"" if split.start == 0 else _after_line_end(file)
        # the file position is split.start - 1 + the bytes read; `rest` is the part of them that starts a line
        position = file.tell() - len(rest)
        while position < end:
            block = rest + file.read(max(_BLOCK, len(rest)))  # no quadratic time for one long line
            at_end = len(block) == len(rest)
            within = end - position
            if len(block) > within:
                # the line that holds byte `end - 1` is the last one, up to its line end
                stop = _line_end(block, within - 1)
                if stop is not None:
                    yield block[:stop]
                    return
            if at_end:
                if block:
                    yield block
                return
            cut = _last_line_end(block[: within if len(block) > within else None])
            if cut:
                yield block[:cut]
                position += cut
            rest = block[cut:]


def _after_line_end(file: IO[bytes]) -> bytes:
    """Skip the line that starts before the split; return the bytes that were read after its end."""
    carry = b""
    while block := file.read(_BLOCK):
        block = carry + block
        stop = _line_end(block, 0)
        if stop is not None:
            return block[stop:]
        carry = block[-1:] if block.endswith(b"\r") else b""
    return b""


def _line_end(block: bytes, start: int) -> int | None:
    """Return the end of the line with byte `start` (after its line end); None if it is not in `block`."""
    newline, carriage = block.find(b"\n", start), block.find(b"\r", start)
    if carriage < 0 or 0 <= newline < carriage:
        return None if newline < 0 else newline + 1
    if carriage + 1 == len(block):
        return None  # a \n may follow in the next block
    return carriage + (2 if block[carriage + 1] == 10 else 1)


def _last_line_end(block: bytes) -> int:
    """Return the end of the last line that ends within `block`; 0 if none does."""
    if block.endswith(b"\r"):
        block = block[:-1]
    return max(block.rfind(b"\n"), block.rfind(b"\r")) + 1


def _decoded_lines(file: IO[bytes], charset: str) -> Iterator[list[str]]:
    """Yield lines of a stream that can only be read from its beginning."""
    first = file.read(_BLOCK)
    if charset == "utf-16" and not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        charset = "utf-16-be"  # Java's choice without a byte order mark
    decoder = codecs.getincrementaldecoder(charset)("replace")
    rest, block = "", first
    while block:
        text = rest + decoder.decode(block)
        ends_in_return = text.endswith("\r")  # a \n may follow in the next block
        if ends_in_return:
            text = text[:-1]
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest = lines.pop() + ("\r" if ends_in_return else "")
        if lines:
            yield lines
        block = file.read(max(_BLOCK, len(rest)))
    rest = (rest + decoder.decode(b"", True)).replace("\r\n", "\n").replace("\r", "\n")
    if rest:
        yield rest.removesuffix("\n").split("\n")
