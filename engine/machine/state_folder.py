"""Where Penstock keeps what outlives a command: the jobs and sessions of this user."""

import os
from pathlib import Path

from penstock.engine.machine.home_folder import home_folder
from penstock.operators.files.private_files import make_private_folder

STATE_DIR = "PENSTOCK_STATE_DIR"
"""The environment variable that names the folder."""


def state_path() -> Path:
    """PENSTOCK_STATE_DIR, else penstock in XDG_STATE_HOME, else ~/.local/state/penstock; it may not exist."""
    given = os.environ.get(STATE_DIR)
    of_states = os.environ.get("XDG_STATE_HOME") or home_folder() / ".local" / "state"
    return (Path(given) if given else Path(of_states, "penstock")).absolute()


def state_folder(*parts: str) -> Path:
    """The folder `parts` of this user's state, made if it is not there, readable by this user only.

    OSError where it cannot be made.
    """
    folder = state_path().joinpath(*parts)
    make_private_folder(folder)
    return folder
