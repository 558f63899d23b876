"""Extracts an archive of a job into a folder, with the permissions and links that it holds.

Source: org.apache.flink.util.CompressionUtils.extractFile.
"""

import os
import shutil
import stat
import tarfile
import zipfile
from pathlib import Path

_TAR = (".tar", ".tar.gz", ".tgz")


def is_tar(name: str) -> bool:
    """Whether a file of that name is read as a tar file, else as a zip file."""
    return name.lower().endswith(_TAR)


def extract_archive(archive: Path, name: str, folder: Path) -> None:
    """Extract `archive` into `folder`, which is made; `name`, its author's, tells zip and tar apart.

    Raises zipfile.BadZipFile, tarfile.TarError and OSError; also where the archive leads out of `folder`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if is_tar(name):
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="tar")
    else:
        _extract_zip(archive, folder)


def _extract_zip(archive: Path, folder: Path) -> None:
    links = []
    with zipfile.ZipFile(archive) as opened:
        for entry in opened.infolist():
            mode = entry.external_attr >> 16
            if stat.S_ISLNK(mode):
                links.append((entry.filename, opened.read(entry).decode()))
                continue
            target = Path(opened.extract(entry, folder))
            if stat.S_IMODE(mode) and not entry.is_dir():
                target.chmod(stat.S_IMODE(mode) & 0o777)
    # links come last, so that no file is written through one
    for name, leads_to in links:
        place = folder / name
        if not place.resolve().is_relative_to(folder.resolve()):
            raise zipfile.BadZipFile(f"{name} would lie outside of {folder}")
        place.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(leads_to, place)


def discard(folder: Path) -> None:
    """Remove a folder and what is in it, as far as that is possible."""
    shutil.rmtree(folder, ignore_errors=True)
