"""Pieces of output, made printable where they are printed: styled text, and tables for notebooks."""

import os
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple, TextIO

from penstock.plans.printable import printable

# Tables for notebooks. Names are foreign: they are escaped, and hidden characters shown.


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table as HTML."""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<div><p>{_text(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return escape(printable(text))


# Pieces of what commands say to people: foreign text, made printable where it is printed.


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


_GAP = 2


Cell = Piece | Sequence[str]
"""A sequence of strings: lines of one cell."""
