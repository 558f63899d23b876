"""What stands at a place that a command was given: the one answer for all commands that look at plans."""

import os
from enum import StrEnum
from glob import has_magic
from typing import NamedTuple

from penstock.engine.store.is_local import is_local, local_folder
from penstock.engine.store.open_plan import AT_VERSION
from penstock.engine.store.version_notes import MANIFEST
from penstock.plans.errors import ConfigurationError, InputError
from penstock.plans.importing.read_graphs import form_of_graph
from penstock.plans.importing.recognise_content import NoJob, content_of
from penstock.plans.tables import TABLES
from penstock.plans.topology.columnar.find_topology_files import find_topology_files, is_pipe, local_path
from penstock.plans.topology.columnar.read_topology_tables import holds_tables
from penstock.plans.topology.unpacked_texts import CODECS, texts_of_file

_LOOKED_AT_BYTES = 1 << 16


class SourceKind(StrEnum):
    """Kinds of sources, by the names that messages use."""

    STORE = "a plan store"  #: read as it is
    RESULTS = "results of a sweep or benchmark"  #: `sql` reads them; they hold no plans
    SCRIPT = "a script"  #: its jobs are planned
    TABLES = "tables of topologies"  #: what `generate` makes; planned
    TOPOLOGIES = "topologies"  #: files of JSON, or folders and globs of them; planned
    GRAPH = "a graph"  #: `import` makes topologies of it


HOLDS_PLANS = (SourceKind.STORE, SourceKind.SCRIPT, SourceKind.TABLES, SourceKind.TOPOLOGIES)
"""Has a plan, or is planned on the way."""


class PlanSource(NamedTuple):
    """`path`: where it is, without a version. `version`: of a store; None: the newest."""

    kind: SourceKind
    path: str
    version: int | None = None


def identify_source(source: str, version: int | None = None) -> PlanSource:
    """What `source` is. STORE@V names a version, as `version` (option --version) does.

    Raises InputError where nothing is there, or nothing that any command reads; ConfigurationError where a
    version is named twice, or of what has none.
    """
    path, at = _version_in(source)
    if at is not None and version is not None:
        raise ConfigurationError(f"--version {version}: {source} names a version already", "leave one out")
    version = at if at is not None else version
    kind = SourceKind.TOPOLOGIES if path == "-" else _kind_of(path)
    if version is not None and kind is not SourceKind.STORE:
        raise ConfigurationError(
            f"version {version} of {path}: it is {kind}", "only plan stores have versions"
        )
    return PlanSource(kind, path, version)


def require_kind(source: str, version: int | None, *allowed: SourceKind) -> PlanSource:
    """As identify_source, where the source is one of `allowed`. Raises InputError, which names what it is."""
    recognised = identify_source(source, version)
    if recognised.kind not in allowed:
        hint = {
            SourceKind.GRAPH: (
                f"penstock import {recognised.path} --out topologies.jsonl makes topologies of it"
            ),
            SourceKind.RESULTS: f"penstock sql {recognised.path} --tables lists what it holds",
            SourceKind.STORE: "name a topology file or a script",
        }.get(recognised.kind, f"penstock plan {recognised.path} --out store makes a plan store of it")
        raise InputError(f"{recognised.path}: found {recognised.kind}, allowed {' or '.join(allowed)}", hint)
    return recognised


def _version_in(source: str) -> tuple[str, int | None]:
    named = AT_VERSION.fullmatch(source)
    if named is None or (is_local(source) and os.path.lexists(local_folder(source))):
        return source, None
    store = named["store"]
    if is_local(store) and not os.path.isdir(local_folder(store)):
        return source, None
    return store, int(named["version"])


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
        find_topology_files([path])  # which says what is wrong with it
        return SourceKind.TOPOLOGIES
    raise InputError(f"{path}: nothing is there", "name a plan store, a topology file, or a script (.py)")


def _kind_by_name(path: str) -> SourceKind | None:
    if path.endswith(".py"):
        return SourceKind.SCRIPT
    return SourceKind.GRAPH if form_of_graph(path) is not None and not path.endswith(".txt") else None


def _kind_of_folder(path: str, place: str) -> SourceKind:
    if os.path.isdir(os.path.join(place, MANIFEST)):
        return SourceKind.STORE
    if tables_of_results(path):
        return SourceKind.RESULTS
    tables = {table for table in TABLES if os.path.isdir(os.path.join(place, table))}
    if tables - {"topologies", "transformations"}:
        return SourceKind.STORE  # its list of versions is lost, as opening it says
    if holds_tables(path):
        return SourceKind.TABLES
    files = find_topology_files([path])
    if not files:
        raise InputError(f"{path}: an empty folder", "name a plan store, a topology file, or a script (.py)")
    if all(file.endswith(".parquet") for file in files):
        raise InputError(
            f"{path}: a folder of Parquet files, which is no plan store",
            "tables of topologies are two folders, topologies and transformations",
        )
    return SourceKind.TOPOLOGIES


#: Tables in the folder that `sweep` or `bench --quality` writes.
_RESULTS = ("results", "quality")


def tables_of_results(folder: str) -> list[str]:
    """The tables in a folder of results; none if it is something else."""
    if not is_local(folder):
        return []
    place = local_folder(folder)
    if os.path.isdir(os.path.join(place, MANIFEST)):
        return []
    return [table for table in _RESULTS if os.path.isdir(os.path.join(place, table, "_delta_log"))]


def _kind_of_file(path: str, place: str) -> SourceKind:
    """The kind of a file, by its beginning: topologies are JSON, so that some line begins as JSON does."""
    beginning = next(iter(texts_of_file(place)), b"")[:_LOOKED_AT_BYTES]
    content = content_of(beginning)
    if isinstance(content, NoJob):
        raise InputError(f"{path}: this is {content.what}, and no plan, topology or script", content.hint)
    if content is not None:
        return SourceKind.GRAPH
    if not beginning.strip():
        raise InputError(f"{path}: an empty file", "name a plan store, a topology file, or a script (.py)")
    if any(line.lstrip(b"\xef\xbb\xbf \t\r")[:1] in (b"{", b"[") for line in beginning.split(b"\n")):
        return SourceKind.TOPOLOGIES
    if (
        os.path.splitext(path)[1].lower() in (".json", ".jsonl", ".ndjson", *CODECS)
        and b"\0" not in beginning
    ):
        return SourceKind.TOPOLOGIES  # which are broken, line by line
    kind = "a binary file" if b"\0" in beginning else "text without a line of JSON"
    raise InputError(f"{path}: {kind}, which is no plan store, topology file or script")
