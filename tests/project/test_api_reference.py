"""The public API is documented: each name has a docstring with the code's arguments, and examples run."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import penstock

ROOT = Path(__file__).parents[2]
MODULES = (
    "penstock",
    "penstock.datastream",
    "penstock.datastream.functions",
    "penstock.datastream.state",
    "penstock.datastream.window",
    "penstock.common",
    "penstock.connectors",
    "penstock.errors",
)
SLOW = {"penstock.bench", "penstock.sweep"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def public_names(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [name for name in dir(loaded) if not name.startswith("_")]
    return [name for name in names if not inspect.ismodule(getattr(loaded, name))]


def documented() -> Iterator[tuple[str, Any]]:
    """Every public function, class and method of a public class, once, by its public name."""
    seen: set[int] = set()
    for module in MODULES:
        for name in public_names(module):
            public = getattr(importlib.import_module(module), name)
            members = [(f"{module}.{name}", public)]
            if inspect.isclass(public):
                members += [
                    (f"{module}.{name}.{key}", unwrapped(vars(base)[key]))
                    for base in public.__mro__
                    if base.__module__.startswith("penstock")
                    for key in vars(base)
                    if not key.startswith("_") and callable(unwrapped(vars(base)[key]))
                ]
            for path, member in members:
                if id(member) not in seen and hasattr(member, "__doc__"):
                    seen.add(id(member))
                    yield path, member


def unwrapped(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


DOCUMENTED = dict(documented())
EXAMPLES = {path: member for path, member in DOCUMENTED.items() if ">>>" in (member.__doc__ or "")}


def test_every_public_name_has_a_docstring():
    """A method that implements a documented one has that one's."""
    missing = [
        path for path, member in DOCUMENTED.items() if not inspect.getdoc(member) and not inherits(path)
    ]
    assert missing == []
    assert len(DOCUMENTED) > 600


def inherits(path: str) -> bool:
    module, name, method = path.rpartition(".")[0].rpartition(".")[0], *path.split(".")[-2:]
    owner = getattr(importlib.import_module(module), name)
    return bool(inspect.getdoc(getattr(owner, method)))


def test_pages_have_every_public_name():
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("api*.md"))
    shown = [id(resolve(path)) for path in re.findall(r"^::: (\S+)$", pages, re.MULTILINE)]
    assert len(shown) == len(set(shown))
    public = {f"{module}.{name}" for module in MODULES for name in public_names(module)}
    assert sorted(path for path in public if id(resolve(path)) not in shown) == []


def resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_sections_name_the_arguments_of_the_code():
    wrong = []
    for path, member in DOCUMENTED.items():
        section = re.search(r"\nArgs:\n((?:    .*\n?|\n)+)", inspect.getdoc(member) or "")
        if section is None:
            continue
        named = re.findall(r"^    (\*{0,2}\w+):", section[1], re.MULTILINE)
        signature = inspect.signature(member).parameters.values()
        stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        actual = [f"{stars.get(p.kind, '')}{p.name}" for p in signature if p.name not in ("self", "cls")]
        if named != actual:
            wrong.append(f"{path}: documented {named}, takes {actual}")
    assert wrong == []


WITHOUT_ARGS = 34
"""Public functions and classes with arguments that have no Args section yet. Only ever lower this number."""


def test_arguments_are_described():
    lacking = [
        path
        for path, member in DOCUMENTED.items()
        if not (inspect.isclass(member) and issubclass(member, Enum))
        and not (inspect.isclass(member) and not {"__init__", "__dataclass_fields__"} & vars(member).keys())
        and set(arguments(member)) - {"java"}
        and not re.search(r"\nArgs:\n", inspect.getdoc(member) or "")
    ]
    assert len(lacking) == WITHOUT_ARGS, lacking
    assert not [path for path in lacking if DESCRIBED & set(path.split("."))]


def arguments(member: Any) -> list[str]:
    try:
        return [name for name in inspect.signature(member).parameters if name not in ("self", "cls")]
    except ValueError:  # derived from a class of Python's own
        return []


DESCRIBED = {
    "CheckpointConfig",
    "Configuration",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "DeltaSink",
    "ExecutionConfig",
    "FileSource",
    "FileSourceBuilder",
    "KeyedStream",
    "RestartStrategies",
    "StreamExecutionEnvironment",
    "WindowedStream",
}
"""Classes of which every method describes its arguments."""


@pytest.mark.parametrize("name", [name for name in public_names("penstock") if name[0].islower()])
def test_functions_of_the_library_have_all_sections(name):
    said = inspect.getdoc(getattr(penstock, name)) or ""
    sections = re.findall(r"^(Args|Returns|Raises|Examples):$", said, re.MULTILINE)
    assert sections == ["Args", "Returns", "Raises", "Examples"]


def marks(path: str) -> list[Any]:
    slow, spark = path in SLOW, " spark." in EXAMPLES[path].__doc__
    return [*([pytest.mark.slow] if slow else []), *([pytest.mark.spark] if spark else [])]


@pytest.mark.parametrize("path", [pytest.param(path, marks=marks(path)) for path in EXAMPLES])
def test_examples_run(path, request, tmp_path, monkeypatch):
    said = EXAMPLES[path].__doc__
    names: dict[str, Any] = {"penstock": penstock}
    if request.node.get_closest_marker("spark"):
        names["spark"] = request.getfixturevalue("spark")
    monkeypatch.chdir(tmp_path)
    example = doctest.DocTestParser().get_doctest(said, names, path, None, None)
    failures: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS).run(example, out=failures.append)
    assert failures == []
