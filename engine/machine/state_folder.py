"""Where Penstock keeps what outlives a command: the jobs and sessions of this user."""

import os
from pathlib import Path

from penstock.operators.files.private_files import make_private_folder

STATE_DIR = "PENSTOCK_STATE_DIR"
"""The environment variable that names the folder."""


def state_path() -> Path:
    """PENSTOCK_STATE_DIR, else penstock in XDG_STATE_HOME, else ~/.local/state/penstock; it may not exist."""
    named = os.environ.get(STATE_DIR)
    of_states = os.environ.get("XDG_STATE_HOME") or home_folder() / ".local" / "state"
    return (Path(named) if named else Path(of_states, "penstock")).absolute()


def state_folder(*parts: str) -> Path:
    """The folder `parts` of this user's state, made if it is not there, readable by this user only.

    OSError where it cannot be made.
    """
    folder = state_path().joinpath(*parts)
    make_private_folder(folder)
    return folder


# The home of this user, who may have none.


def home_folder() -> Path:
    """HOME, else the home of this user's account; "/", as in a container, for a number without an account."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


# Where Penstock keeps what it can make again, so that later commands of this user start sooner.


CACHE_DIR = "PENSTOCK_CACHE_DIR"
"""The environment variable that names the folder."""


def cache_folder() -> Path:
    """This user's folder, made if it is not there, readable by this user only.

    It is PENSTOCK_CACHE_DIR, else penstock in XDG_CACHE_HOME, else ~/.cache/penstock. OSError where it
    cannot be made.
    """
    named = os.environ.get(CACHE_DIR)
    home = os.environ.get("XDG_CACHE_HOME")
    folder = Path(named) if named else (Path(home) if home else home_folder() / ".cache") / "penstock"
    make_private_folder(folder)
    return folder.absolute()
