"""Where Penstock keeps what outlives a command: the jobs and sessions of this user."""

import os
from pathlib import Path

from engine.machine.home_folder import home_folder

STATE_DIR = "PENSTOCK_STATE_DIR"
"""The environment variable that names the folder."""


def state_folder(*parts: str) -> Path:
    """The folder `parts` of this user's state, made if it is not there, readable by this user only.

    It is PENSTOCK_STATE_DIR, else penstock in XDG_STATE_HOME, else ~/.local/state/penstock. OSError where it
    cannot be made.
    """
    given = os.environ.get(STATE_DIR)
    of_states = os.environ.get("XDG_STATE_HOME") or home_folder() / ".local" / "state"
    state = Path(given) if given else Path(of_states, "penstock")
    folder = state.absolute()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for part in parts:
        folder = folder / part
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder
