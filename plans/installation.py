"""What is installed as Penstock: its distribution, its version, and what another project's of its name is."""

from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Any

import penstock

DISTRIBUTION = "penstock-spark"
_OTHER = "penstock"
"""A distribution of the index whose package has our name too."""

_COMMAND = "penstock.engine.commands.main:main"


@cache
def own_version() -> str:
    """Penstock's version: of its distribution, or of the checkout it is imported from; else "unknown"."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return str(_checkout().get("version", "unknown"))


def own_requirements() -> list[str]:
    """The requirements of its metadata; of a checkout that is not installed, without those of extras."""
    try:
        return requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return list(_checkout().get("dependencies", []))


def _checkout() -> dict[str, Any]:
    """The table `project` of the checkout that Penstock is imported from; empty for an installation."""
    project = Path(penstock.__file__).resolve().parents[1] / "pyproject.toml"
    if not project.is_file():
        return {}
    import tomllib  # only a checkout needs it

    table: dict[str, Any] = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    return table


def install_command(*extras: str) -> str:
    """The command that adds `extras`.

    Pip takes an installed distribution before it looks for one, so that it serves a checkout, a wheel and the
    index.
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


def other_distribution() -> str | None:
    """A sentence about a distribution named `penstock` that is installed and not ours; None if there is none.

    Pip puts the files of both into one folder, so that the later one hides the API of the first.
    """
    try:
        other = distribution(_OTHER)
    except PackageNotFoundError:
        return None
    if _is_ours(other):
        return None
    found = f"the distribution {_OTHER} {other.version} is another project's, whose package has the same name"
    hidden = "" if hasattr(penstock, "plan") else "; `import penstock` gives that one"
    return f"{found}{hidden}: pip uninstall -y {_OTHER} {DISTRIBUTION}, and install Penstock again"


def _is_ours(other: Distribution) -> bool:
    """Whether it is an installation of ours under its former name."""
    return any(entry.value == _COMMAND for entry in other.entry_points)
