"""Prevent pyarrow from importing pandas."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from threading import local
from types import ModuleType

import pyarrow as pa


@contextmanager
def without_pandas() -> Iterator[None]:
    """Keep this thread from importing pandas inside the context; an imported pandas is used as usual.

    When Arrow builds an array from Python values, it imports an installed pandas to recognise its objects,
    which takes a third of a second. Without an import of pandas there can be no such objects. Other threads
    may import it at any time, and so may this one afterwards: pyarrow is then made to look again, and works
    as usual.
    """
    if "pandas" in sys.modules:
        yield
        return
    before = _thread.__dict__.get("without", False)
    _thread.without = True
    try:
        if _FINDER not in sys.meta_path:
            sys.meta_path.insert(0, _FINDER)
            # It looks now, so that it does not hold its lock when it looks again later.
            getattr(_PANDAS_API, "have_pandas", None)
        yield
    finally:
        _thread.without = before


_thread = local()
_PANDAS_API = getattr(pa.lib, "_pandas_api", None)
"""pyarrow's record of pandas; private, and missing in some versions."""


class _Finder(MetaPathFinder):
    """Hides pandas within `without_pandas`; elsewhere finds it as usual and notifies pyarrow."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "pandas":
            return None
        if _thread.__dict__.get("without", False):
            raise ModuleNotFoundError("pandas is left out here", name=fullname)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _NotifyingLoader(spec.loader)
        return spec


_FINDER = _Finder()


class _NotifyingLoader(Loader):
    """Loads with another loader, then makes pyarrow look for pandas again."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Call the other loader."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Call the other loader, then reset pyarrow's record of pandas: reading its `pd` looks again."""
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        if _FINDER in sys.meta_path:
            sys.meta_path.remove(_FINDER)
        getattr(_PANDAS_API, "pd", None)
