"""Makes `pyflink` and its public modules resolve to Penstock's, whether or not PyFlink is installed.

`import pyflink.common.typeinfo` gives the module object engine.common.typeinfo itself, so that its classes
are the same whichever name they are imported by. What Penstock lacks raises ModuleNotFoundError (a module) or
ImportError (a name), which say why; attributes that hold a Java object in PyFlink (`_j_…`) raise NoJavaError.
`importlib.metadata` finds the distribution apache-flink.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from penstock.engine.pyflink_names.modules import MODULES, PYFLINK_VERSION, refusal
from penstock.engine.pyflink_names.other_names import other_name
from penstock.engine.pyflink_names.unsupported_names import unsupported_module
from penstock.operators.common.no_java import no_java_attribute

_ROOT = "pyflink"


#: `pyflink.__file__`: scripts look for files beside it.
_FILE = str(Path(__file__).parent / _ROOT / "__init__.py")
_DISTRIBUTION = "apache-flink"
_ANY = DistributionFinder.Context()


class _PyflinkDistribution(Distribution):
    """The metadata of PyFlink that this process seems to have."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: {_DISTRIBUTION}\nVersion: {PYFLINK_VERSION}\n"

    def locate_file(self, path: str | os.PathLike[str]) -> Any:
        return Path(_FILE).parents[1] / path


class PyflinkFinder(DistributionFinder, Loader):
    """Finds `pyflink` and everything below it; nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a module of PyFlink's; loading one that Penstock lacks is a ModuleNotFoundError."""
        if fullname == _ROOT:
            spec = ModuleSpec(fullname, self, origin=_FILE, is_package=True)
            spec.has_location = True
            spec.submodule_search_locations = [str(Path(_FILE).parent)]
            return spec
        if fullname.startswith(_ROOT + ".") and (fullname in MODULES or refusal(fullname)):
            return ModuleSpec(fullname, self)
        return None

    def find_distributions(self, context: DistributionFinder.Context = _ANY) -> Iterator[Distribution]:
        """The distribution of PyFlink, or none if another one is looked for."""
        if context.name is None or re.sub(r"[-_.]+", "-", context.name).lower() == _DISTRIBUTION:
            yield _PyflinkDistribution()

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module: only `pyflink` itself keeps it."""

    def exec_module(self, module: ModuleType) -> None:
        """Put Penstock's module in place of `module`, or fill `pyflink` itself."""
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        if name == _ROOT:
            module.__version__ = PYFLINK_VERSION  # type: ignore[attr-defined]
            module.__doc__ = "Penstock instead of PyFlink."
            return
        if name not in MODULES:
            raise unsupported_module(name, refusal(name) or "")
        ours = importlib.import_module(MODULES[name])
        if name not in _served:
            _served.add(name)
            _tell_that_there_is_no_java(ours)
            ours.__getattr__ = _with_other_names(name, ours)  # type: ignore[method-assign]
        # importlib gives the importer what stands here when this returns
        sys.modules[name] = ours


_finder = PyflinkFinder()
#: PyFlink's modules whose counterparts find the names that they lack.
_served: set[str] = set()


def install() -> None:
    """Let `pyflink` mean Penstock from here on; does nothing where it does already.

    Modules of a real PyFlink that were imported before are forgotten.
    """
    if installed():
        return
    _forget()
    sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Whether `pyflink` means Penstock in this process."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Let `pyflink` mean what it meant before."""
    if installed():
        sys.meta_path.remove(_finder)
        _forget()


def _forget() -> None:
    for name in [name for name in sys.modules if name == _ROOT or name.startswith(_ROOT + ".")]:
        del sys.modules[name]


def _tell_that_there_is_no_java(ours: ModuleType) -> None:
    """Give the classes of a module attributes `_j_…` that raise, which hold Java objects in PyFlink."""
    for value in vars(ours).values():
        of_penstock = isinstance(value, type) and value.__module__.startswith("penstock.")
        if of_penstock and not issubclass(value, Enum) and not hasattr(value, "__getattr__"):
            value.__getattr__ = no_java_attribute


def _with_other_names(name: str, ours: ModuleType) -> Callable[[str], Any]:
    """`__getattr__` for a module: names that it lacks and that PyFlink's module `name` has."""
    before: Callable[[str], Any] | None = vars(ours).get("__getattr__")

    def find(attribute: str) -> Any:
        if before is not None:
            try:
                return before(attribute)
            except AttributeError:
                pass
        if attribute.startswith("__"):
            raise AttributeError(f"module {name!r} has no attribute {attribute!r}")
        value = other_name(name, attribute)
        setattr(ours, attribute, value)
        return value

    return find
