"""The home of this user, who may have none."""

from pathlib import Path


def home_folder() -> Path:
    """HOME, else the home of this user's account; "/", as in a container, for a number without an account."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")
