"""Identifies the files that a job reads, to tell whether another run has read the same ones."""

import hashlib
import os
from collections.abc import Iterable

from pyarrow import fs
from xxhash import xxh3_128

from penstock.operators.files.filesystem import filesystem_of, find_files

_CHEAP_BYTES = 8 << 20
_CHEAP_BYTES_TOGETHER = 64 << 20


def identify_files(paths: Iterable[str]) -> str | None:
    """A digest of the files at and below `paths`: names, sizes, times of modification, content of small ones.

    Large local files also count with the time of their last status change, which no program can set. None if
    any of that cannot be read.
    """
    hasher, bytes_left = hashlib.sha256(), _CHEAP_BYTES_TOGETHER
    try:
        for path, size in find_files(paths):
            system, inside = filesystem_of(path)
            known: list[object] = [path, size]
            if isinstance(system, fs.LocalFileSystem):
                status = os.stat(inside)
                known += [status.st_size, status.st_mtime_ns]
                if status.st_size <= min(_CHEAP_BYTES, bytes_left):
                    bytes_left -= status.st_size
                    with open(inside, "rb") as file:
                        known.append(xxh3_128(file.read()).hexdigest())
                else:
                    known += [status.st_ctime_ns, status.st_ino]
            else:
                modified = system.get_file_info(inside).mtime_ns
                if modified is None:
                    return None
                known.append(modified)
            hasher.update(repr(known).encode(errors="surrogatepass"))
    except (OSError, ValueError):
        return None
    return hasher.hexdigest()
