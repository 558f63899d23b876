"""What commands show to people in tables: foreign text, made printable here. For single lines see `say`.

Tables and lines are coloured and cut to a terminal, plain and whole where piped.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from penstock.engine.output.pieces import _GAP, Cell, Piece, Styled, encodable, plain
from penstock.plans.printable import printable


def print_table(columns: Sequence[Column], *groups: Iterable[Sequence[Cell]]) -> None:
    """Groups of rows: a table with lines between groups on a terminal, else as print_rows with a heading.

    On a terminal too narrow for it, where words would break, each row is a block of its own. `columns` say
    header and layout; their headers are printed as they are, as names are.
    """
    if not is_terminal():
        print_rows([[str(column.header) for column in columns], *(row for rows in groups for row in rows)])
        return
    _print_fitting(columns, groups, sys.stdout)


def print_table_beside_output(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """A table on standard error, which is a terminal."""
    _print_fitting(columns, [rows], sys.stderr)


@contextmanager
def status_beside_output(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` on standard error, which is a terminal, until the block ends; gives what replaces it."""
    with _console(sys.stderr).status(printable_text(text, sys.stderr)) as status:
        yield lambda new: status.update(printable_text(new, sys.stderr))


def print_rows(rows: Iterable[Sequence[Cell]]) -> None:
    """Lines of cells with tabs between; no cell holds a tab or a line feed."""
    for row in rows:
        sys.stdout.write(encodable("\t".join(map(_plain, row)), sys.stdout) + "\n")


def is_terminal() -> bool:
    """Whether standard output is one, as Rich decides it."""
    return _console(sys.stdout).is_terminal


def printable_text(piece: Piece, stream: TextIO) -> Text:
    """`piece` as Rich prints it on `stream`: no markup, no control codes."""
    text, style = (piece, "") if isinstance(piece, str) else piece
    return Text(encodable(printable(text), stream), style)


def print_on_terminal(stream: TextIO, pieces: Sequence[Piece]) -> bool:
    """Print one line, unless `stream` is no terminal; whether it was printed."""
    console = _console(stream)
    if console.is_terminal:
        console.print(Text.assemble(*(printable_text(piece, stream) for piece in pieces)))
    return console.is_terminal


def _print_fitting(
    columns: Sequence[Column], groups: Sequence[Iterable[Sequence[Cell]]], stream: TextIO
) -> None:
    listed = [list(rows) for rows in groups]
    console = _console(stream)
    table = _table(columns, listed, stream)
    if _least_width(table) <= console.width:
        console.print(table)
        return
    for row in (row for rows in listed for row in rows):
        console.print(_block(columns, row, stream, console.width))
        console.print()


def _least_width(table: Table) -> int:
    """Characters in a line of the table where each word is whole, and each cell that may not be wrapped.

    Rich's own measure does not know that some columns are not wrapped.
    """
    widths = [
        max(
            cell_len(part)
            for cell in (column.header, *column.cells)
            for part in (str(cell).splitlines() if column.no_wrap else str(cell).split()) or [""]
        )
        for column in table.columns
    ]
    return sum(widths) + len(" │ ") * (len(widths) - 1)


def _block(columns: Sequence[Column], row: Sequence[Cell], stream: TextIO, width: int) -> Table:
    """One row of a table: each header beside its cell, or above it if words would break."""
    headers = [printable_text(str(column.header), stream) for column in columns]
    cells = [_cell(cell, stream) for cell in row]
    longest_word = max((cell_len(word) for cell in cells for word in str(cell).split()), default=0)
    beside = max(header.cell_len for header in headers) + _GAP + longest_word <= width
    block = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in range(1 + beside):
        block.add_column(overflow="fold")
    for header, cell in zip(headers, cells, strict=True):
        header.stylize("bold")
        for together in ((header, cell),) if beside else ((header,), (cell,)):
            block.add_row(*together)
    return block


def _table(columns: Sequence[Column], groups: Iterable[Iterable[Sequence[Cell]]], stream: TextIO) -> Table:
    table = Table(show_edge=False, pad_edge=False)
    for column in columns:
        table.add_column(
            printable_text(str(column.header), stream),
            justify=column.justify,
            no_wrap=column.no_wrap,
            overflow="fold",
        )
    for rows in groups:
        for row in rows:
            table.add_row(*(_cell(cell, stream) for cell in row))
        table.add_section()
    return table


def _cell(cell: Cell, stream: TextIO) -> Text:
    if isinstance(cell, str | Styled):
        return printable_text(cell, stream)
    return Text("\n").join(printable_text(line, stream) for line in cell)


def _plain(cell: Cell) -> str:
    return plain(cell) if isinstance(cell, str | Styled) else "; ".join(map(printable, cell))


def _console(stream: TextIO) -> Console:
    return Console(highlight=False, file=stream)
