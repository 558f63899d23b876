"""Lines of text of a file or of a range of its bytes, as Java's BufferedReader cuts them: \\n, \\r or \\r\\n.

Python's `splitlines` cuts at more (form feed, line separator, …), so that it is not used.
"""

import codecs
from collections.abc import Iterator
from typing import IO

from penstock.operators.files.open_file import is_compressed, open_at, open_bytes
from penstock.operators.files.splits import FileSplit

_BLOCK = 256 << 10

#: Charsets in which the bytes 10 and 13 are line ends and nothing else: their files can be cut anywhere.
_CUTTABLE = ("utf-8", "ascii", "iso8859", "cp125", "cp437", "koi8", "mac-roman")


def python_charset(name: str) -> str:
    """Python's name of a charset that Java's Charset.forName knows; LookupError for an unknown one."""
    return codecs.lookup(name).name


def can_be_cut(charset: str) -> bool:
    """Whether a range of bytes of a file of this charset can be read by itself."""
    return python_charset(charset).startswith(_CUTTABLE)


def read_lines(split: FileSplit, charset: str) -> Iterator[list[str]]:
    """The lines that start in a split, in lists of some hundred KB of text; malformed bytes become U+FFFD."""
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
            lines.pop()  # after the last line end there is no line
        if lines:
            yield lines


def line_blocks(split: FileSplit) -> Iterator[bytes]:
    """The bytes of the lines that start in a split of an uncompressed file, cut after line ends."""
    end = split.start + split.length
    with open_at(split.path, max(split.start - 1, 0)) as file:
        rest = b"" if split.start == 0 else _behind_line_end(file)
        # file position is split.start - 1 + what was read; `rest` is what of that starts a line
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


def _behind_line_end(file: IO[bytes]) -> bytes:
    """Skip the line that starts before the split; gives what was read after its end."""
    carry = b""
    while block := file.read(_BLOCK):
        block = carry + block
        stop = _line_end(block, 0)
        if stop is not None:
            return block[stop:]
        carry = block[-1:] if block.endswith(b"\r") else b""
    return b""


def _line_end(block: bytes, start: int) -> int | None:
    """The end of the line that holds byte `start` (after its line end); None if not within `block`."""
    newline, carriage = block.find(b"\n", start), block.find(b"\r", start)
    if carriage < 0 or 0 <= newline < carriage:
        return None if newline < 0 else newline + 1
    if carriage + 1 == len(block):
        return None  # a \n may follow in the next block
    return carriage + (2 if block[carriage + 1] == 10 else 1)


def _last_line_end(block: bytes) -> int:
    """The end of the last line that ends within `block`; 0 if none does."""
    if block.endswith(b"\r"):
        block = block[:-1]
    return max(block.rfind(b"\n"), block.rfind(b"\r")) + 1


def _decoded_lines(file: IO[bytes], charset: str) -> Iterator[list[str]]:
    """Lines of a stream that can only be read from its beginning."""
    first = file.read(_BLOCK)
    if charset == "utf-16" and not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        charset = "utf-16-be"  # Java's choice where no byte order mark says otherwise
    decoder = codecs.getincrementaldecoder(charset)("replace")
    rest, block = "", first
    while block:
        text = rest + decoder.decode(block)
        held = text.endswith("\r")  # a \n may follow in the next block
        if held:
            text = text[:-1]
        lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        rest = lines.pop() + ("\r" if held else "")
        if lines:
            yield lines
        block = file.read(max(_BLOCK, len(rest)))
    rest = (rest + decoder.decode(b"", True)).replace("\r\n", "\n").replace("\r", "\n")
    if rest:
        yield rest.removesuffix("\n").split("\n")
