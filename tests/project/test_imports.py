"""Who imports whom: nothing from above, and no circles.

Imports inside functions count like all others: a late import only hides a circle. So do those under
TYPE_CHECKING, but for the two classes of PyFlink's API that nearly all others name in their signatures.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: DataStream and StreamExecutionEnvironment are what the methods of their own parts give back, so that a type
#: checker has to know both ends. When the program runs, only the import downwards is there.
NAMED_BY_THEIR_PARTS = {
    "penstock.engine.pyflink.datastream.data_stream",
    "penstock.engine.pyflink.datastream.stream_execution_environment",
}


#: A file without it is not parsed.
MAY_BE_SHORT = re.compile(r"\b(from\s|import\b.*[\s,])(operators|plans|engine)\b")


@cache
def modules() -> dict[str, ast.Module]:
    """Every module of Penstock by its dotted name; the packages' are theirs without `__init__`."""
    packages = ("operators", "plans", "engine")
    files = [file for package in packages for file in (ROOT / package).rglob("*.py")]
    return {
        "penstock."
        + ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): ast.parse(
            file.read_text(encoding="utf-8")
        )
        for file in files
        if "examples" not in file.parts
    }


def imported(tree: ast.AST, for_types: bool = False) -> Iterator[tuple[str, bool]]:
    """What a module imports, names from a module as `module.name`, and whether only for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.expr):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{name.name}", for_types) for name in node.names)
        elif isinstance(node, ast.Import):
            yield from ((name.name, for_types) for name in node.names)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for part in node.body:
                yield from imported(ast.Module([part], []), for_types=True)
            for part in node.orelse:
                yield from imported(ast.Module([part], []), for_types)
        else:
            yield from imported(node, for_types)


@cache
def imports() -> dict[str, dict[str, bool]]:
    """Which modules of Penstock each one imports, and whether only for types."""
    found: dict[str, dict[str, bool]] = {}
    for module, tree in modules().items():
        of_module = found[module] = {}
        for name, for_types in imported(tree):
            target = name if name in modules() else name.rpartition(".")[0]
            if target in modules() and target != module:
                of_module[target] = of_module.get(target, True) and for_types
    return found


@pytest.mark.parametrize(
    ("package", "above"),
    [
        ("operators", ("plans", "engine")),
        ("plans", ("engine",)),
    ],
)
def test_nothing_is_imported_from_above(package, above):
    upwards = [
        (module, target)
        for module, targets in imports().items()
        for target in targets
        if module.split(".")[1] == package and target.split(".")[1] in above
    ]
    assert not upwards


def test_every_import_of_penstocks_starts_at_penstock():
    """A second name for a module would load it twice."""
    short = [
        (str(file.relative_to(ROOT)), name)
        for folder in ("operators", "plans", "engine", "penstock", "tests", "benchmarks")
        for file in (ROOT / folder).rglob("*.py")
        if MAY_BE_SHORT.search(text := file.read_text(encoding="utf-8"))
        for name, _ in imported(ast.parse(text))
        if name.split(".")[0] in ("operators", "plans", "engine")
    ]
    assert not short


LAYERS_OF_PLANS = ("topology", "stream_graph", "job_graph", "execution_graph", "slots")


def test_no_layer_imports_a_later_one():
    def layer_of(module: str) -> int:
        package, layer = [*module.split(".")[1:3], ""][:2]
        return LAYERS_OF_PLANS.index(layer) if package == "plans" and layer in LAYERS_OF_PLANS else -1

    later = [
        (module, target)
        for module, targets in imports().items()
        for target in targets
        if 0 <= layer_of(module) < layer_of(target)
    ]
    assert not later


def test_only_commands_import_commands():
    from_below = [
        (module, target)
        for module, targets in imports().items()
        for target in targets
        if target.startswith("penstock.engine.commands.")
        and not module.startswith("penstock.engine.commands.")
    ]
    assert not from_below


def circle(graph: dict[str, set[str]]) -> list[str]:
    """The modules of a circle, the first one again at the end; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_module_imports_itself_by_way_of_others():
    graph = {
        module: {
            target
            for target, for_types in targets.items()
            if not (
                for_types
                and target in NAMED_BY_THEIR_PARTS
                and module.startswith("penstock.engine.pyflink.datastream.")
            )
        }
        for module, targets in imports().items()
    }
    assert not circle(graph)


#: The only imports from a room into one above it: reading a topology file recognises other tools' forms, and
#: plans what it has read in parts; the choices of a cluster name a custom planner's decisions in a type.
BACK_UP = {
    ("penstock.plans.layers", "penstock.plans.custom_planners"),
    ("penstock.plans.topology", "penstock.plans.importing"),
    ("penstock.plans.topology", "penstock.plans.planners"),
}


@pytest.mark.parametrize("whole", ["operators", "plans", "engine"])
def test_no_package_imports_itself_by_way_of_others(whole):
    graph: dict[str, set[str]] = {}
    for module, targets in imports().items():
        package = ".".join(module.split(".")[:3])
        of_package = graph.setdefault(package, set())
        if package.startswith(f"penstock.{whole}."):
            rooms = {".".join(target.split(".")[:3]) for target in targets} - {package}
            of_package |= {room for room in rooms if (package, room) not in BACK_UP}
    assert not circle(graph)


def test_a_circle_is_found_wherever_the_import_stands():
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from a.b import c\nelse:\n    import d\n"
        "def f():\n    if g():\n        from e import h\n"
    )
    assert list(imported(ast.parse(source))) == [
        ("typing.TYPE_CHECKING", False),
        ("a.b.c", True),
        ("d", False),
        ("e.h", False),
    ]
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) in (
        ["a", "b", "c", "a"],
        ["b", "c", "a", "b"],
        ["c", "a", "b", "c"],
    )
