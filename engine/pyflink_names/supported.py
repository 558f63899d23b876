"""What of PyFlink's API Penstock has, read off its modules, and what it refuses."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from engine.pyflink_names.modules import MODULES, PYFLINK_VERSION, REFUSED_MODULES


def missing_names(api_lines: Iterable[str]) -> list[str]:
    """Names of `api_lines` that Penstock lacks, as module.Class.member.

    A line is `module Class: member member` or `module function()`; lines that start with # say nothing.
    """
    missing: list[str] = []
    for line in api_lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        head, _, members = text.partition(":")
        module_name, _, name = head.partition(" ")
        name = name.removesuffix("()")
        found = _attribute(_module(module_name), name)
        if found is None:
            missing.append(f"{module_name}.{name}")
            continue
        missing.extend(
            f"{module_name}.{name}.{member}"
            for member in members.split()
            if _attribute(found[0], member) is None
        )
    return missing


def support_table() -> Iterator[str]:
    """Lines of Markdown: a row a public class or function with its public members, then what is refused."""
    yield f"PyFlink {PYFLINK_VERSION}: what Penstock has"
    yield ""
    yield "| module | name | members |"
    yield "|---|---|---|"
    for name in MODULES:
        module = _module(name)
        if module is None or hasattr(module, "__path__") or name == "pyflink.version":
            continue
        for public, thing in _public(module):
            yield f"| {name} | {public} | {' '.join(_members(thing))} |"
    yield ""
    yield "What Penstock refuses, with everything below it"
    yield ""
    yield "| module | reason |"
    yield "|---|---|"
    for name, reason in REFUSED_MODULES.items():
        yield f"| {name} | {reason} |"


def _module(name: str) -> ModuleType | None:
    if name not in MODULES:
        return None
    try:
        return importlib.import_module(MODULES[name])
    except ModuleNotFoundError:
        return None


def _attribute(thing: Any, path: str) -> tuple[Any] | None:
    """The attribute, in a tuple since it may be None; None where there is none."""
    for name in path.split("."):
        if thing is None or not hasattr(thing, name):
            return None
        thing = getattr(thing, name)
    return (thing,)


def _public(module: ModuleType) -> list[tuple[str, Any]]:
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    found = [(name, getattr(module, name)) for name in sorted(names)]
    return [(name, one) for name, one in found if inspect.isclass(one) or inspect.isfunction(one)]


def _members(thing: Any) -> list[str]:
    if not inspect.isclass(thing):
        return []
    names: list[str] = []
    for name in sorted(set(dir(thing))):
        if name.startswith("_") or _inherited(thing, name):
            continue
        one = inspect.getattr_static(thing, name)
        if inspect.isclass(one):
            names.extend(f"{name}.{inner}" for inner in _members(one))
        else:
            names.append(name)
    return names


def _inherited(thing: type, name: str) -> bool:
    """Whether Python's own bases (object, Enum, Exception) have the name."""
    owners = [base for base in thing.__mro__ if name in vars(base)]
    return not owners or owners[0].__module__ in ("builtins", "enum", "abc", "typing")
