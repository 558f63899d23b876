"""Types of rows and tuples. Source: pyflink.common.typeinfo."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from penstock.operators.common.arguments import described, require_text
from penstock.operators.common.basic_types import TypeInformation, require_type
from penstock.operators.common.row import Row, RowKind, create_row, names_of_row


class RowTypeInfo(TypeInformation):
    """A Row. Fields without names are called f0, f1, …; names do not count when types are compared.

    ValueError for another number of names than of types, or a name that occurs twice. TypeError for fields
    that are not a list of types, or names that are not a list of str.
    """

    def __init__(self, field_types: list[TypeInformation], field_names: list[str] | None = None) -> None:
        field_types = _types(field_types)
        if field_names is not None:
            field_names = _names(field_names)
            if len(field_names) != len(field_types):
                raise ValueError(f"{len(field_names)} field names for {len(field_types)} field types")
            if len(set(field_names)) != len(field_names):
                raise ValueError(f"field names {field_names}: one of them occurs twice")
        self._field_types = field_types
        self._field_names = field_names
        self._need_conversion = [field_type.need_conversion() for field_type in field_types]

    def get_field_names(self) -> list[str]:
        """Names of the fields."""
        if not self._field_names:
            self._field_names = [f"f{position}" for position in range(len(self._field_types))]
        return self._field_names

    def get_field_index(self, field_name: str) -> int:
        """Position of a field, -1 if the fields have no names. ValueError if none has this one."""
        return self._field_names.index(field_name) if self._field_names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """Types of the fields."""
        return self._field_types

    def _identity(self) -> tuple[Any, ...]:
        return (RowTypeInfo, *self._field_types)

    def __repr__(self) -> str:
        if not self._field_names:
            return f"RowTypeInfo({', '.join(map(str, self._field_types))})"
        fields = zip(self._field_names, self._field_types, strict=True)
        return f"RowTypeInfo({', '.join(f'{name}: {field_type}' for name, field_type in fields)})"

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """The row kind's number, then the fields. ValueError for what `row_values` does not take."""
        if obj is None:
            return None
        kind = obj.get_row_kind() if isinstance(obj, Row) else RowKind.INSERT
        return (kind.value, *_converted(self._field_types, row_values(obj, self), self._need_conversion))

    def from_internal_type(self, obj: Any) -> Any:
        """The fields as a tuple; what is a tuple or list already stays."""
        return _from_internal(self._field_types, obj, self._need_conversion)


class TupleTypeInfo(TypeInformation):
    """A tuple."""

    def __init__(self, field_types: list[TypeInformation]) -> None:
        self._field_types = _types(field_types)
        field_types = self._field_types
        self._need_conversion = [field_type.need_conversion() for field_type in field_types]

    def get_field_types(self) -> list[TypeInformation]:
        """Types of the fields."""
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """The fields. ValueError for what is no tuple, list or Row."""
        if obj is None:
            return None
        if not isinstance(obj, (tuple, list, Row)):
            raise ValueError(f"{obj!r} is no tuple of {self}")
        return tuple(_converted(self._field_types, obj, self._need_conversion))

    def from_internal_type(self, obj: Any) -> Any:
        """The fields as a tuple; what is a tuple or list already stays."""
        return _from_internal(self._field_types, obj, self._need_conversion)

    def _identity(self) -> tuple[Any, ...]:
        return (TupleTypeInfo, *self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


def _types(field_types: Any) -> list[TypeInformation]:
    if not isinstance(field_types, list | tuple):
        raise TypeError(f"field types must be a list of types, got {described(field_types)}")
    for field_type in field_types:
        require_type(field_type, "the type of a field")
    return list(field_types)


def _names(field_names: Any) -> list[str]:
    if not isinstance(field_names, list | tuple):
        raise TypeError(f"field names must be a list of str, got {described(field_names)}")
    return [require_text(name, "the name of a field") for name in field_names]


def row_values(obj: Any, type_info: RowTypeInfo) -> list[Any]:
    """The fields of a Row, tuple, list, dict (absent: None) or object with attributes (absent: None).

    Rows, also those of Spark, go by name if they and the type have names. ValueError for anything else, and
    for a Row whose names lack one of the type's.
    """
    if isinstance(obj, Row):
        return obj.get_fields_by_names(type_info.get_field_names())
    if isinstance(obj, (tuple, list)):
        names, wanted = names_of_row(obj), type_info.get_field_names()
        if names is None or names == wanted or wanted == [f"f{at}" for at in range(len(wanted))]:
            return list(obj)
        return create_row(names, obj).get_fields_by_names(wanted)  # of Spark's Row
    attributes = obj if isinstance(obj, dict) else getattr(obj, "__dict__", None)
    if attributes is None:
        raise ValueError(f"{obj!r} is no row of {type_info}")
    return [attributes.get(name) for name in type_info.get_field_names()]


def _converted(types: list[TypeInformation], values: Iterable[Any], needed: list[bool]) -> list[Any]:
    return [
        type_info.to_internal_type(value) if convert else value
        for type_info, value, convert in zip(types, values, needed, strict=False)
    ]


def _from_internal(types: list[TypeInformation], obj: Any, needed: list[bool]) -> Any:
    if obj is None or isinstance(obj, (tuple, list)):
        return obj
    return tuple(
        type_info.from_internal_type(value) if convert else value
        for type_info, value, convert in zip(types, obj, needed, strict=False)
    )
