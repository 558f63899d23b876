"""The installed distribution of Penstock, its version, and a foreign distribution of the same name."""

from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution, requires, version
from pathlib import Path
from typing import Any

import penstock

DISTRIBUTION = "penstock-spark"
_OTHER = "penstock"
"""Another project's distribution on the package index; its package is called penstock, too."""

_COMMAND = "penstock.engine.commands.main:main"


@cache
def own_version() -> str:
    """Return Penstock's version, from its distribution or from the checkout, or "unknown"."""
    try:
        return version(DISTRIBUTION)
    except PackageNotFoundError:
        return str(_checkout().get("version", "unknown"))


def own_requirements() -> list[str]:
    """Return the distribution's requirements, or the checkout's without extras."""
    try:
        return requires(DISTRIBUTION) or []
    except PackageNotFoundError:
        return list(_checkout().get("dependencies", []))


def _checkout() -> dict[str, Any]:
    """Return the table `project` of the imported checkout's pyproject.toml; {} for an installation."""
    project = Path(penstock.__file__).resolve().parents[1] / "pyproject.toml"
    if not project.is_file():
        return {}
    import tomllib  # only a checkout needs it

    table: dict[str, Any] = tomllib.loads(project.read_text(encoding="utf-8"))["project"]
    return table


def install_command(*extras: str) -> str:
    """Return the pip command that adds `extras`.

    Pip prefers an installed distribution to the index, so one command serves a checkout, a wheel and the
    index.
    """
    return f"pip install '{DISTRIBUTION}[{','.join(extras)}]'"


def other_distribution() -> str | None:
    """Describe a foreign distribution named `penstock` that is installed; None if there is none.

    Pip installs both into one folder, so the one installed later hides the API of the other.
    """
    try:
        other = distribution(_OTHER)
    except PackageNotFoundError:
        return None
    if _is_ours(other):
        return None
    problem = (
        f"the distribution {_OTHER} {other.version} is another project's, whose package has the same name"
    )
    hidden = "" if hasattr(penstock, "plan") else "; `import penstock` imports that one"
    return f"{problem}{hidden}: pip uninstall -y {_OTHER} {DISTRIBUTION}, and install Penstock again"


def _is_ours(other: Distribution) -> bool:
    """Return whether `other` is Penstock itself under its former name."""
    return any(entry.value == _COMMAND for entry in other.entry_points)
