"""Print tables for people, with foreign text made printable. For single lines see print_line.

Tables and lines are coloured and cut to the width of a terminal; piped, they are plain and complete.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from penstock.engine.output.pieces import _GAP, Cell, Piece, StyledText, encodable, plain
from penstock.plans.printable import printable


def print_table(columns: Sequence[Column], *groups: Iterable[Sequence[Cell]]) -> None:
    """Print groups of rows as a table with lines between groups on a terminal, else as print_rows does.

    If words would break because the terminal is too narrow, each row becomes a block. `columns` define
    headers and layout; headers are printed literally, like cells, and are the first row of piped output.
    """
    if not is_terminal():
        print_rows([[str(column.header) for column in columns], *(row for rows in groups for row in rows)])
        return
    _print_fitting(columns, groups, sys.stdout)


def print_table_beside_output(columns: Sequence[Column], rows: Iterable[Sequence[Cell]]) -> None:
    """Print a table on standard error, which is a terminal."""
    _print_fitting(columns, [rows], sys.stderr)


@contextmanager
def status_beside_output(text: str) -> Iterator[Callable[[str], None]]:
    """Show `text` on standard error (a terminal) inside the block; yield a function to replace it."""
    with _console(sys.stderr).status(printable_text(text, sys.stderr)) as status:
        yield lambda new: status.update(printable_text(new, sys.stderr))


def print_rows(rows: Iterable[Sequence[Cell]]) -> None:
    """Print lines of cells separated by tabs; cells contain neither tabs nor line feeds."""
    for row in rows:
        sys.stdout.write(encodable("\t".join(map(_plain, row)), sys.stdout) + "\n")


def is_terminal() -> bool:
    """Return whether Rich treats standard output as a terminal."""
    return _console(sys.stdout).is_terminal


def printable_text(piece: Piece, stream: TextIO) -> Text:
    """Convert `piece` to Rich's text for `stream`, without markup and control codes."""
    text, style = (piece, "") if isinstance(piece, str) else piece
    return Text(encodable(printable(text), stream), style)


def print_on_terminal(stream: TextIO, pieces: Sequence[Piece]) -> bool:
    """Print one line if `stream` is a terminal; return whether it was printed."""
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
    """Return the width of the table with no word broken, and no cell wrapped that must not be.

    Rich's own measure ignores that some columns are not wrapped.
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
    """Format a row of a table as a block, with headers beside cells, or above them if words would break."""
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
    if isinstance(cell, str | StyledText):
        return printable_text(cell, stream)
    return Text("\n").join(printable_text(line, stream) for line in cell)


def _plain(cell: Cell) -> str:
    return plain(cell) if isinstance(cell, str | StyledText) else "; ".join(map(printable, cell))


def _console(stream: TextIO) -> Console:
    return Console(highlight=False, file=stream)
