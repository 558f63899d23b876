"""Checks of arguments of constructors and setters, which refuse values that Java's signatures exclude.

Source: the signatures of Flink's methods that PyFlink calls. They take a Python int for an int or a long, a
Python float for a double, and nothing else for either.
"""

from typing import Any, NoReturn

# Refusals of calls of PyFlink's API that return Java objects, which do not exist here


class NoJavaError(NotImplementedError):
    """Raised for a call that makes sense only with a Flink JVM."""


def no_java(name: str) -> NoReturn:
    """Raise NoJavaError for the call `name`."""
    raise NoJavaError(f"{name}: Penstock runs without Flink's JVM, so there is no Java object to return")


class NoJavaAttributeError(NoJavaError, AttributeError):
    """Raised for an attribute that holds a Java object in PyFlink; `hasattr` returns False for it."""


def no_java_attribute(self: Any, name: str) -> NoReturn:
    """Raise NoJavaAttributeError for `_j_…`, AttributeError for other names; the `__getattr__` of classes."""
    kind = type(self).__name__
    if name.startswith("_j_"):
        raise NoJavaAttributeError(
            f"{kind}.{name}: Penstock runs without Flink's JVM, so there is no Java object"
        )
    raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)


def require_integer(value: Any, argument: str, bits: int = 64) -> int:
    """Return `value`. Raises TypeError if it is not an int, as True and NumPy's integers are not.

    Raises ValueError if it has more bits.
    """
    if type(value) is not int:
        raise TypeError(f"{argument} must be an int, got {describe_value(value)}")
    if value >> (bits - 1) not in (0, -1):
        raise ValueError(f"{argument} must be an int of {bits} bits, got {value}")
    return value


def require_text(value: Any, argument: str) -> str:
    """Return `value`. Raises TypeError unless it is a str."""
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a str, got {describe_value(value)}")
    return value


def require_kind(value: Any, kinds: type | tuple[type, ...], argument: str) -> Any:
    """Return `value`. Raises TypeError unless it is an object of one of the classes."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise TypeError(f"{argument} must be a {names}, got {describe_value(value)}")
    return value


def describe_value(value: Any) -> str:
    """Describe `value` and its class, for a message."""
    return "None" if value is None else f"{value!r:.100} of class {type(value).__name__}"
