"""Tables and text for people: coloured and cut to the terminal, plain and whole where piped."""

import sys
from typing import TextIO

from rich.console import Console
from rich.table import Table


def console_for_people() -> Console:
    """Standard output; where it is no terminal, lines are not cut and hold no control codes."""
    return _console(sys.stdout)


def console_beside_output() -> Console:
    """The same for standard error: what is said beside the output of a script."""
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    if stream.isatty():
        return Console(highlight=False, file=stream)
    return Console(highlight=False, no_color=True, width=1_000_000, soft_wrap=True, file=stream)


def print_table(table: Table) -> None:
    """A rich table on a terminal; tab-separated lines with a heading where piped."""
    console = console_for_people()
    if console.is_terminal:
        console.print(table)
        return
    columns = [[str(column.header), *map(_one_line, column.cells)] for column in table.columns]
    for cells in zip(*columns, strict=True):
        sys.stdout.write("\t".join(cells) + "\n")


def _one_line(cell: object) -> str:
    return str(cell).replace("\n", "; ").replace("\t", " ")
