"""What commands say to people in single lines: foreign text, made printable here.

Rich, which takes a tenth of a second to import, is used on terminals only.
"""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple, TextIO

from engine.output.redaction import redact
from plans.printable import printable, printable_lines


class Styled(NamedTuple):
    """Text in one of Rich's styles, such as `bold` or `red`, on a terminal that has colours."""

    text: str
    style: str


Piece = str | Styled


def say(*pieces: Piece) -> None:
    """One line on standard output."""
    _say(sys.stdout, pieces)


def say_beside_output(*pieces: Piece) -> None:
    """One line on standard error: what is said beside the output of a command or script."""
    _say(sys.stderr, pieces)


def complain(message: str) -> None:
    """A message of one line or more on standard error, without the secrets of settings."""
    with suppress(OSError):  # nobody may be there to read it
        sys.stderr.write(encodable(printable_lines(redact(message)), sys.stderr) + "\n")


def may_be_terminal(stream: TextIO) -> bool:
    """Whether `stream` is a terminal, or the environment may make Rich take it for one; Rich decides."""
    if os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE"):
        return True
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def plain(piece: Piece) -> str:
    """`piece` where there are no colours."""
    return printable(piece.text if isinstance(piece, Styled) else piece)


def encodable(text: str, stream: TextIO) -> str:
    """What `stream` can write: a character that its encoding lacks becomes an escape."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _say(stream: TextIO, pieces: Sequence[Piece]) -> None:
    if may_be_terminal(stream):
        from engine.output.people import said_on_terminal

        if said_on_terminal(stream, pieces):
            return
    stream.write(encodable("".join(map(plain, pieces)), stream) + "\n")
