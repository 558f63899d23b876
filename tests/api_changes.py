"""List breaking changes of the public API since the last release: `python -m tests.api_changes [REF]`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import griffe

from tests.project.test_api_reference import MODULES, public_names

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Compare with the last tag `v…`, or with REF, and name everything that breaks callers."""
    reference = sys.argv[1] if len(sys.argv) > 1 else last_release()
    if reference is None:
        print("public API: no release to compare with")
        return
    loading: dict[str, Any] = {"resolve_aliases": True, "allow_inspection": False}
    old = griffe.load_git("penstock", ref=reference, repo=ROOT, search_paths=["."], **loading)
    new = griffe.load("penstock", search_paths=[ROOT], **loading)
    broken = changes_of(old, new)
    print("\n".join(broken) or f"public API: no breaking changes since {reference}")


def last_release() -> str | None:
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def changes_of(old: griffe.Object | griffe.Alias, new: griffe.Object | griffe.Alias) -> list[str]:
    """Names that are gone, and changes of functions, methods and classes, by their public names."""
    broken = []
    for module in MODULES:
        below = module.removeprefix("penstock").lstrip(".")
        before, after = (top[below] if below else top for top in (old, new))
        names = {name for name, member in before.members.items() if member.is_alias and name[0] != "_"}
        broken += [f"{module}.{name}: it is gone" for name in sorted(names - after.members.keys())]
    for path in (f"{module}.{name}" for module in MODULES for name in public_names(module)):
        below = path.removeprefix("penstock.")
        try:
            before = old[below]
        except KeyError:  # new since then
            continue
        changes = griffe.find_breaking_changes(alone(before), alone(new[below]))
        broken += [f"{path}: {change.kind.value} ({change.obj.name})" for change in changes]
    return broken


def alone(public: griffe.Object | griffe.Alias) -> griffe.Module:
    """A module that holds this object only."""
    module = griffe.Module("public")
    module.members[public.name] = public.final_target if isinstance(public, griffe.Alias) else public
    return module


if __name__ == "__main__":
    main()
