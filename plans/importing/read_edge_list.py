"""Edge lists as graphs: an edge on each line, its ends and what else is known of it."""

import csv
import io
import re
from collections.abc import Iterator, Sequence

from penstock.plans.bounds import MOST_EDGES, MOST_NODES, require_at_most
from penstock.plans.errors import InputError
from penstock.plans.importing.given_graph import EDGE_ATTRIBUTES, GivenEdge, GivenGraph, GivenNode
from penstock.plans.topology.rules import shorten
from penstock.plans.vocabulary import Partitioner

_FIELD_LIMIT = 131_072
"""Characters of a cell."""

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""By what a file's name ends in; others are separated by spaces or tabs."""

_SOURCES = ("source", "from", "src")
_TARGETS = ("target", "to", "dst", "destination")
_COMMENT = "#"
_PARTITIONERS = frozenset(map(str, Partitioner))
_WEIGHT = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE).fullmatch


def read_edge_list(text: str, separator: str | None, file: str, name: str) -> GivenGraph:
    """The graph of an edge list.

    A first line with a column `source` and one `target` (from, to; src, dst) names the columns: others are
    attributes of edges. Without it the first two columns are the ends; a third is the partitioner, a number,
    or an object, as networkx writes it, which is the attribute `data`. A line with one cell is a node. Blank
    lines, and those that begin with #, are left out. Raises InputError, with the number of the line.
    """
    rows = _rows(text, separator, file)
    header: Sequence[str] | None = None
    nodes: dict[str, GivenNode] = {}
    edges: list[GivenEdge] = []
    first = True
    for number, cells in rows:
        if first:
            first = False
            words = [cell.lower() for cell in cells]
            if any(word in _SOURCES for word in words) and any(word in _TARGETS for word in words):
                if twice := next((word for place, word in enumerate(words) if word in words[:place]), None):
                    raise _wrong(file, number, f"two columns {shorten(twice, 40)}", "each column once")
                header = words
                continue
        source, target, attributes = _edge(cells, header, file, number)
        nodes.setdefault(source, GivenNode(source, {}))
        if target is not None:
            nodes.setdefault(target, GivenNode(target, {}))
            edges.append(GivenEdge(source, target, attributes))
        require_at_most(len(nodes), MOST_NODES, "nodes")
        require_at_most(len(edges), MOST_EDGES, "edges")
    return GivenGraph(name, list(nodes.values()), edges)


def _rows(text: str, separator: str | None, file: str) -> Iterator[tuple[int, list[str]]]:
    """Number and cells of each row that has any; a row of several lines has the number of the last."""
    for number, cells in _cells(text, separator, file):
        plain = [cell.strip() for cell in cells]
        if any(plain) and not plain[0].startswith(_COMMENT):
            yield number, plain


def _cells(text: str, separator: str | None, file: str) -> Iterator[tuple[int, list[str]]]:
    if separator is None:
        for number, line in enumerate(io.StringIO(text, newline=None), 1):
            cells = line.partition(_COMMENT)[0].split(None, 2)
            is_object = cells[2:] and cells[2].startswith("{")
            yield number, cells if is_object else [*cells[:2], *"".join(cells[2:]).split()]
        return
    rows = csv.reader(
        io.StringIO(text, newline=None), delimiter=separator, skipinitialspace=True, strict=True
    )
    before = csv.field_size_limit(_FIELD_LIMIT)  # of the process; reading CSV records changes it, too
    try:
        for cells in rows:
            yield rows.line_num, cells
    except csv.Error as error:
        raise _wrong(file, rows.line_num, str(error), "CSV as of RFC 4180") from None
    finally:
        csv.field_size_limit(before)


def _edge(
    cells: Sequence[str], header: Sequence[str] | None, file: str, number: int
) -> tuple[str, str | None, dict[str, str]]:
    """Source, target (None: a node alone) and attributes."""
    if header is not None:
        row = dict(zip(header, cells, strict=False))
        if len(cells) > len(header):
            raise _wrong(file, number, f"{len(cells)} cells", f"{len(header)}, as in the first line")
        source = next((row[key] for key in _SOURCES if row.get(key)), "")
        target = next((row[key] for key in _TARGETS if row.get(key)), "")
        rest = {
            key: cell for key, cell in row.items() if cell and key not in _SOURCES and key not in _TARGETS
        }
    else:
        source, target, *others = [*cells, ""][: max(2, len(cells))]
        rest = _third(others, file, number)
    if not source:
        raise _wrong(file, number, f"{shorten(list(cells), 60)}, which has no source", "source and target")
    return source, target or None, rest


def _third(others: Sequence[str], file: str, number: int) -> dict[str, str]:
    """The cells after both ends, where no first line names columns, as an attribute."""
    cells = [cell for cell in others if cell]
    if not cells:
        return {}
    for key, is_one in (
        (EDGE_ATTRIBUTES[0], cells[0].lower() in _PARTITIONERS),
        ("weight", _WEIGHT(cells[0])),
        ("data", cells[0].startswith("{")),
    ):
        if is_one and len(cells) == 1:
            return {key: cells[0]}
    allowed = "a partitioner or a number; or a first line that names columns: source,target,…"
    raise _wrong(file, number, f"{shorten(' '.join(cells), 60)} after source and target", allowed)


def _wrong(file: str, number: int, found: str, allowed: str) -> InputError:
    return InputError(f"{file}, line {number}: found {found}; allowed: {allowed}")
