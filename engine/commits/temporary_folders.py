"""Folders for a run's temporary files, removed when the process ends, or by `penstock recover`."""

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from engine.commits.run_owner import process_is_running, start_of_process

_NAME = re.compile(r"penstock-[a-z]+-(\d+)-(\d*)-\w+")


def temporary_folder(purpose: str) -> Path:
    """A new empty folder; its name holds `purpose` (small letters) and says which process made it."""
    pid, started = start_of_process()
    folder = Path(tempfile.mkdtemp(prefix=f"penstock-{purpose}-{pid}-{started}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def left_temporary_folders() -> Iterator[Path]:
    """Folders of this user's processes that have ended without removing them."""
    for folder in sorted(Path(tempfile.gettempdir()).glob("penstock-*")):
        named = _NAME.fullmatch(folder.name)
        if named is None or not folder.is_dir() or folder.is_symlink() or folder.stat().st_uid != os.getuid():
            continue
        if not process_is_running(int(named[1]), named[2]):
            yield folder
