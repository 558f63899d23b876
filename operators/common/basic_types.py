"""TypeInformation, and the types of single values. Source: pyflink.common.typeinfo."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from io import BytesIO
from typing import Any, Generic, NoReturn, TypeVar

from penstock.operators.common.arguments import describe_value, no_java, require_kind, require_text
from penstock.operators.common.row import Row, RowKind, create_row, names_of_row
from penstock.operators.common.time import Instant

# Serializers of user-written types. Source: pyflink.common.serializer


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
        """Write a value.

        Args:
            element: A value of the serializer's type.
            stream: Receives the bytes; it may hold other values before and after.
        """

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Read a value that `serialize` wrote.

        Args:
            stream: Is at the first byte of the value, and is left after its last.

        Returns:
            The value.
        """


class VoidNamespaceSerializer(TypeSerializer[bytes]):
    """A serializer for a single possible value, the empty bytes; it writes nothing."""

    def serialize(self, element: bytes, stream: BytesIO) -> None:
        pass

    def deserialize(self, stream: BytesIO) -> bytes:
        return b""


class TypeInformation:
    """Type of the values of a stream, a key or a state; equal if it describes the same type."""

    def need_conversion(self) -> bool:
        """Tell whether `to_internal_type` changes values."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """Convert a value to the form in which PyFlink hands it to Java.

        Args:
            obj: A value of this type, or None.

        Returns:
            The value itself, unless `need_conversion()` is true.
        """
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """Convert a value back from the form of `to_internal_type`.

        Args:
            obj: A result of `to_internal_type`.

        Returns:
            The value of this type.
        """
        return obj

    def get_java_type_info(self) -> NoReturn:
        """Raise NoJavaError: jobs of Penstock run no Java."""
        no_java(f"{type(self).__name__}.get_java_type_info")

    def _identity(self) -> tuple[Any, ...]:
        # hashable; equal for equal types
        return (id(self),)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeInformation) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def __getstate__(self) -> dict[str, Any]:
        # without the codec that operators.common.arrow_columns caches in the type
        return {name: value for name, value in self.__dict__.items() if name != "_codec"}


def require_type(value: Any, argument: str) -> TypeInformation:
    """Return `value`. Raises TypeError unless it is a type."""
    if not isinstance(value, TypeInformation):
        raise TypeError(f"{argument} must be a type such as Types.INT(), got {describe_value(value)}")
    return value


class ForeignTypeInfo(TypeInformation):
    """A type of another system, with that system's columns and values.

    Subclasses have `column_type` and `stored_type`, Arrow's types of a column here and in files,
    `make_codec()`, which returns a Codec, and `hashes(column)`, which returns the hashes of
    `single_value_hashes`.
    """

    column_type: Any
    stored_type: Any
    value_type: TypeInformation | None = None  #: Flink's type of the values, if only columns differ
    make_codec: Any
    hashes: Any


class BasicType(Enum):
    """The basic types, by the name of their Java class."""

    STRING = "String"
    BYTE = "Byte"
    BOOLEAN = "Boolean"
    SHORT = "Short"
    INT = "Integer"
    LONG = "Long"
    FLOAT = "Float"
    DOUBLE = "Double"
    CHAR = "Char"
    BIG_INT = "BigInteger"
    BIG_DEC = "BigDecimal"
    INSTANT = "Instant"


class BasicTypeInfo(TypeInformation):
    """A number, a string, a boolean or an instant."""

    def __init__(self, basic_type: BasicType) -> None:
        self._basic_type: BasicType = require_kind(basic_type, BasicType, "a basic type")

    def _identity(self) -> tuple[Any, ...]:
        return (BasicTypeInfo, self._basic_type)

    def __repr__(self) -> str:
        return self._basic_type.value

    @staticmethod
    def STRING_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of str."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of bool."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of int of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of int of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of int of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of int of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of float of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of float."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of str for one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of int of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of decimal.Decimal."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        """Return the type of Instant."""
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """A point in time."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Instant) -> int:
        return obj.to_epoch_milli() * 1000

    def from_internal_type(self, obj: int) -> Instant:
        return Instant.of_epoch_milli(obj // 1000)


class ExactTypeInfo(BasicTypeInfo):
    """A boolean or an integer of a Spark column, equal to Flink's type of the same name.

    Raises for a value that would lose a part, such as 1.7; Flink's type truncates it, as in PyFlink.
    """


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; the type of values without a declared type."""

    def _identity(self) -> tuple[Any, ...]:
        return (PickledBytesTypeInfo,)

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"


# Types of rows and tuples. Source: pyflink.common.typeinfo


class RowTypeInfo(TypeInformation):
    """A Row. Fields without names are called f0, f1, …; names do not count when types are compared.

    Raises ValueError if the number of names differs from the number of types, or a name occurs twice;
    TypeError for fields that are not a list of types, or names that are not a list of str.
    """

    def __init__(self, field_types: list[TypeInformation], field_names: list[str] | None = None) -> None:
        field_types = _types(field_types)
        if field_names is not None:
            field_names = _names(field_names)
            if len(field_names) != len(field_types):
                raise ValueError(
                    f"there must be as many field names as field types, {len(field_types)}, "
                    f"got {len(field_names)}"
                )
            if len(set(field_names)) != len(field_names):
                raise ValueError(f"field names must not occur twice, got {field_names}")
        self._field_types = field_types
        self._field_names = field_names
        self._need_conversion = [field_type.need_conversion() for field_type in field_types]

    def get_field_names(self) -> list[str]:
        """Return the names of the fields."""
        if not self._field_names:
            self._field_names = [f"f{position}" for position in range(len(self._field_types))]
        return self._field_names

    def get_field_index(self, field_name: str) -> int:
        """Return the position of a field.

        Args:
            field_name: Its name.

        Returns:
            int: From 0; -1 if the fields have no names.

        Raises:
            ValueError: An unknown name.
        """
        return self._field_names.index(field_name) if self._field_names else -1

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
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
        """Convert a row to the form in which PyFlink hands it to Java.

        Args:
            obj: A Row, tuple, list, dict or object with the fields as attributes; or None.

        Returns:
            tuple: The row kind's number, then the fields; None for None.

        Raises:
            ValueError: Another value.
        """
        if obj is None:
            return None
        kind = obj.get_row_kind() if isinstance(obj, Row) else RowKind.INSERT
        return (kind.value, *_converted(self._field_types, row_values(obj, self), self._need_conversion))

    def from_internal_type(self, obj: Any) -> Any:
        """Convert the fields of a row.

        Args:
            obj: An iterable of fields; a tuple, a list or None is returned unchanged.

        Returns:
            tuple: The converted fields.
        """
        return _from_internal(self._field_types, obj, self._need_conversion)


class TupleTypeInfo(TypeInformation):
    """A tuple."""

    def __init__(self, field_types: list[TypeInformation]) -> None:
        self._field_types = _types(field_types)
        field_types = self._field_types
        self._need_conversion = [field_type.need_conversion() for field_type in field_types]

    def get_field_types(self) -> list[TypeInformation]:
        """Return the types of the fields."""
        return self._field_types

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Any) -> tuple[Any, ...] | None:
        """Convert a tuple to the form in which PyFlink hands it to Java.

        Args:
            obj: A tuple, list or Row of the type, or None.

        Returns:
            tuple: The converted fields; None for None.

        Raises:
            ValueError: Another value.
        """
        if obj is None:
            return None
        if not isinstance(obj, (tuple, list, Row)):
            raise ValueError(f"must be a tuple of {self}, got {obj!r}")
        return tuple(_converted(self._field_types, obj, self._need_conversion))

    def from_internal_type(self, obj: Any) -> Any:
        """Convert the fields of a tuple.

        Args:
            obj: An iterable of fields; a tuple, a list or None is returned unchanged.

        Returns:
            tuple: The converted fields.
        """
        return _from_internal(self._field_types, obj, self._need_conversion)

    def _identity(self) -> tuple[Any, ...]:
        return (TupleTypeInfo, *self._field_types)

    def __repr__(self) -> str:
        return f"TupleTypeInfo({', '.join(map(str, self._field_types))})"


def _types(field_types: Any) -> list[TypeInformation]:
    if not isinstance(field_types, list | tuple):
        raise TypeError(f"field types must be a list of types, got {describe_value(field_types)}")
    for field_type in field_types:
        require_type(field_type, "the type of a field")
    return list(field_types)


def _names(field_names: Any) -> list[str]:
    if not isinstance(field_names, list | tuple):
        raise TypeError(f"field names must be a list of str, got {describe_value(field_names)}")
    return [require_text(name, "the name of a field") for name in field_names]


def row_values(obj: Any, type_info: RowTypeInfo) -> list[Any]:
    """Return the fields of a Row, tuple, list, dict or object with attributes (None for missing ones).

    Rows, including Spark's, are matched by name if they and the type have names. Raises ValueError for other
    values, and for a Row that lacks one of the type's names.
    """
    if isinstance(obj, Row):
        return obj.get_fields_by_names(type_info.get_field_names())
    if isinstance(obj, (tuple, list)):
        names, wanted = names_of_row(obj), type_info.get_field_names()
        if names is None or names == wanted or wanted == [f"f{at}" for at in range(len(wanted))]:
            return list(obj)
        return create_row(names, obj).get_fields_by_names(wanted)  # a Row of Spark
    attributes = obj if isinstance(obj, dict) else getattr(obj, "__dict__", None)
    if attributes is None:
        raise ValueError(f"must be a row of {type_info}, got {obj!r}")
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
