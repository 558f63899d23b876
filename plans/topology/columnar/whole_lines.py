"""A stream of text cut into whole lines, in bounded memory."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple


class LongLine(NamedTuple):
    """In place of a line that was longer than allowed: its size without the newline."""

    size_bytes: int


def whole_lines(texts: Iterable[bytes], max_line_bytes: int) -> Iterator[bytes | LongLine]:
    """The lines of `texts` in order: many together, each with its newline, or one LongLine.

    The last line of `texts` may lack its newline. Of a line longer than `max_line_bytes` no more than that
    (and one text) is ever held.
    """
    open_line: list[bytes] = []
    size = 0
    for text in texts:
        end = text.find(b"\n")
        if end >= 0 and size + end > max_line_bytes:
            yield LongLine(size + end)
            open_line, size = [], 0
            text = text[end + 1 :]  # noqa: PLW2901 - what follows the long line
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
    """`text`, which ends with a newline, cut at the lines that are too long."""
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
