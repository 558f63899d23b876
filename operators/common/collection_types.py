"""Types of arrays, lists and maps. Source: pyflink.common.typeinfo."""

from __future__ import annotations

from typing import Any, Final

from penstock.operators.common.basic_types import BasicType, BasicTypeInfo, TypeInformation, require_type

_PRIMITIVE: Final = frozenset(
    {
        BasicType.BOOLEAN, BasicType.BYTE, BasicType.SHORT, BasicType.INT,
        BasicType.LONG, BasicType.FLOAT, BasicType.DOUBLE, BasicType.CHAR,
    }
)  # fmt: skip


class PrimitiveArrayTypeInfo(TypeInformation):
    """A list of numbers, booleans or characters, none of them None; of BYTE: bytes."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, "the element type of a primitive array")

    def _identity(self) -> tuple[Any, ...]:
        return (PrimitiveArrayTypeInfo, self._element_type)

    def __repr__(self) -> str:
        return f"PrimitiveArrayTypeInfo<{self._element_type}>"


class BasicArrayTypeInfo(TypeInformation):
    """A list of numbers, booleans, characters or strings."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, "the element type of a basic array")

    def _identity(self) -> tuple[Any, ...]:
        return (BasicArrayTypeInfo, self._element_type)

    def __repr__(self) -> str:
        return f"BasicArrayTypeInfo<{self._element_type}>"


class ObjectArrayTypeInfo(TypeInformation):
    """A list of values of any one type."""

    def __init__(self, element_type: TypeInformation) -> None:
        self._element_type = require_type(element_type, "the element type of an object array")

    def _identity(self) -> tuple[Any, ...]:
        return (ObjectArrayTypeInfo, self._element_type)

    def __repr__(self) -> str:
        return f"ObjectArrayTypeInfo<{self._element_type}>"


class ListTypeInfo(TypeInformation):
    """A list of values of any one type; of BYTE: bytes."""

    def __init__(self, element_type: TypeInformation) -> None:
        self.elem_type = require_type(element_type, "the element type of a list")

    def _identity(self) -> tuple[Any, ...]:
        return (ListTypeInfo, self.elem_type)

    def __repr__(self) -> str:
        return f"ListTypeInfo<{self.elem_type}>"


class MapTypeInfo(TypeInformation):
    """A dict; its keys must not be None, its values may."""

    def __init__(self, key_type_info: TypeInformation, value_type_info: TypeInformation) -> None:
        self._key_type_info = require_type(key_type_info, "the key type of a map")
        self._value_type_info = require_type(value_type_info, "the value type of a map")

    def _identity(self) -> tuple[Any, ...]:
        return (MapTypeInfo, self._key_type_info, self._value_type_info)

    def __repr__(self) -> str:
        return f"MapTypeInfo<{self._key_type_info}, {self._value_type_info}>"


class ExternalTypeInfo(TypeInformation):
    """The same values as `type_info`, in tables."""

    def __init__(self, type_info: TypeInformation) -> None:
        self._type_info = require_type(type_info, "the type of an external type")

    def _identity(self) -> tuple[Any, ...]:
        return (ExternalTypeInfo, self._type_info)

    def __repr__(self) -> str:
        return f"ExternalTypeInfo<{self._type_info}>"


def check_element_type(array: TypeInformation) -> None:
    """TypeError if Java has no array of that sort with such elements."""
    if not isinstance(array, (PrimitiveArrayTypeInfo, BasicArrayTypeInfo)):
        return
    element = array._element_type
    allowed = _PRIMITIVE | ({BasicType.STRING} if isinstance(array, BasicArrayTypeInfo) else set())
    if not isinstance(element, BasicTypeInfo) or element._basic_type not in allowed:
        raise TypeError(f"{array}: Java has no such array")
