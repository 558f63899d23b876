"""Tables for notebooks. Names are foreign: they are escaped, and hidden characters shown."""

from collections.abc import Iterable, Sequence
from html import escape

from penstock.plans.printable import printable


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A heading and a table as HTML."""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f"<div><p>{_text(title)}</p><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _text(text: str) -> str:
    return escape(printable(text))
