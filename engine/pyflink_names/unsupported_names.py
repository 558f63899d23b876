"""Names of PyFlink that Penstock does not have: an error that says so, instead of a mere missing name."""


class UnsupportedNameError(ImportError):
    """A name of PyFlink's API that Penstock does not support."""


def unsupported_name(name: str, reason: str = "") -> UnsupportedNameError:
    """The error for `name`, such as "pyflink.common.X"; `reason` is a clause that says why."""
    why = f" ({reason})" if reason else ""
    return UnsupportedNameError(
        f"PyFlink's {name} is not supported{why}. `penstock info --api` and Penstock's README list what is "
        "supported.",
        name=name,
    )
