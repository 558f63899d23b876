"""Errors that stop the reading of topology files, for both planners."""

from collections.abc import Sequence

from penstock.plans.errors import ErrorKind, InputError, TopologyError
from penstock.plans.printable import first_and_count
from penstock.plans.topology.validate_topology import LINE


def no_files_given() -> InputError:
    """The error for an empty list of paths."""
    return InputError("no topology files given", "name files, directories or globs of JSON lines")


def no_such_path(path: str) -> InputError:
    """A path or glob that matches nothing."""
    return InputError(f"cannot read {path}: no such file or directory", "check the path or the glob")


def unusable_path(path: str, reason: str) -> InputError:
    """A path that cannot be looked up at all."""
    return InputError(f"cannot read {path}: {reason}", "check the path and its file system")


def unreadable_file(file: str, reason: str) -> InputError:
    """A file that cannot be read to its end."""
    return InputError(f"cannot read {file}: {reason}", "check that the file is there, whole and readable")


def incomplete_gzip(file: str) -> InputError:
    """A .gz file that is cut off, or not gzip."""
    return InputError(f"cannot read {file}: it is not a complete gzip file", "copy or compress it again")


def no_topologies(paths: Sequence[str]) -> InputError:
    """Files with blank lines only."""
    return InputError(
        f"no topologies in {first_and_count(paths)}",
        "a topology file holds JSON objects: one per line, pretty-printed or in an array; see "
        "docs/topology-files.md",
    )


def nothing_to_import(paths: Sequence[str]) -> InputError:
    """Files of graphs and documents that are empty."""
    return InputError(
        f"nothing to import in {first_and_count(paths)}",
        "graphs in DOT, GraphML, edge lists and JSON, and other forms, are read; see docs/importing.md",
    )


def missing_table(table: str, reason: str) -> InputError:
    """A folder of tables that lacks one."""
    return InputError(
        f"cannot read {table}: {reason}",
        "a folder of tables holds topologies and transformations, both Delta or Parquet",
    )


def tables_beside_others(folder: str) -> InputError:
    """A folder of tables among several inputs."""
    return InputError(
        f"{folder} holds tables and cannot be read together with other inputs",
        "plan it on its own; versions of one store may come from different inputs",
    )


# How long a line of a topology file may be.


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
