"""Serializers of user-written types. Source: pyflink.common.serializer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from io import BytesIO
from typing import Generic, TypeVar

T = TypeVar("T")


class TypeSerializer(ABC, Generic[T]):
    """Writes values of one type to a stream of bytes and reads them back.

    Two serializers are equal if their classes and attributes are.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}()"

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Write `element`."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read what `serialize` wrote."""


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """For what has only one value, the empty bytes: writes nothing."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        """Write nothing."""

    def deserialize(self, stream: BytesIO) -> bytes:
        """The empty bytes."""
        return b""
