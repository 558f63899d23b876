"""Pieces of what commands say to people: foreign text, made printable where it is printed."""

import os
from typing import NamedTuple, TextIO

from penstock.plans.printable import printable


class Styled(NamedTuple):
    """Text in one of Rich's styles, such as `bold` or `red`, on a terminal that has colours."""

    text: str
    style: str


Piece = str | Styled


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
    """The text with an escape for each character that the encoding of `stream` lacks."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
