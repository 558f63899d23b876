"""Arguments of constructors and setters, checked when they are given: what Java's signatures would refuse.

Source: the signatures of Flink's methods that PyFlink calls, which take a Python int for an int or a long, a
Python float for a double, and nothing else for either.
"""

from typing import Any, NoReturn

# Refuses calls of PyFlink's API that hand out Java objects: there are none here.


class NoJavaError(NotImplementedError):
    """Raised for a call that makes sense only with a Flink JVM."""


def no_java(name: str) -> NoReturn:
    """Raise NoJavaError for the call `name`."""
    raise NoJavaError(f"{name}: Penstock runs without Flink's JVM, so there is no Java object to give")


class NoJavaAttributeError(NoJavaError, AttributeError):
    """Raised for an attribute that holds a Java object in PyFlink; `hasattr` says that it is not there."""


def no_java_attribute(self: Any, name: str) -> NoReturn:
    """`__getattr__` of a class: NoJavaAttributeError for `_j_…`, AttributeError for other names."""
    kind = type(self).__name__
    if name.startswith("_j_"):
        raise NoJavaAttributeError(f"{kind}.{name}: there is no JVM of Flink, and so no Java object")
    raise AttributeError(f"{kind!r} object has no attribute {name!r}", name=name, obj=self)


def require_integer(value: Any, what: str, bits: int = 64) -> int:
    """`value`. TypeError for what is no int, such as True and NumPy's; ValueError if it has more bits."""
    if type(value) is not int:
        raise TypeError(f"{what} must be an int, not {described(value)}")
    if value >> (bits - 1) not in (0, -1):
        raise ValueError(f"{what} must be an int of {bits} bits, not {value}")
    return value


def require_text(value: Any, what: str) -> str:
    """`value`. TypeError unless it is a str."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {described(value)}")
    return value


def require_kind(value: Any, kinds: type | tuple[type, ...], what: str) -> Any:
    """`value`. TypeError unless it is an object of one of the classes."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise TypeError(f"{what} must be a {names}, not {described(value)}")
    return value


def described(value: Any) -> str:
    """`value` and its class, for a message."""
    return "None" if value is None else f"{value!r:.100} of class {type(value).__name__}"
