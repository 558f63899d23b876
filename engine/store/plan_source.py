"""Identify the source that a command was given, in the same way for all commands that read plans."""

import os
from enum import StrEnum
from glob import has_magic
from typing import NamedTuple

from penstock.engine.store.store_location import AT_VERSION, MANIFEST, is_local, local_folder
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.importing.importers import NoJob, content_of, importer_of_name
from penstock.plans.tables import TABLES
from penstock.plans.topology.find_topology_files import (
    find_topology_files,
    holds_tables,
    is_pipe,
    local_path,
)
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

FOLDERS_OF_STATE = ("versions", "segments")
"""Folders in the state of a stream."""

_LOOKED_AT_BYTES = 1 << 16
_NAME_A_SOURCE = "name a plan store, a topology file, or a script (.py)"


class SourceKind(StrEnum):
    """Kinds of sources, by the names that messages use."""

    STORE = "a plan store"  #: read directly
    RESULTS = "results of a sweep or benchmark"  #: read by `sql`; without plans
    STATE = "the state of a stream"  #: read by `sql` and `state`; without plans
    SCRIPT = "a script"  #: its jobs are planned
    TABLES = "tables of topologies"  #: output of `generate`; planned
    TOPOLOGIES = "topologies"  #: files of JSON, or folders and globs of them; planned
    GRAPH = "a graph"  #: converted to topologies by `import`


HOLDS_PLANS = (SourceKind.STORE, SourceKind.SCRIPT, SourceKind.TABLES, SourceKind.TOPOLOGIES)
"""Sources that have a plan, or are planned when they are opened."""


class PlanSource(NamedTuple):
    """A source, its path without a version, and the version of a store (None: the newest)."""

    kind: SourceKind
    path: str
    version: int | None = None


def identify_source(source: str, version: int | None = None) -> PlanSource:
    """Identify `source`. A version is given as STORE@V or as `version` (option --version).

    Raises InputError if the path does not exist or no command can read it; ConfigurationError if a
    version is given twice, or for a source without versions.
    """
    if not source:
        raise InputError("a source must be a path, got an empty text", _NAME_A_SOURCE)
    path, at = _version_in(source)
    if at is not None and version is not None:
        raise ConfigurationError(f"--version {version}: {source} already names a version", "leave one out")
    version = at if at is not None else version
    kind = SourceKind.TOPOLOGIES if path == "-" else _kind_of(path)
    if version is not None and kind not in (SourceKind.STORE, SourceKind.STATE):
        raise ConfigurationError(
            f"version {version} of {path}: a version needs a plan store, got {kind}",
            "leave the version out",
        )
    return PlanSource(kind, path, version)


def require_kind(source: str, version: int | None, *allowed: SourceKind) -> PlanSource:
    """Identify a source like identify_source, and raise InputError unless its kind is `allowed`."""
    try:
        recognised = identify_source(source, version)
    except InputError as error:
        if allowed != (SourceKind.STATE,):
            raise
        raise InputError(error.message, "name the folder of a stream's state, or FOLDER@VERSION") from error
    if recognised.kind not in allowed:
        hint = {
            SourceKind.GRAPH: (
                f"penstock import {recognised.path} --out topologies.jsonl converts it to topologies"
            ),
            SourceKind.RESULTS: f"penstock sql {recognised.path} --tables lists its tables",
            SourceKind.STATE: f"penstock state show {recognised.path} shows it",
            SourceKind.STORE: "name a topology file or a script",
        }.get(recognised.kind, f"penstock plan {recognised.path} --out store makes a plan store of it")
        raise InputError(f"{recognised.path} must be {' or '.join(allowed)}, got {recognised.kind}", hint)
    return recognised


def _version_in(source: str) -> tuple[str, int | None]:
    named = AT_VERSION.fullmatch(source)
    if named is None:
        return source, None
    whole = local_folder(source)
    if whole is not None and os.path.lexists(whole):
        return source, None
    folder = local_folder(named["store"])
    if folder is not None and not os.path.isdir(folder):
        return source, None
    return named["store"], int(named["version"])


def _kind_of(path: str) -> SourceKind:
    if not is_local(path):
        return _kind_by_name(path) or SourceKind.STORE
    place = local_path(path)
    if os.path.isdir(place):
        return _kind_of_folder(path, place)
    if is_pipe(path):
        return SourceKind.TOPOLOGIES
    if os.path.isfile(place):
        return _kind_by_name(path) or _kind_of_file(path, place)
    if has_magic(place) or "{" in place:
        find_topology_files([path])  # reports a malformed pattern
        return SourceKind.TOPOLOGIES
    raise InputError(f"{path} does not exist", _NAME_A_SOURCE)


def _kind_by_name(path: str) -> SourceKind | None:
    if path.endswith(".py"):
        return SourceKind.SCRIPT
    return SourceKind.GRAPH if importer_of_name(path) is not None and not path.endswith(".txt") else None


def _kind_of_folder(path: str, place: str) -> SourceKind:
    if os.path.isdir(os.path.join(place, MANIFEST)):
        return SourceKind.STORE
    if tables_of_results(path):
        return SourceKind.RESULTS
    if all(os.path.isdir(os.path.join(place, name)) for name in FOLDERS_OF_STATE):
        return SourceKind.STATE
    tables = {table for table in TABLES if os.path.isdir(os.path.join(place, table))}
    if tables - {"topologies", "transformations"}:
        return SourceKind.STORE  # opening it reports that its manifest is lost
    if holds_tables(path):
        return SourceKind.TABLES
    files = find_topology_files([path])
    if not files:
        raise InputError(
            f"{path} is an empty folder", "name a plan store, a topology file, or a script (.py)"
        )
    if all(file.endswith(".parquet") for file in files):
        raise InputError(
            f"{path} is a folder of Parquet files, not a plan store",
            "tables of topologies are two folders, topologies and transformations",
        )
    return SourceKind.TOPOLOGIES


#: Tables in the folder that `sweep` or `bench --quality` writes.
_RESULTS = ("results", "quality")


def tables_of_results(folder: str) -> list[str]:
    """Return the tables in a folder of results; none for other folders."""
    place = local_folder(folder)
    if place is None or os.path.isdir(os.path.join(place, MANIFEST)):
        return []
    return [table for table in _RESULTS if os.path.isdir(os.path.join(place, table, "_delta_log"))]


def _kind_of_file(path: str, place: str) -> SourceKind:
    """Identify a file by its beginning. Some line of a topology file begins with a JSON object or array."""
    beginning = next(iter(texts_of_file(place)), b"")[:_LOOKED_AT_BYTES]
    content = content_of(beginning)
    if isinstance(content, NoJob):
        raise InputError(f"{path} must be a plan, topology or script, got {content.what}", content.hint)
    if content is not None:
        return SourceKind.GRAPH
    if not beginning.strip():
        raise InputError(f"{path} is an empty file", _NAME_A_SOURCE)
    if any(line.lstrip(b"\xef\xbb\xbf \t\r")[:1] in (b"{", b"[") for line in beginning.split(b"\n")):
        return SourceKind.TOPOLOGIES
    if (
        os.path.splitext(path)[1].lower() in (".json", ".jsonl", ".ndjson", *CODECS)
        and b"\0" not in beginning
    ):
        return SourceKind.TOPOLOGIES  # with an error for each line
    is_binary = b"\0" in beginning
    kind = "a binary file" if is_binary else "text without a line of JSON"
    raise InputError(
        f"{path} must be a plan store, topology file or script, got {kind}",
        None if is_binary else f"penstock import {path} reads edge lists and other forms of graphs",
    )
