"""Refuses calls of PyFlink's API that hand out Java objects: there are none here."""

from typing import Any, NoReturn


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
