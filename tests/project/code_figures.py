"""Figures of the packages that say how much there is to search: `python -m tests.project.code_figures`.

Files, lines, lines of imports, modules with one importer, modules that only hand names on, constants that
several modules define with the same value, and, with `--unused`, names that nothing in the product uses.
"""

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("plans", "operators", "engine", "penstock")
SMALL = 60  # lines
IS_LOOKED_UP = (
    "penstock.engine.pyflink_names",
    "penstock.engine.commands",
    "penstock.engine.examples",
)
"""Packages whose names are looked up by name, not imported."""


class Module(NamedTuple):
    """A file of the product."""

    name: str
    lines: int
    tree: ast.Module


def modules(root: Path = ROOT) -> dict[str, Module]:
    """All modules of the product by name."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = (
            ".".join(("penstock", *parts)).removesuffix(".__init__").replace("penstock.penstock", "penstock")
        )
        text = path.read_text(encoding="utf-8")
        found[name] = Module(name, len(text.splitlines()), ast.parse(text))
    return found


def package_of(name: str) -> str:
    """The folder at the top of the repository that holds a module."""
    return next((part for part in name.split(".")[1:2] if part in PACKAGES), "penstock")


def imported(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, str | None]]:
    """Module and name of each import of the product, wherever in the module it stands."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield (inner, None) if inner in known else (node.module, alias.name)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)


def importers(known: dict[str, Module]) -> dict[str, set[str]]:
    """Module to the modules that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for module in known.values():
        for name, _ in imported(module, known):
            if name in known and name != module.name:
                found[name].add(module.name)
    return found


def import_lines(module: Module) -> int:
    """Lines that import statements take."""
    nodes = (node for node in ast.walk(module.tree) if isinstance(node, ast.Import | ast.ImportFrom))
    return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in nodes)


def only_hands_on(module: Module) -> bool:
    """Whether a module imports names and defines none."""
    statements = [node for node in module.tree.body if not _is_docstring(node)]
    names = [node for node in statements if not isinstance(node, ast.Import | ast.ImportFrom)]
    is_list = all(
        isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__" for node in names
    )
    return bool(statements) and len(names) < len(statements) and is_list


def repeated_constants(known: dict[str, Module]) -> dict[str, list[str]]:
    """Value of a constant (a tuple of names, a text or a large number) to the modules that define it."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in known.values():
        for node in module.tree.body:
            if isinstance(node, ast.Assign) and _is_telling(node.value):
                names = ", ".join(target.id for target in node.targets if isinstance(target, ast.Name))
                found[ast.unparse(node.value)].append(f"{module.name}.{names}")
    return {value: places for value, places in found.items() if len(places) > 1}


def _is_telling(value: ast.expr) -> bool:
    if isinstance(value, ast.Constant):
        return isinstance(value.value, int) and not isinstance(value.value, bool) and abs(value.value) > 1000
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.LShift | ast.Pow)
    return isinstance(value, ast.Tuple | ast.List | ast.Set) and len(value.elts) > 1


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def unused(known: dict[str, Module]) -> Iterator[str]:
    """Names of modules that no module of the product uses, and modules that none imports.

    An attribute is a use of a module's name only if it is looked up in that module.
    """
    uses: dict[str, set[str]] = defaultdict(set)
    texts: set[str] = set()
    for module in known.values():
        for name, attribute in imported(module, known):
            uses[name].add(attribute or "")
        for name, attribute in _looked_up(module, known):
            uses[name].add(attribute)
        texts |= _words(module)
    for module in known.values():
        if module.name.startswith(IS_LOOKED_UP):
            continue
        if module.name not in uses and module.name not in texts and _defines(module):
            yield module.name
        for name in _defines(module):
            if name not in uses[module.name] | texts and f"{module.name}.{name}" not in texts:
                yield f"{module.name}.{name}"


def _looked_up(module: Module, known: dict[str, Module]) -> Iterator[tuple[str, str]]:
    """Module and name of attributes of imported modules, and of names used outside their own definition."""
    bound = {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{node.module}.{alias.name}" in known
    }
    for definition in module.tree.body:
        for node in ast.walk(definition):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield bound.get(node.value.id, ""), node.attr
            own = getattr(definition, "name", None)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id != own:
                yield module.name, node.id


def _words(module: Module) -> set[str]:
    """The words of short texts, which may be names that are looked up."""
    texts = (node.value for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
    short = (text for text in texts if isinstance(text, str) and len(text) < 200)
    return {word for text in short for word in text.replace(":", " ").split()}


def _defines(module: Module) -> list[str]:
    names: list[str] = []
    for node in module.tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name)]
    return [name for name in names if not name.startswith("__")]


def main() -> None:
    """Print a row of figures for each package, and what `--unused` or `--constants` ask for."""
    known = modules(Path(sys.argv[1]) if sys.argv[1:] and not sys.argv[1].startswith("-") else ROOT)
    by = importers(known)
    print("package    files   lines  imports  one importer (small)  re-export  over 800")
    for package in PACKAGES:
        own = [module for module in known.values() if package_of(module.name) == package]
        single = [module for module in own if len(by[module.name]) == 1]
        print(
            f"{package:9} {len(own):6,} {sum(module.lines for module in own):7,} "
            f"{sum(map(import_lines, own)):8,} {len(single):8,} "
            f"({sum(module.lines <= SMALL for module in single):,})"
            f"{sum(map(only_hands_on, own)):11,} "
            f"{sum(module.lines > 800 for module in own):9,}"
        )
    constants = repeated_constants(known)
    print(f"constants that several modules define: {len(constants)}")
    if "--constants" in sys.argv:
        print("\n".join(f"{value}: {', '.join(places)}" for value, places in constants.items()))
    if "--unused" in sys.argv:
        print("\n".join(unused(known)))


if __name__ == "__main__":
    main()
