"""Files by path or URI, local or remote, through pyarrow's file systems.

Source: org.apache.flink.connector.file.src.enumerate.{NonSplittingRecursiveEnumerator,DefaultFileFilter} for
which files are found.
"""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from pyarrow import fs


class FileEntry(NamedTuple):
    """A file as the enumerator found it."""

    path: str
    size: int


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """The file system of a path or URI (`file:`, `s3:`, `hdfs:`, `gs:`, …), and the path within it."""
    if "://" in path:
        return fs.FileSystem.from_uri(path)  # type: ignore[no-any-return]
    return fs.LocalFileSystem(), os.path.abspath(os.path.join(_relative_to, path.removeprefix("file:")))


_relative_to = ""


@contextmanager
def relative_paths_from(folder: str) -> Iterator[None]:
    """Relative paths of sources and sinks start at `folder`, even if the working directory changes."""
    global _relative_to  # noqa: PLW0603 as the process has one working folder
    before, _relative_to = _relative_to, folder
    try:
        yield
    finally:
        _relative_to = before


def find_files(paths: Iterable[str]) -> list[FileEntry]:
    """All files at and below `paths`, folder by folder in order of name.

    As in Flink, files and folders whose name starts with `.` or `_` are left out, also where `paths` names
    one. FileNotFoundError if a path leads nowhere, ValueError without any path.
    """
    roots = list(paths)
    if not roots:
        raise ValueError("paths must not be empty")
    entries: list[FileEntry] = []
    for path in roots:
        system, inside = filesystem_of(path)
        info = system.get_file_info(inside)
        if info.type == fs.FileType.NotFound:
            raise FileNotFoundError(f"{path} does not exist")
        if _hidden(inside):
            continue
        if info.type != fs.FileType.Directory:
            entries.append(FileEntry(path, info.size))
            continue
        below = system.get_file_info(fs.FileSelector(inside, recursive=True))
        files = [file for file in below if file.type == fs.FileType.File]
        names = {file.path: os.path.relpath(file.path, inside) for file in files}
        for file in sorted(files, key=lambda file: names[file.path].split("/")):
            if not any(map(_hidden, names[file.path].split("/"))):
                entries.append(FileEntry(_joined(path, names[file.path]), file.size))
    return entries


def _hidden(path: str) -> bool:
    return os.path.basename(path.rstrip("/")).startswith((".", "_"))


def _joined(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"
