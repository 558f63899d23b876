"""Where Penstock keeps what it can make again, so that later commands of this user start sooner."""

import os
from pathlib import Path

from penstock.engine.machine.home_folder import home_folder
from penstock.operators.files.private_files import make_private_folder

CACHE_DIR = "PENSTOCK_CACHE_DIR"
"""The environment variable that names the folder."""


def cache_folder() -> Path:
    """This user's folder, made if it is not there, readable by this user only.

    It is PENSTOCK_CACHE_DIR, else penstock in XDG_CACHE_HOME, else ~/.cache/penstock. OSError where it
    cannot be made.
    """
    given = os.environ.get(CACHE_DIR)
    home = os.environ.get("XDG_CACHE_HOME")
    folder = Path(given) if given else (Path(home) if home else home_folder() / ".cache") / "penstock"
    make_private_folder(folder)
    return folder.absolute()
