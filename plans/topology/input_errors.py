"""Errors that stop the reading of topology files."""

from collections.abc import Sequence

from penstock.plans.errors import ErrorKind, InputError, TopologyError
from penstock.plans.printable import first_and_count
from penstock.plans.topology.validate_topology import LINE


def no_files_given() -> InputError:
    """Return the error for an empty list of paths."""
    return InputError("no topology files given", "name files, directories or globs of JSON lines")


def no_such_path(path: str) -> InputError:
    """Return the error for a path or glob that matches nothing."""
    return InputError(f"cannot read {path}: no such file or directory", "check the path or the glob")


def unusable_path(path: str, reason: str) -> InputError:
    """Return the error for a path that the system cannot look up."""
    return InputError(f"cannot read {path}: {reason}", "check the path and its file system")


def unreadable_file(file: str, reason: str) -> InputError:
    """Return the error for a file that cannot be read to its end."""
    return InputError(f"cannot read {file}: {reason}", "check that the file exists, is complete and readable")


def incomplete_gzip(file: str) -> InputError:
    """Return the error for a .gz file that is truncated or not gzip."""
    return InputError(f"cannot read {file}: it is not a complete gzip file", "copy or compress it again")


def no_topologies(paths: Sequence[str]) -> InputError:
    """Return the error for files that contain only blank lines."""
    return InputError(
        f"no topologies in {first_and_count(paths)}",
        "a topology file contains JSON objects: one per line, pretty-printed or in an array; see "
        "docs/topology-files.md",
    )


def nothing_to_import(paths: Sequence[str]) -> InputError:
    """Return the error for empty files of graphs and documents."""
    return InputError(
        f"nothing to import in {first_and_count(paths)}",
        "Penstock imports DOT, GraphML, edge lists, JSON and other forms; see docs/importing.md",
    )


def missing_table(table: str, reason: str) -> InputError:
    """Return the error for a folder of tables that lacks one."""
    return InputError(
        f"cannot read {table}: {reason}",
        "a folder of tables contains topologies and transformations, both Delta or Parquet",
    )


def tables_beside_others(folder: str) -> InputError:
    """Return the error for a folder of tables among several inputs."""
    return InputError(
        f"{folder} contains tables and cannot be read together with other inputs",
        "plan it on its own; versions of one store may come from different inputs",
    )


# Limits on the length of a topology line.


MAX_LINE_BYTES = 256 * 2**20
"""The default. A topology of a million operators takes some 150 MB."""


def line_too_long(size_bytes: int, max_line_bytes: int, cut_bytes: int | None = None) -> TopologyError:
    """Return the error for a line of more than `max_line_bytes`; one truncated at `cut_bytes`
    may be longer.
    """
    at_least = "at least " if cut_bytes is not None and size_bytes >= cut_bytes else ""
    return TopologyError(
        ErrorKind.LINE_TOO_LONG,
        LINE,
        f"a line of {at_least}{size_bytes:,} bytes",
        f"{max_line_bytes:,} bytes at most",
        "to plan it, raise the limit: penstock plan --max-line-size 2g, or max_line_bytes in a library call",
    )
