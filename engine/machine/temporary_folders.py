"""Folders for temporary files, removed when they are done with, or by `penstock recover` after a kill."""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.engine.machine.run_owner import process_is_running, start_of_process

_NAME = re.compile(r"penstock-[a-z]+-(\d+)-(\d*)-\w+")


def temporary_folder(purpose: str) -> Path:
    """A new empty folder that is there until the process ends.

    Its name holds `purpose` (small letters) and says which process made it.
    """
    folder = _new_folder(purpose)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def short_lived_folder(purpose: str) -> Iterator[str]:
    """A new empty folder that is there for as long as the context, named as `temporary_folder` does."""
    folder = _new_folder(purpose)
    try:
        yield str(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def left_temporary_folders() -> Iterator[Path]:
    """Folders of this user's processes that have ended without removing them."""
    for folder in sorted(Path(tempfile.gettempdir()).glob("penstock-*")):
        named = _NAME.fullmatch(folder.name)
        if named is None or not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.getuid():
            continue
        if not process_is_running(int(named[1]), named[2]):
            yield folder


def _new_folder(purpose: str) -> Path:
    pid, started = start_of_process()
    return Path(tempfile.mkdtemp(prefix=f"penstock-{purpose}-{pid}-{started}-"))
