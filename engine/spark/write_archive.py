"""Zip archives whose bytes follow from what they hold, readable by this user only."""

import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

_MODE_OF_A_FILE = 0o600 << 16


def write_archive(target: Path, entries: Mapping[str, Path | str]) -> None:
    """Write a zip with an entry for each name: a file, all files below a folder, or a text.

    What Python has compiled is left out. FileExistsError if `target` is there.
    """
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries.items():
            for within, data in _files(name, content):
                info = zipfile.ZipInfo(within)  # of 1980, whenever it is written
                info.compress_type = zipfile.ZIP_DEFLATED
                info.external_attr = _MODE_OF_A_FILE
                archive.writestr(info, data)


def _files(name: str, content: Path | str) -> Iterator[tuple[str, bytes]]:
    if isinstance(content, str):
        yield name, content.encode()
    elif content.is_file():
        yield name, content.read_bytes()
    else:
        for path in sorted(content.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{name}/{path.relative_to(content).as_posix()}", path.read_bytes()
