"""Makes `pyflink` and its public modules resolve to Penstock's, whether or not PyFlink is installed.

`import pyflink.common.typeinfo` gives the module object engine.common.typeinfo itself, so that its classes
are the same whichever name they are imported by. What Penstock lacks raises ModuleNotFoundError (a module) or
ImportError (a name), which say why.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from penstock.engine.pyflink_names.modules import MODULES, PYFLINK_VERSION, refusal
from penstock.engine.pyflink_names.other_names import other_name
from penstock.engine.pyflink_names.unsupported_names import unsupported_module

_ROOT = "pyflink"


class PyflinkFinder(MetaPathFinder, Loader):
    """Finds `pyflink` and everything below it; nothing else."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """A spec for a module of PyFlink's that Penstock has; ModuleNotFoundError for its other modules."""
        if fullname == _ROOT:
            return ModuleSpec(fullname, self, is_package=True)
        if not fullname.startswith(_ROOT + "."):
            return None
        if fullname not in MODULES:
            raise unsupported_module(fullname, refusal(fullname) or "")
        return ModuleSpec(fullname, self)

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module: only `pyflink` itself keeps it."""

    def exec_module(self, module: ModuleType) -> None:
        """Put Penstock's module in place of `module`, or fill `pyflink` itself."""
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        if name == _ROOT:
            module.__version__ = PYFLINK_VERSION  # type: ignore[attr-defined]
            module.__doc__ = "Penstock instead of PyFlink."
            return
        ours = importlib.import_module(MODULES[name])
        if name not in _served:
            _served.add(name)
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
