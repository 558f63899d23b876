"""Writes the names that PyFlink's modules have, as `import` finds them. Not a test.

usage: python ask_names.py > pyflink-2.3.0-names.txt, with a Python that has apache-flink 2.3.0.

A line is a module, where it has some names from, and the names: `.` for names of its own, `TypeVar` for type
variables, `modules` for modules (`name=module` where the module is called otherwise), a module otherwise.
"""
# mypy: disable-error-code="import-not-found, import-untyped"

import ast
import importlib
import inspect
import pkgutil
from types import ModuleType
from typing import TypeVar

import pyflink

PACKAGES = ("pyflink.common", "pyflink.datastream", "pyflink.metrics", "pyflink.version")


def main() -> None:
    print(f"# Names of PyFlink {pyflink.version.__version__}'s modules: module, where they come from, names.")
    for info in pkgutil.walk_packages(pyflink.__path__, "pyflink."):
        if info.name.startswith(PACKAGES):
            for line in lines_of(importlib.import_module(info.name)):
                print(line)


def lines_of(module: ModuleType) -> list[str]:
    imported = imports(module)
    names: dict[str, list[str]] = {}
    for name, value in sorted(vars(module).items()):
        if name.startswith("__"):
            continue
        if isinstance(value, TypeVar):
            origin = "TypeVar"
        elif isinstance(value, ModuleType):
            origin = "modules"
        else:
            home = getattr(value, "__module__", None)
            is_own = home == module.__name__ or not str(home).startswith("pyflink.")
            origin = imported.get(name, "." if is_own else str(home))
        is_alias = isinstance(value, ModuleType) and value.__name__ != name
        names.setdefault(origin, []).append(f"{name}={value.__name__}" if is_alias else name)
    return [f"{module.__name__} {origin}: {' '.join(some)}" for origin, some in sorted(names.items())]


def imports(module: ModuleType) -> dict[str, str]:
    """Names that the module imports to the modules that it has them from."""
    found = {}
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                if alias.asname in (None, alias.name):
                    found[alias.name] = node.module
    return found


if __name__ == "__main__":
    main()
