"""Edge lists as graphs: an edge on each line, its ends and what else is known of it."""

import csv
from collections.abc import Iterable, Iterator, Sequence

from plans.errors import InputError
from plans.importing.given_graph import EDGE_ATTRIBUTES, GivenEdge, GivenGraph, GivenNode
from plans.topology.rules import shorten
from plans.vocabulary import Partitioner

SEPARATORS = {".csv": ",", ".tsv": "\t"}
"""By what a file's name ends in; others are separated by spaces or tabs."""

_SOURCES = ("source", "from", "src")
_TARGETS = ("target", "to", "dst", "destination")
_COMMENT = "#"
_PARTITIONERS = frozenset(map(str, Partitioner))


def read_edge_list(lines: Iterable[str], separator: str | None, file: str, name: str) -> GivenGraph:
    """The graph of an edge list.

    A first line with a column `source` and one `target` (from, to; src, dst) names the columns: others are
    attributes of edges. Without it the first two columns are the ends, and a third is the partitioner where
    it names one. A line with one cell is a node. Blank lines, and those that begin with #, are left out.
    Raises InputError, with the number of the line.
    """
    rows = _rows(lines, separator)
    header: Sequence[str] | None = None
    nodes: dict[str, GivenNode] = {}
    edges: list[GivenEdge] = []
    first = True
    for number, cells in rows:
        if first:
            first = False
            words = [cell.lower() for cell in cells]
            if any(word in _SOURCES for word in words) and any(word in _TARGETS for word in words):
                header = words
                continue
        source, target, attributes = _edge(cells, header, file, number)
        nodes.setdefault(source, GivenNode(source, {}))
        if target is not None:
            nodes.setdefault(target, GivenNode(target, {}))
            edges.append(GivenEdge(source, target, attributes))
    return GivenGraph(name, list(nodes.values()), edges)


def _rows(lines: Iterable[str], separator: str | None) -> Iterator[tuple[int, list[str]]]:
    """Numbers and cells of the lines that hold any."""
    if separator is None:
        cut: Iterable[list[str]] = (line.partition(_COMMENT)[0].split() for line in lines)
    else:
        cut = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    for number, cells in enumerate(cut, 1):
        plain = [cell.strip() for cell in cells]
        if any(plain) and not plain[0].startswith(_COMMENT):
            yield number, plain


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
        partitioner, weight = EDGE_ATTRIBUTES[0], "weight"
        rest = {}
        if others and others[0]:
            rest[partitioner if others[0].lower() in _PARTITIONERS else weight] = others[0]
    if not source:
        raise _wrong(file, number, f"{shorten(list(cells), 60)}, which has no source", "source and target")
    return source, target or None, rest


def _wrong(file: str, number: int, found: str, allowed: str) -> InputError:
    return InputError(f"{file}, line {number}: found {found}; allowed: {allowed}")
