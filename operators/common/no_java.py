"""Refuses calls of PyFlink's API that hand out Java objects: there are none here."""

from typing import NoReturn


class NoJavaError(NotImplementedError):
    """Raised for a call that makes sense only with a Flink JVM."""


def no_java(name: str) -> NoReturn:
    """Raise NoJavaError for the call `name`."""
    raise NoJavaError(f"{name}: Penstock runs without Flink's JVM, so there is no Java object to give")
