"""Fixtures of passes: small tables as text, one file per pass in fixtures/.

A file is named after the table that its pass produces. A line that starts with `==` begins a case and names
it. Text before the first case says what the file is about. A case holds, separated by blank lines:

- settings, as `key = value`: of the topology, its stream graph, Flink (keys with a dot) or the cluster;
- what is given: the table `transformations`, or the tables `given_stream_nodes` and `given_stream_edges`.
  Columns that it does not have keep their defaults; operators without a name are n1, n2, …;
- tables that the pass reads, and after `->` the one that it produces. They are compared with what a planner
  derives, in the columns that they have and in any order of rows.

A table is its name, its columns and its rows. Cells are separated by two spaces or more; `-` is null and
`""` an empty text.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from penstock.plans.passes import PASSES

FOLDER = Path(__file__).parent / "fixtures"
GIVEN = ("transformations", "given_stream_nodes", "given_stream_edges")
ARROW = "->"
RULES = [entry for entry in PASSES if entry.flink]
"""Passes that state a rule of Flink; each has a fixture."""

_SERVING = {entry.produces: entry.reads for entry in PASSES if not entry.flink}
"""Tables that fixtures leave out, because they only serve passes: what those are derived from."""

_BEFORE = {"expanded_transformations": "transformations"}
"""What a pass reads to what a fixture shows instead: where no sink is expanded the two are the same."""

WIDEST_EXAMPLE = 102
_GAP = re.compile(r" {2,}")


class Shown(NamedTuple):
    """Some columns of a table, as text."""

    table: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def text(self) -> str:
        """The table as a fixture holds it."""
        return aligned(self.table, self.columns, self.rows)


class Case(NamedTuple):
    """One topology, and tables that planning it gives."""

    produces: str
    title: str
    settings: dict[str, str]
    tables: tuple[Shown, ...]

    @property
    def name(self) -> str:
        """The topology's name."""
        return f"{self.produces}: {self.title}"

    def given(self, table: str) -> Shown | None:
        """The given table of that name, if the case has it."""
        return next((shown for shown in self.tables if shown.table == table and table in GIVEN), None)

    def example(self, reads: Iterable[str]) -> str:
        """The tables that a pass reads, and the one that it produces: what a docstring shows.

        They stand side by side if a docstring is wide enough for that.
        """
        before = [shown.text() for shown in self.tables[:-1] if shown.table in shown_instead(reads)]
        after = self.tables[-1].text()
        return _side_by_side(before, after) or "\n\n".join([*before, f"{ARROW} {after}"])


def shown_instead(reads: Iterable[str]) -> set[str]:
    """The tables that fixtures of a pass show of those that it reads."""
    shown: set[str] = set()
    for table in reads:
        shown |= shown_instead(_SERVING[table]) if table in _SERVING else {_BEFORE.get(table, table)}
    return shown


def read_cases(produces: str) -> list[Case]:
    """The cases of the pass that produces this table. Raises FileNotFoundError where it has no fixture."""
    text = (FOLDER / f"{produces}.txt").read_text(encoding="utf-8")
    return [_case(produces, part) for part in re.split(r"^== ", text, flags=re.MULTILINE)[1:]]


def aligned(table: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table as text, its cells in columns."""
    lines = [columns, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(columns))]
    padded = ("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines)
    return "\n".join([table, *padded])


def _side_by_side(before: Sequence[str], after: str) -> str:
    """The tables from left to right, with an arrow to the last one; empty if that is too wide."""
    blocks = [table.splitlines() for table in (*before, after)]
    widths = [max(map(len, block)) for block in blocks]
    lines = []
    for number, cells in enumerate(zip_longest(*blocks, fillvalue="")):
        *left, right = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
        lines.append(f"{'   '.join(left)} {'  ' if number else ARROW} {right}".rstrip())
    return "\n".join(lines) if max(map(len, lines)) <= WIDEST_EXAMPLE else ""


def _case(produces: str, text: str) -> Case:
    title, _, body = text.partition("\n")
    settings: dict[str, str] = {}
    tables: list[Shown] = []
    for block in re.split(r"\n\s*\n", body.strip()):
        lines = block.splitlines()
        if " = " in lines[0]:
            settings |= dict(line.split(" = ", 1) for line in lines)
        else:
            table, header, *rows = lines
            tables.append(Shown(table.removeprefix(f"{ARROW} "), _cells(header), tuple(map(_cells, rows))))
            assert all(len(row) == len(tables[-1].columns) for row in tables[-1].rows), (title, table)
    assert tables[-1].table == produces, f"{title}: the last table is {tables[-1].table}"
    return Case(produces, title, settings, tuple(tables))


def _cells(line: str) -> tuple[str, ...]:
    return tuple(_GAP.split(line.strip()))


def shown(value: Any) -> str:
    """A value as a cell."""
    match value:
        case None:
            return "-"
        case "":
            return '""'
        case bool():
            return str(value).lower()
        case list():
            return f"[{', '.join(map(shown, value))}]"
        case dict():
            return f"{{{', '.join(f'{key}: {shown(item)}' for key, item in sorted(value.items()))}}}"
        case _:
            return str(value).replace("\n", "\\n")
