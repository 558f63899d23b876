"""Where Penstock is imported from."""

from pathlib import Path

import penstock


def import_root() -> Path:
    """The folder that holds the package `penstock`: site-packages, or the root of a checkout."""
    return Path(penstock.__file__).resolve().parents[1]


def is_checkout() -> bool:
    """Whether Penstock is imported from a checkout, which other processes have to be told of."""
    return (import_root() / "pyproject.toml").is_file()
