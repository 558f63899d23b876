"""TypeInformation, and the types of single values. Source: pyflink.common.typeinfo."""

from __future__ import annotations

from enum import Enum
from typing import Any, NoReturn

from penstock.operators.common.arguments import described, require_kind
from penstock.operators.common.no_java import no_java
from penstock.operators.common.time import Instant


class TypeInformation:
    """Type of the values of a stream, a key or a state. Equal if they describe the same type."""

    def need_conversion(self) -> bool:
        """Whether `to_internal_type` changes values."""
        return False

    def to_internal_type(self, obj: Any) -> Any:
        """The value that PyFlink hands to Java for `obj`."""
        return obj

    def from_internal_type(self, obj: Any) -> Any:
        """The inverse of `to_internal_type`."""
        return obj

    def get_java_type_info(self) -> NoReturn:
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


def require_type(value: Any, what: str) -> TypeInformation:
    """`value`. TypeError unless it is a type."""
    if not isinstance(value, TypeInformation):
        raise TypeError(f"{what} must be a type such as Types.INT(), got {described(value)}")
    return value


class ForeignTypeInfo(TypeInformation):
    """A type of another system, whose columns and values are that system's.

    Subclasses have `column_type` and `stored_type`, Arrow's types of a column here and in files,
    `make_codec()` and `hashes(column)`, as `codec.Codec` and `single_value_hashes` describe them.
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
        """str."""
        return BasicTypeInfo(BasicType.STRING)

    @staticmethod
    def BOOLEAN_TYPE_INFO() -> BasicTypeInfo:
        """bool."""
        return BasicTypeInfo(BasicType.BOOLEAN)

    @staticmethod
    def BYTE_TYPE_INFO() -> BasicTypeInfo:
        """int of 8 bits."""
        return BasicTypeInfo(BasicType.BYTE)

    @staticmethod
    def SHORT_TYPE_INFO() -> BasicTypeInfo:
        """int of 16 bits."""
        return BasicTypeInfo(BasicType.SHORT)

    @staticmethod
    def INT_TYPE_INFO() -> BasicTypeInfo:
        """int of 32 bits."""
        return BasicTypeInfo(BasicType.INT)

    @staticmethod
    def LONG_TYPE_INFO() -> BasicTypeInfo:
        """int of 64 bits."""
        return BasicTypeInfo(BasicType.LONG)

    @staticmethod
    def FLOAT_TYPE_INFO() -> BasicTypeInfo:
        """float of 32 bits."""
        return BasicTypeInfo(BasicType.FLOAT)

    @staticmethod
    def DOUBLE_TYPE_INFO() -> BasicTypeInfo:
        """float."""
        return BasicTypeInfo(BasicType.DOUBLE)

    @staticmethod
    def CHAR_TYPE_INFO() -> BasicTypeInfo:
        """str, meant to be of one character."""
        return BasicTypeInfo(BasicType.CHAR)

    @staticmethod
    def BIG_INT_TYPE_INFO() -> BasicTypeInfo:
        """int of any size."""
        return BasicTypeInfo(BasicType.BIG_INT)

    @staticmethod
    def BIG_DEC_TYPE_INFO() -> BasicTypeInfo:
        """decimal.Decimal."""
        return BasicTypeInfo(BasicType.BIG_DEC)

    @staticmethod
    def INSTANT_TYPE_INFO() -> BasicTypeInfo:
        """Instant."""
        return InstantTypeInfo(BasicType.INSTANT)


class InstantTypeInfo(BasicTypeInfo):
    """A point in time."""

    def need_conversion(self) -> bool:
        return True

    def to_internal_type(self, obj: Instant) -> int:
        """Microseconds since the epoch, of whole milliseconds."""
        return obj.to_epoch_milli() * 1000

    def from_internal_type(self, obj: int) -> Instant:
        return Instant.of_epoch_milli(obj // 1000)


class ExactTypeInfo(BasicTypeInfo):
    """A boolean or an integer of a Spark column. It equals Flink's type of that name.

    A value that would lose a part, such as 1.7, is refused; under Flink's type it is cut off, as in PyFlink.
    """


class PickledBytesTypeInfo(TypeInformation):
    """Any Python object; the type of what has no declared type."""

    def _identity(self) -> tuple[Any, ...]:
        return (PickledBytesTypeInfo,)

    def __repr__(self) -> str:
        return "PickledByteArrayTypeInfo"
