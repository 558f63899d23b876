"""The public API is documented: each name has a docstring with the code's arguments, and examples run."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterator
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
WITHOUT_SECTIONS = {
    f"penstock.engine.pyflink.datastream.{module}"
    for module in ("data_stream", "environment_options", "stream_execution_environment")
}
"""Modules in which functions with arguments may lack the section `Args`."""
SLOW = {"penstock.bench", "penstock.sweep"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL


def public_names(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or [name for name in dir(loaded) if not name.startswith("_")]
    return [name for name in names if not inspect.ismodule(getattr(loaded, name))]


def documented() -> Iterator[tuple[str, Any, type | None]]:
    """Every public function, class and method of a public class, once: its name, itself, its class."""
    seen: set[int] = set()
    for module in MODULES:
        for name in public_names(module):
            public = getattr(importlib.import_module(module), name)
            for path, member, owner in [(f"{module}.{name}", public, None), *members(module, public)]:
                if id(member) not in seen and hasattr(member, "__doc__"):
                    seen.add(id(member))
                    yield path, member, owner


def members(module: str, owner: Any) -> Iterator[tuple[str, Any, type]]:
    """Public methods and nested classes of a class and of its bases, each under its own class's name."""
    for base in inspect.getmro(owner) if inspect.isclass(owner) else ():
        for key, value in vars(base).items() if base.__module__.startswith("penstock") else ():
            member = unwrapped(value)
            if key.startswith("_") or not callable(member):
                continue
            yield f"{module}.{base.__qualname__}.{key}", member, owner
            if inspect.isclass(member) and member.__qualname__ == f"{base.__qualname__}.{key}":
                yield from members(module, member)


def unwrapped(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


OWNERS = {path: owner for path, _, owner in documented()}
DOCUMENTED = {path: member for path, member, _ in documented()}
EXAMPLES = {path: member for path, member in DOCUMENTED.items() if ">>>" in (member.__doc__ or "")}


def docstring(path: str) -> str:
    """A name's docstring; for a method without one, the documented method that it implements."""
    owner, own = OWNERS[path], DOCUMENTED[path].__doc__
    if own or owner is None:
        return inspect.cleandoc(own or "")
    return inspect.getdoc(getattr(owner, path.rpartition(".")[2])) or ""


def test_every_public_name_has_a_docstring():
    assert [path for path in DOCUMENTED if not docstring(path)] == []
    assert len(DOCUMENTED) > 700


def test_pages_have_every_public_name():
    shown = [id(public) for public, _ in on_pages()]
    assert len(shown) == len(set(shown))
    public = {f"{module}.{name}" for module in MODULES for name in public_names(module)}
    assert sorted(path for path in public if id(resolve(path)) not in shown) == []


def test_pages_show_every_documented_method():
    """A method of a base that is not public needs `inherited_members` on the page of its class."""
    shown: set[int] = set()
    for public, inherited in on_pages():
        shown |= {id(public), *shown_members(public, inherited)}
    missing = [path for path, member in DOCUMENTED.items() if member.__doc__ and id(member) not in shown]
    assert [path for path in missing if ".UnsettableStream." not in path] == []


def on_pages() -> list[tuple[Any, list[str]]]:
    """Each object of the pages, with the words of its option `inherited_members`."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("api*.md")))
    directives = re.findall(r"^::: (\S+)\n((?: {4}.*\n)*)", pages, re.MULTILINE)
    return [(resolve(path), re.findall(r"\w+", options.partition(":\n")[2])) for path, options in directives]


def shown_members(owner: Any, inherited: list[str]) -> Iterator[int]:
    for base in inspect.getmro(owner) if inspect.isclass(owner) else ():
        for key, value in vars(base).items():
            if key.startswith("_") or not (base is owner or "true" in inherited or key in inherited):
                continue
            member = unwrapped(value)
            yield id(member)
            if inspect.isclass(member):
                yield from shown_members(member, inherited)


def resolve(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def test_sections_name_the_arguments_of_the_code():
    """Functions and methods list all arguments; classes may leave theirs to functions such as `of`."""
    wrong = []
    for path, member in DOCUMENTED.items():
        section = re.search(r"\nArgs:\n((?:    .*\n?|\n)+)", docstring(path))
        named = re.findall(r"^    (\*{0,2}\w+):", section[1], re.MULTILINE) if section else []
        if section is None and (inspect.isclass(member) or member.__module__ in WITHOUT_SECTIONS):
            continue
        signature = inspect.signature(member).parameters.values()
        stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
        actual = [f"{stars.get(p.kind, '')}{p.name}" for p in signature if p.name not in ("self", "cls")]
        if named != actual:
            wrong.append(f"{path}: documented {named}, takes {actual}")
    assert wrong == []


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
