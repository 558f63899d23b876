"""Names of PyFlink's modules that Penstock's do not define: found where PyFlink has them from, or refused.

PyFlink's modules have many names by importing them: `Duration` in `pyflink.common.watermark_strategy`,
`ValueState` in `pyflink.datastream.functions`, `List` in most. Scripts import them from there.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from penstock.engine.pyflink_names.modules import (
    JAVA_REASON,
    MODULES,
    PYFLINK_VERSION,
    REFUSED_MODULES,
    refusal,
)
from penstock.engine.pyflink_names.unsupported_names import unsupported_name

#: PyFlink's names, as tests/engine/pyflink/common/ask_names.py writes them: lines `module origin: name name`.
NAMES_FILE = Path(__file__).parent / f"pyflink-{PYFLINK_VERSION}-names.txt"

_OWN, _TYPE_VARIABLE, _MODULES = ".", "TypeVar", "modules"


@cache
def pyflink_names() -> dict[str, dict[str, str]]:
    """PyFlink's names by module: each to where the module has it from; names of modules to those modules."""
    names: dict[str, dict[str, str]] = {}
    for line in NAMES_FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        head, _, words = line.partition(": ")
        module, _, origin = head.partition(" ")
        for word in words.split():
            name, _, target = word.partition("=")
            whole = f"{_MODULES}={target or name}" if origin == _MODULES else origin
            names.setdefault(module, {})[name] = whole
    return names


def other_name(module: str, name: str) -> Any:
    """What `name` is in PyFlink's `module`, one that Penstock has under another module or not at all.

    Raises UnsupportedNameError where Penstock lacks it, AttributeError where PyFlink does.
    """
    origin = pyflink_names().get(module, {}).get(name)
    if origin is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    if origin == _TYPE_VARIABLE:
        return TypeVar(name)  # named when the script asks for it
    if origin.startswith(_MODULES):
        return _module(origin.partition("=")[2], f"{module}.{name}")
    if origin == _OWN or origin in REFUSED_MODULES:
        raise unsupported_name(f"{module}.{name}", refusal(origin) or JAVA_REASON)
    source = _module(origin, f"{module}.{name}")
    if name in vars(source):
        return vars(source)[name]
    return other_name(origin, name) if origin in MODULES else getattr(source, name)


def _module(name: str, wanted: str) -> ModuleType:
    if name in MODULES:
        return importlib.import_module(MODULES[name])
    if name.partition(".")[0] in sys.stdlib_module_names:
        return importlib.import_module(name)
    raise unsupported_name(wanted, refusal(name) or JAVA_REASON)
