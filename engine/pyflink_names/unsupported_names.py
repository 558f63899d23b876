"""Names of PyFlink that Penstock does not have: an error that says so, instead of a mere missing name."""

from collections.abc import Callable, Iterable
from typing import NoReturn


class UnsupportedNameError(ImportError):
    """A name of PyFlink's API that Penstock does not support."""


def unsupported_name(name: str, reason: str = "") -> UnsupportedNameError:
    """The error for `name`, such as "pyflink.common.X"; `reason` is a clause that says why."""
    why = f" ({reason})" if reason else ""
    return UnsupportedNameError(
        f"{name} is not supported by Penstock{why}. `penstock info --api` and Penstock's README list "
        "what is supported.",
        name=name,
    )


def refuse_names(module: str, names: Iterable[str], reason: str = "") -> Callable[[str], NoReturn]:
    """A module's `__getattr__`: UnsupportedNameError for `names`, AttributeError for any other.

    `module` is PyFlink's name of the module. Only names that PyFlink has belong into `names`: pickle asks
    modules for names they do not have and expects AttributeError.
    """
    refused = frozenset(names)

    def __getattr__(name: str) -> NoReturn:
        if name in refused:
            raise unsupported_name(f"{module}.{name}", reason)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__
