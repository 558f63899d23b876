"""Styled text and tables for notebooks, with foreign text that is made printable when it is printed."""

import os
from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple, TextIO

from penstock.plans.printable import printable

# Tables for notebooks. Names are foreign text: they are escaped, and hidden characters become visible.


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format a heading and a table as HTML."""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<div><p>{_text(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return escape(printable(text))


# Pieces of lines: foreign text, made printable when it is printed.


class StyledText(NamedTuple):
    """Text in a style of Rich, such as `bold` or `red`, on a terminal with colours."""

    text: str
    style: str


Piece = str | StyledText


def may_be_terminal(stream: TextIO) -> bool:
    """Return whether `stream` is a terminal, or the environment may make Rich treat it as one."""
    if os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE"):
        return True
    try:
        return stream.isatty()
    except ValueError:  # it is closed
        return False


def plain(piece: Piece) -> str:
    """Return the text of `piece` without colours."""
    return printable(piece.text if isinstance(piece, StyledText) else piece)


def encodable(text: str, stream: TextIO) -> str:
    """Replace characters that the encoding of `stream` lacks by escapes."""
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


_GAP = 2


Cell = Piece | Sequence[str]
"""A sequence of strings: lines of one cell."""
