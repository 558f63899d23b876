"""Counts the edges that a topology's virtual transformations expand to, before any edge is created.

A union may read another union twice, which doubles its ways up: a topology of 60 transformations can expand
to 2^60 edges.
"""

from penstock.plans.error_kinds import ErrorKind
from penstock.plans.frames.arrow_walks import Ints

MOST_EDGES = 1 << 22
"""Of a small topology. Flink keeps an object for each of them."""
EDGES_OF_A_TRANSFORMATION = 16
"""Of a large topology for each transformation, where that is more."""
UNCOUNTED = 1 << 31
"""Ways of one transformation are counted up to this number."""

UNTIL_HERE = "until_here"
"""The name of a column: all ways of a topology's transformations up to and including this one."""


def most_edges(transformations: int) -> int:
    """The number of ways that all transformations of a topology may have together."""
    return max(MOST_EDGES, EDGES_OF_A_TRANSFORMATION * transformations)


def count_ways(order: Ints, bounds: Ints, inputs: Ints, virtual: Ints, sinks: Ints, ways: Ints) -> None:
    """The number of ways up from each transformation to physical ones (see run_loop).

    Row r has the inputs bounds[r] to bounds[r + 1], which come before it in `order`. Each way of a physical
    transformation is one of its edges. A sink gives none to those that read it.
    """
    for row in order:
        count = 0
        for place in range(bounds[row], bounds[row + 1]):
            named = inputs[place]
            if virtual[named]:
                count = min(count + ways[named], UNCOUNTED)
            elif not sinks[named]:
                count = min(count + 1, UNCOUNTED)
        ways[row] = count


def too_many_edges(id: int, ways: int, most: int) -> dict[str, str]:
    """The error of a topology whose transformations up to `id` have that many ways, as parse_lines.shown."""
    beyond = "more than " if ways >= UNCOUNTED else ""
    return {
        "error": str(ErrorKind.TOO_MANY_EDGES),
        "location": f"transformation {id}",
        "found": f"unions of unions that expand to {beyond}{min(ways, UNCOUNTED):,} edges up to here",
        "allowed": f"at most {most:,} edges in a topology of this size",
        "hint": "let a union name each of its inputs once, or put an operator between the unions",
    }
