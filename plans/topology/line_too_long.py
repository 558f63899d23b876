"""How long a line of a topology file may be."""

from penstock.plans.errors import TopologyError
from penstock.plans.topology.error_kinds import ErrorKind
from penstock.plans.topology.validate_topology import LINE

MAX_LINE_BYTES = 256 * 2**20
"""Default. A topology of a million operators takes some 150 MB."""


def line_too_long(size_bytes: int, max_line_bytes: int, cut_bytes: int | None = None) -> TopologyError:
    """The error of a line with more bytes than allowed; one that has `cut_bytes` may have more than that."""
    at_least = "at least " if cut_bytes is not None and size_bytes >= cut_bytes else ""
    return TopologyError(
        ErrorKind.LINE_TOO_LONG,
        LINE,
        f"a line of {at_least}{size_bytes:,} bytes",
        f"{max_line_bytes:,} bytes at most",
        "to plan it, allow more by penstock plan --max-line-size 2g, or by max_line_bytes in a library call",
    )
