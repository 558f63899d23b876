"""What of PyFlink's public API Penstock has, looked up in its modules, and what it refuses."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from penstock.engine.pyflink_names.modules import MODULES, PYFLINK_VERSION, REFUSED_MODULES

#: PyFlink's public names: a line a class or function, `module Class: member member` or `module function()`.
API_FILE = Path(__file__).parent / f"pyflink-{PYFLINK_VERSION}-api.txt"

#: What classes of PyFlink's have here and not there.
OWN_NAMES = (
    "pyflink.datastream.stream_execution_environment StreamExecutionEnvironment: "
    "from_dataframe get_stream_graph get_job_graph",
    "pyflink.datastream.data_stream DataStream: map_batches to_dataframe global_ join co_group",
    "pyflink.datastream.data_stream KeyedStream: aggregate interval_join",
)


class ApiLine(NamedTuple):
    """A class or function of the API, with its members; those of nested classes are `Inner.member`."""

    module: str
    name: str
    members: tuple[str, ...]


def api_lines() -> list[str]:
    """The lines of API_FILE."""
    return API_FILE.read_text(encoding="utf-8").splitlines()


def missing_names(lines: Iterable[str]) -> list[str]:
    """Names of `lines`, of the form of API_FILE, that Penstock lacks, as module.Class.member."""
    missing: list[str] = []
    for line in _parsed(lines):
        attributes = _attribute(_module(line.module), line.name)
        if attributes is None:
            missing.append(f"{line.module}.{line.name}")
            continue
        missing.extend(
            f"{line.module}.{line.name}.{member}"
            for member in line.members
            if _attribute(attributes[0], member) is None
        )
    return missing


def support_table() -> Iterator[str]:
    """Lines of Markdown: what of the API is there and what not, what is Penstock's own, what is refused."""
    lines = api_lines()
    missing = set(missing_names(lines))
    parsed = list(_parsed(lines))
    names = sum(1 + len(line.members) for line in parsed)
    lost = sum(
        1 + len(line.members) if f"{line.module}.{line.name}" in missing else 0 for line in parsed
    ) + sum(f"{line.module}.{line.name}.{name}" in missing for line in parsed for name in line.members)
    yield (
        f"Of the {names} public names of PyFlink {PYFLINK_VERSION}'s DataStream API {names - lost} are "
        "there; some of them only to say why they cannot work without Flink's JVM."
    )
    yield ""
    yield "| module | name | members | missing |"
    yield "|---|---|---|---|"
    for line in parsed:
        whole = f"{line.module}.{line.name}"
        lacking = [name for name in line.members if f"{whole}.{name}" in missing]
        there = [] if whole in missing else [name for name in line.members if name not in lacking]
        says = "all" if whole in missing else " ".join(lacking)
        yield f"| {line.module} | {line.name} | {' '.join(there)} | {says} |"
    yield ""
    yield "Penstock's own:"
    yield ""
    yield "| module | name | members |"
    yield "|---|---|---|"
    for line in _parsed(OWN_NAMES):
        yield f"| {line.module} | {line.name} | {' '.join(line.members)} |"
    yield ""
    yield "Refused, with everything below:"
    yield ""
    yield "| module | reason |"
    yield "|---|---|"
    for name, reason in REFUSED_MODULES.items():
        yield f"| {name} | {reason} |"


def _parsed(lines: Iterable[str]) -> Iterator[ApiLine]:
    for line in lines:
        text = line.strip()
        if text and not text.startswith("#"):
            head, _, members = text.partition(":")
            module, _, name = head.partition(" ")
            yield ApiLine(module, name.removesuffix("()"), tuple(members.split()))


def _module(name: str) -> ModuleType | None:
    return importlib.import_module(MODULES[name]) if name in MODULES else None


def _attribute(thing: Any, path: str) -> tuple[Any] | None:
    """The attribute, in a tuple since it may be None; None where there is none."""
    for name in path.split("."):
        if thing is None or not hasattr(thing, name):
            return None
        thing = getattr(thing, name)
    return (thing,)
