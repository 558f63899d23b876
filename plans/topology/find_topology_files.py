"""Examine paths of topologies once; resolve directories and globs to files, as Spark's file sources do.

Hadoop: Globber, GlobPattern, GlobExpander; Spark: DataSource.checkAndGlobPathIfNecessary, HadoopFSUtils.
"""

import errno
import os
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import NamedTuple

from penstock.plans.errors import InputError
from penstock.plans.topology.input_errors import (
    no_such_path,
    tables_beside_others,
    unreadable_file,
    unusable_path,
)

STANDARD_INPUT = "/dev/stdin"
"""The file of the path `-`. It is read like a pipe, even if it is a file: once, from its current position."""

_DANGLING = (errno.ENOENT, errno.ELOOP)
"""Errors of links to nothing, and to themselves."""

_GLOB_SIGNS = frozenset("{}[]*?\\")
_SPECIAL = {"*": ".*", "?": ".", "{": "(?:"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?=/)|(file):").match


class TopologyPaths(NamedTuple):
    """Paths of topologies, each examined once: files, directories, globs, and one folder of tables."""

    paths: list[str]
    tables: list[str]  #: folders of tables
    pipes: list[str]  #: files that can be read once
    elsewhere: list[str]  #: paths that are not local

    @property
    def folder(self) -> str | None:
        """The folder of tables, if the only path is one. Raises InputError if there are others beside it."""
        if self.tables and len(self.paths) > 1:
            raise tables_beside_others(self.tables[0])
        return self.tables[0] if self.tables else None


def examine_paths(paths: Sequence[str]) -> TopologyPaths:
    """Return what planners need to know about paths. A path that does not exist is left to its reader."""
    tables, pipes, elsewhere = list[str](), list[str](), list[str]()
    expanded = [found for path in paths for found in _folders_of_tables(path) or [path]]
    for path in expanded:
        try:
            if holds_tables(path):
                tables.append(path)
            elif is_pipe(path):
                pipes.append(path)
        except InputError:
            elsewhere.append(path)
        except OSError:
            continue
    return TopologyPaths(expanded, tables, pipes, elsewhere)


def _folders_of_tables(path: str) -> list[str]:
    """Return what a glob matches if a folder of tables is among it, else nothing."""
    if _GLOB_SIGNS.isdisjoint(path):
        return []
    try:
        local = local_path(path)
        found = [] if os.path.exists(local) else _expand(local, path)
        return found if any(holds_tables(each) for each in found if os.path.isdir(each)) else []
    except (InputError, OSError, ValueError):  # said by the reader
        return []


def topology_paths(source: object) -> TopologyPaths | None:
    """Return a path, or a list of paths, as TopologyPaths; None if `source` is something else."""
    if isinstance(source, TopologyPaths):
        return source
    items = [source] if isinstance(source, str | Path) else source
    if not isinstance(items, list | tuple) or not items:
        return None
    return examine_paths(list(map(str, items))) if all(isinstance(p, str | Path) for p in items) else None


def find_topology_files(paths: Sequence[str]) -> list[str]:
    """Return the absolute paths of all non-empty files, each once, sorted by name as UTF-8.

    An existing path is taken literally, even if it looks like a glob. A directory means all files in and
    below it, without FIFOs, devices, and names that start with `.` or `_` (unless `paths` names the directory
    itself). A link to an enclosing directory is not followed. Raises InputError for a path or glob that
    matches nothing, an invalid glob, and a path of another file system.
    """
    files: dict[str, None] = {}
    for path in paths:
        local = local_path(path)
        if local == STANDARD_INPUT:  # some systems have no file of this name
            files[local] = None
            continue
        if os.path.exists(local):
            roots = [local]
        else:
            roots = [] if _GLOB_SIGNS.isdisjoint(local) else _expand(local, path)
        if not roots:
            raise no_such_path(f"file:{local}")
        for root in roots:
            files.update(dict.fromkeys(_files(root)))
    return sorted(files, key=os.fsencode)


def local_path(path: str) -> str:
    """Return the absolute path of a path or file: URI. Raises InputError for other file systems."""
    if path == "-":
        return STANDARD_INPUT
    scheme = _SCHEME(path)
    if scheme is not None and scheme[1] not in ("file", None):
        raise unusable_path(path, "only local files are read without Spark")
    local = path if scheme is None else path[scheme.end() :]
    if not local or (scheme is not None and not local.startswith("/")):
        raise unusable_path(path, "it is not a path")
    return "/" + os.path.abspath(local).lstrip("/")


def hadoop_path(path: str) -> str:
    """Return `path` as Hadoop reads it: the beginning of a local path such as a:b.jsonl is not a scheme."""
    has_colon = ":" in path.partition("/")[0]
    scheme = _SCHEME(path)
    return f"file:{local_path(path)}" if has_colon and (scheme is None or scheme[2]) else path


