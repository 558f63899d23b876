"""Tells a user whose own `plans`, `operators` or `engine` hides Penstock's package of that name.

The three names are everyday words, and Python looks beside the running script first. This module has a name
that nothing else has, so that each of the three packages can ask it before importing from another.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("engine", "operators", "plans")


def require_own_packages(init_file: str) -> None:
    """Raise ImportError if a name of PACKAGES leads elsewhere than beside the package of `init_file`.

    Nothing foreign is executed: the names are looked up, not imported.
    """
    root = Path(init_file).resolve().parents[1]
    for name in PACKAGES:
        found = _location(name)
        if found is not None and found != root / name / "__init__.py":
            culprit = found.parent if found.name == "__init__.py" else found
            raise ImportError(
                f"the name {name!r} is taken: Python finds {culprit} instead of Penstock's package "
                f"{root / name}. Rename {culprit.name}, or run from a directory that does not hold it.",
                name=name,
                path=str(found),
            )


def _location(name: str) -> Path | None:
    """The file that `import name` runs, or has run; None if there is none."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if loaded is None:
        spec = find_spec(name) if name not in sys.modules else None
        loaded = spec.origin if spec is not None else None
    return None if loaded is None else Path(loaded).resolve()
