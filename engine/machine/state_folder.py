"""Where Penstock keeps what outlives a command: jobs and sessions of this user, and what it can make again.

Both folders hold pickles and paths of jars, so that a user who writes into them runs code as their owner.
Only the functions here hand them out, and they refuse a folder that is not this user's alone, however it was
found.
"""

import os
from pathlib import Path

from penstock.operators.files.durable_files import NotOwnError, make_private_folder, require_own_place

STATE_DIR = "PENSTOCK_STATE_DIR"
CACHE_DIR = "PENSTOCK_CACHE_DIR"
"""The environment variables that name the folders."""


def state_path() -> Path:
    """PENSTOCK_STATE_DIR, else penstock in XDG_STATE_HOME, else ~/.local/state/penstock; it may not exist.

    NotOwnError if it exists, and another user owns it or may write to it.
    """
    path = _path(STATE_DIR, "XDG_STATE_HOME", Path(".local", "state"))
    if os.path.exists(path):
        _require_own(path, STATE_DIR)
    return path


def state_folder(*parts: str) -> Path:
    """The folder `parts` of this user's state, made if it is not there, readable by this user only.

    OSError where it cannot be made; NotOwnError if another user owns it, or one above it in the state, or may
    write to it.
    """
    return _own_folder(_path(STATE_DIR, "XDG_STATE_HOME", Path(".local", "state")), parts, STATE_DIR)


def cache_folder() -> Path:
    """This user's folder of what can be made again, so that later commands start sooner; made if not there.

    It is PENSTOCK_CACHE_DIR, else penstock in XDG_CACHE_HOME, else ~/.cache/penstock. OSError where it
    cannot be made; NotOwnError if another user owns it or may write to it.
    """
    return _own_folder(_path(CACHE_DIR, "XDG_CACHE_HOME", Path(".cache")), (), CACHE_DIR)


def home_folder() -> Path:
    """HOME, else the home of this user's account; "/", as in a container, for a number without an account."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def _path(variable: str, of_desktops: str, in_home: Path) -> Path:
    if named := os.environ.get(variable):
        return Path(named).absolute()
    above = os.environ.get(of_desktops)
    return (Path(above) if above else home_folder() / in_home).absolute() / "penstock"


def _own_folder(base: Path, parts: tuple[str, ...], variable: str) -> Path:
    folder = base.joinpath(*parts)
    make_private_folder(folder)
    for number in range(len(parts) + 1):
        _require_own(base.joinpath(*parts[:number]), variable)
    return folder


def _require_own(folder: Path, variable: str) -> None:
    try:
        require_own_place(folder)
    except NotOwnError as error:
        raise NotOwnError(error.errno, f"{error.strerror} ({variable} names another)", str(folder)) from None