def is_pipe(path: str) -> bool:
    """Return whether a path is a local file other than a regular file or directory: a FIFO, /dev/fd/63, …"""
    try:
        local = local_path(path)
        if local == STANDARD_INPUT:
            return True
        mode = os.stat(local).st_mode
    except (InputError, OSError, ValueError):
        return False
    return not S_ISREG(mode) and not S_ISDIR(mode)


def holds_tables(path: str) -> bool:
    """Return whether a path is a folder of tables."""
    table = Path(local_path(path)) / "transformations"
    return is_delta(table) or any(table.glob("*.parquet"))


def is_delta(table: Path) -> bool:
    """Return whether a folder is a Delta table."""
    return any((table / "_delta_log").glob("*.json")) or (table / "_delta_log" / "_last_checkpoint").exists()


def _files(root: str) -> Iterator[str]:
    """Yield the file itself, or the files in and below the directory."""
    if not os.path.isdir(root):
        if not _hidden(os.path.basename(root)) and (os.stat(root).st_size or is_pipe(root)):
            yield root
        return
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [(root, frozenset())]
    while pending:
        folder, above = pending.pop()
        status = os.stat(folder)
        identity = (status.st_dev, status.st_ino)
        if identity in above:
            continue
        for name in _names(folder):
            if _hidden(name) and not name.startswith(("_metadata", "_common_metadata")):
                continue
            path = f"{folder.rstrip('/')}/{name}"
            try:
                entry = os.stat(path)
            except OSError as error:
                if error.errno in _DANGLING:
                    continue
                raise unreadable_file(path, str(error.strerror)) from None
            if S_ISDIR(entry.st_mode):
                pending.append((path, above | {identity}))
            elif S_ISREG(entry.st_mode) and entry.st_size and not _hidden(name):
                yield path


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise unreadable_file(folder, str(error.strerror)) from None


def _hidden(name: str) -> bool:
    """HadoopFSUtils.shouldFilterOutPathName, PartitioningAwareFileIndex.isDataPath."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def _expand(pattern: str, given_path: str) -> list[str]:
    """Return the paths that a glob matches, including hidden names."""
    matches: list[str] = []
    for flat in _without_slashes_in_braces(pattern):
        candidates = ["/"]
        for component in filter(None, flat.split("/")):
            matcher = _matcher(component, given_path)
            parents = [c if c == "/" else f"{c}/" for c in candidates]
            if isinstance(matcher, str):
                candidates = [path for p in parents if os.path.lexists(path := p + matcher)]
            else:
                candidates = [
                    p + name
                    for p in parents
                    if os.path.isdir(p)
                    for name in _names(p)
                    if matcher.fullmatch(name)
                ]
        matches += candidates
    return [path for path in matches if os.path.exists(path)]


def _without_slashes_in_braces(pattern: str) -> list[str]:
    """Expand braces that contain a slash: {a/b,c}/d becomes a/b/d and c/d."""
    done, pending = [], [pattern]
    while pending:
        glob = pending.pop()
        group = _group_with_slash(glob)
        if group is None:
            done.append(glob)
            continue
        start, commas, end = group
        bounds = [start, *commas, end]
        pending += [glob[:start] + glob[a + 1 : b] + glob[end + 1 :] for a, b in pairwise(bounds)]
    return done


def _group_with_slash(glob: str) -> tuple[int, list[int], int] | None:
    """Return start, commas and end of the first outermost braces that contain a slash."""
    depth, start, slash = 0, 0, False
    commas: list[int] = []
    position = 0
    while position < len(glob):
        match glob[position]:
            case "\\":
                position += 1
            case "{":
                depth += 1
                if depth == 1:
                    start, slash, commas = position, False, []
            case "}" if depth:
                depth -= 1
                if depth == 0 and slash:
                    return start, commas, position
            case "," if depth == 1:
                commas.append(position)
            case "/" if depth:
                slash = True
        position += 1
    return None


def _matcher(component: str, given_path: str) -> re.Pattern[str] | str:
    """Return one component of a glob as a pattern, or the plain name if it has no special characters."""
    signs = re.findall(r"\\.|.", component, re.DOTALL)
    text, braces, in_set, before = [], 0, False, ""
    try:
        for sign in signs:
            match sign:
                case "\\":
                    raise re.error("nothing after \\")
                case "*" | "?" | "{":
                    text.append(_SPECIAL[sign])
                    braces += sign == "{"
                case "," | "}" if braces:
                    text.append("|" if sign == "," else ")")
                    braces -= sign == "}"
                case "[" if in_set:
                    raise re.error("[ inside of [")
                case "[" | "]":
                    text.append(sign)
                    in_set = sign == "["
                case "!" | "^" | "-" if in_set:
                    text.append("^" if sign == "!" and before == "[" else sign)
                case _:
                    text.append(re.escape(sign[-1]))
            before = sign
        if in_set or braces:
            raise re.error("a bracket is not closed")
        if not any(sign in ("[", *_SPECIAL) for sign in signs):
            return "".join(sign[-1] for sign in signs)
        return re.compile("".join(text), re.DOTALL)
    except re.error as error:
        raise unusable_path(given_path, f"it is not a glob ({error})") from None
