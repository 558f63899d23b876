"""Calls of PyFlink's API that hand out Java objects: here there are none."""

from typing import NoReturn


class NoJavaError(NotImplementedError):
    """A call that is only of use with a Flink JVM."""


def no_java(name: str) -> NoReturn:
    """Raise NoJavaError for the call `name`."""
    raise NoJavaError(f"{name}: Penstock runs without Flink's JVM, so there is no Java object to give")
