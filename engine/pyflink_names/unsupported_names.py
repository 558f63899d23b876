"""Names of PyFlink that Penstock does not have: an error that says so, instead of a mere missing name."""


class UnsupportedNameError(ImportError):
    """A name of PyFlink's API that Penstock does not support."""


class UnsupportedModuleError(UnsupportedNameError, ModuleNotFoundError):
    """A module of PyFlink's that Penstock does not support."""


def unsupported_name(name: str, reason: str = "") -> UnsupportedNameError:
    """The error for `name`, such as "pyflink.common.X"; `reason` is a clause that says why."""
    return UnsupportedNameError(_message(name, reason), name=name)


def unsupported_module(name: str, reason: str = "") -> UnsupportedModuleError:
    """The error for the module `name`; `reason` is a clause that says why."""
    return UnsupportedModuleError(_message(name, reason), name=name)


def _message(name: str, reason: str) -> str:
    why = f" ({reason})" if reason else ""
    return (
        f"PyFlink's {name} is not supported{why}. `penstock info --api` and Penstock's README list what is "
        "supported."
    )
