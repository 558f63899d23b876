"""Files by path or URI, local or remote, through pyarrow's file systems.

Source: org.apache.flink.connector.file.src.enumerate.{NonSplittingRecursiveEnumerator,DefaultFileFilter} for
the choice of files.
"""

import bz2
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple, cast

from pyarrow import fs
from xxhash import xxh3_128


class FileEntry(NamedTuple):
    """A file with its size, as enumerated."""

    path: str
    size: int


def filesystem_of(path: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path or URI (`file:`, `s3:`, `hdfs:`, `gs:`, …), and the path within it."""
    if "://" in path:
        return fs.FileSystem.from_uri(path)  # type: ignore[no-any-return]
    return fs.LocalFileSystem(), os.path.abspath(os.path.join(_relative_to, path.removeprefix("file:")))


_relative_to = ""


@contextmanager
def relative_paths_from(folder: str) -> Iterator[None]:
    """Let relative paths of sources and sinks start at `folder`, whatever the working directory."""
    global _relative_to  # noqa: PLW0603 the process has one working folder
    before, _relative_to = _relative_to, folder
    try:
        yield
    finally:
        _relative_to = before


def find_files(paths: Iterable[str]) -> list[FileEntry]:
    """Return all files at and below `paths`, folder by folder in order of name.

    As in Flink, files and folders whose name starts with `.` or `_` are left out, even if `paths` names them.
    Raises FileNotFoundError if a path does not exist, ValueError without any path.
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


# Bytes of a file, decompressed according to the ending of its name
#
# Source: org.apache.flink.connector.file.src.compression.StandardDeCompressors.


_OPENERS: dict[str, Any] = {
    ".gz": gzip.open,
    ".gzip": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}

_SKIPPED_AT_ONCE = 1 << 20


def is_compressed(path: str) -> bool:
    """Whether the file can only be read from its beginning. Flink does not support Zstandard."""
    return os.path.splitext(path)[1] in {*_OPENERS, ".deflate", ".zst"}


def open_bytes(path: str) -> IO[bytes]:
    """Return the file's bytes from the beginning, decompressed."""
    system, inside = filesystem_of(path)
    ending = os.path.splitext(path)[1]
    if ending == ".zst":
        return cast("IO[bytes]", system.open_input_stream(inside, compression="zstd"))
    raw = system.open_input_stream(inside, compression=None)
    if ending in _OPENERS:
        return cast("IO[bytes]", _OPENERS[ending](raw, "rb"))
    if ending == ".deflate":
        return cast("IO[bytes]", _InflatedFile(raw))
    return cast("IO[bytes]", raw)


def open_at(path: str, start: int) -> IO[bytes]:
    """Return the file's raw bytes from `start` on."""
    system, inside = filesystem_of(path)
    file = system.open_input_file(inside)
    file.seek(start)
    return cast("IO[bytes]", file)


def skip_bytes(file: IO[bytes], size: int) -> None:
    """Read and drop `size` bytes; works for streams that cannot seek."""
    while size and (data := file.read(min(size, _SKIPPED_AT_ONCE))):
        size -= len(data)


class _InflatedFile:
    """A file over a zlib stream, which the standard library lacks."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._inflate = raw, zlib.decompressobj()

    def read(self, size: int = -1) -> bytes:
        data = b""
        while not data and not self._inflate.eof:
            compressed = self._inflate.unconsumed_tail or self._raw.read(1 << 16)
            data = self._inflate.decompress(compressed, max(size, 0)) if compressed else self._inflate.flush()
            if not compressed and not data and not self._inflate.eof:
                raise EOFError("the file ends in the middle of its compressed data")
        return data

    def close(self) -> None:
        self._raw.close()

    def __enter__(self) -> "_InflatedFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


# The identity of the files that a job reads, for comparison with another run


_CHEAP_BYTES = 8 << 20
_CHEAP_BYTES_TOGETHER = 64 << 20


def identify_files(paths: Iterable[str]) -> str | None:
    """Return a digest of the files at and below `paths`.

    It covers names, sizes, modification times and the content of small files.

    For large local files it includes the time of their last status change, which no program can set. None if
    any of that cannot be read.
    """
    hasher, bytes_left = hashlib.sha256(), _CHEAP_BYTES_TOGETHER
    try:
        for path, size in find_files(paths):
            system, inside = filesystem_of(path)
            facts: list[object] = [path, size]
            if isinstance(system, fs.LocalFileSystem):
                status = os.stat(inside)
                facts += [status.st_size, status.st_mtime_ns]
                if status.st_size <= min(_CHEAP_BYTES, bytes_left):
                    bytes_left -= status.st_size
                    with open(inside, "rb") as file:
                        facts.append(xxh3_128(file.read()).hexdigest())
                else:
                    facts += [status.st_ctime_ns, status.st_ino]
            else:
                modified = system.get_file_info(inside).mtime_ns
                if modified is None:
                    return None
                facts.append(modified)
            hasher.update(repr(facts).encode(errors="surrogatepass"))
    except (OSError, ValueError):
        return None
    return hasher.hexdigest()
