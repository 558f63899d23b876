"""The public API is documented: each name has a docstring with the code's arguments, and examples run."""

import doctest
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import penstock
from penstock.engine.pyflink_names.modules import GATHERED

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


class Documented(NamedTuple):
    member: Any
    owner: type | None = None

    def docstring(self) -> str:
        """Its own, or the docstring of the method that it implements."""
        if self.member.__doc__ or self.owner is None:
            return inspect.cleandoc(self.member.__doc__ or "")
        return inspect.getdoc(getattr(self.owner, self.member.__name__)) or ""


def documented(names: Iterable[tuple[str, str, Any]]) -> dict[str, Documented]:
    """Each public function, class and member of a class once; `names`: module, name there, the thing."""
    found: dict[int, tuple[str, Documented]] = {}
    for module, name, public in names:
        for path, each in [(f"{module}.{name}", Documented(public)), *members(module, public)]:
            if hasattr(each.member, "__doc__"):
                found.setdefault(id(each.member), (path, each))
    return dict(found.values())


def members(module: str, owner: Any) -> Iterator[tuple[str, Documented]]:
    """Public methods and nested classes of a class and of its bases, each under its own class's name."""
    for base in inspect.getmro(owner) if inspect.isclass(owner) else ():
        for key, value in vars(base).items() if base.__module__.startswith("penstock") else ():
            member = unwrapped(value)
            if key.startswith("_") or not callable(member):
                continue
            yield f"{module}.{base.__qualname__}.{key}", Documented(member, owner)
            if inspect.isclass(member) and member.__qualname__ == f"{base.__qualname__}.{key}":
                yield from members(module, member)


def unwrapped(member: Any) -> Any:
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def names_of_pyflink() -> Iterator[tuple[str, str, Any]]:
    """Names that scripts import from PyFlink's modules, and that the pages leave out in part."""
    for module, sources in GATHERED.items():
        for source, names in sources.items():
            loaded = importlib.import_module(f"penstock.{source}")
            yield from ((module, name, getattr(loaded, name)) for name in names.split())


DOCUMENTED = documented(
    (module, name, getattr(importlib.import_module(module), name))
    for module in MODULES
    for name in public_names(module)
)
EVERYTHING = documented(names_of_pyflink()) | DOCUMENTED
EXAMPLES = {path: each.member for path, each in DOCUMENTED.items() if ">>>" in (each.member.__doc__ or "")}


def test_every_public_name_has_a_docstring():
    assert [path for path, each in EVERYTHING.items() if not each.docstring()] == []
    assert len(DOCUMENTED) > 1000


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
    own = {path: id(each.member) for path, each in DOCUMENTED.items() if each.member.__doc__}
    missing = [path for path in own if own[path] not in shown]
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
    for path, each in EVERYTHING.items():
        section = re.search(r"\nArgs:\n((?:    .*\n?|\n)+)", each.docstring())
        named = re.findall(r"^    (\*{0,2}\w+):", section[1], re.MULTILINE) if section else []
        if section is None and not inspect.isroutine(each.member):
            continue
        signature = inspect.signature(each.member).parameters.values()
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
