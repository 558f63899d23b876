"""`DataTypes` for PyFlink's formats, each of which is the TypeInformation of the same values.

PyFlink has these names in pyflink.table.types; the rest of that module is missing here. Formats take a
TypeInformation (`Types.…`) in place of PyFlink's DataType, and a RowTypeInfo in place of a RowType. Streams
do not take a DataType in PyFlink, nor one made here.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from decimal import ROUND_HALF_UP, Decimal
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from penstock.operators.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
)


class DecimalTypeInfo(BasicTypeInfo):
    """BIG_DEC with at most `precision` digits, `scale` of them after the point; equal to BIG_DEC."""

    def __init__(self, precision: int, scale: int) -> None:
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ValueError(
                "DECIMAL must have 1 to 38 digits, of which 0 to all are after the point, "
                f"got ({precision}, {scale})"
            )
        super().__init__(BasicType.BIG_DEC)
        self.precision, self.scale = precision, scale

    def fitted(self, value: Decimal) -> Decimal | None:
        """Return `value` rounded (half up) to the scale; None if it then has too many digits, as in Flink."""
        rounded = value.quantize(Decimal((0, (1,), -self.scale)), ROUND_HALF_UP)
        return rounded if len(rounded.as_tuple().digits) <= self.precision else None


class RowField:
    """A field of a row type; see DataTypes.FIELD."""

    def __init__(self, name: str, data_type: TypeInformation, description: str | None = None) -> None:
        self.name, self.data_type, self.description = name, _unmarked(data_type), description


P = ParamSpec("P")
T = TypeVar("T", bound=TypeInformation)
_MARK = "_is_data_type"


def _data_type(make: Callable[P, T]) -> Callable[P, T]:
    @wraps(make)
    def made(*arguments: P.args, **options: P.kwargs) -> T:
        data_type = make(*arguments, **options)
        setattr(data_type, _MARK, True)
        return data_type

    return made


def is_data_type(type_info: TypeInformation) -> bool:
    """Whether a type was made by DataTypes, for a format, and not by Types."""
    return _MARK in vars(type_info)


def _unmarked(data_type: T) -> T:
    """Return a type without the mark of DataTypes, for use within another type or a format."""
    if not isinstance(data_type, TypeInformation) or not is_data_type(data_type):
        return data_type
    unmarked = copy(data_type)
    delattr(unmarked, _MARK)
    return unmarked


class DataTypes:
    """The types of columns, for formats.

    Examples:
        >>> from penstock.common import DataTypes
        >>> day = DataTypes.FIELD("day", DataTypes.DATE())
        >>> DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), day]).get_field_names()
        ['id', 'day']
    """

    @staticmethod
    @_data_type
    def CHAR(length: int, nullable: bool = True) -> TypeInformation:
        """Return a type of str for fixed-length columns.

        Args:
            length: Characters; not checked.
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.STRING()

    @staticmethod
    @_data_type
    def VARCHAR(length: int, nullable: bool = True) -> TypeInformation:
        """Return a type of str for columns of limited length.

        Args:
            length: Characters; not checked.
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.STRING()

    @staticmethod
    @_data_type
    def STRING(nullable: bool = True) -> TypeInformation:
        """Return a type of str.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.STRING()

    @staticmethod
    @_data_type
    def BOOLEAN(nullable: bool = True) -> TypeInformation:
        """Return a type of bool.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.BOOLEAN()

    @staticmethod
    @_data_type
    def BYTES(nullable: bool = True) -> TypeInformation:
        """Return a type of bytes.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    @_data_type
    def TINYINT(nullable: bool = True) -> TypeInformation:
        """Return a type of 8-bit int.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.BYTE()

    @staticmethod
    @_data_type
    def SMALLINT(nullable: bool = True) -> TypeInformation:
        """Return a type of 16-bit int.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.SHORT()

    @staticmethod
    @_data_type
    def INT(nullable: bool = True) -> TypeInformation:
        """Return a type of 32-bit int.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.INT()

    @staticmethod
    @_data_type
    def BIGINT(nullable: bool = True) -> TypeInformation:
        """Return a type of 64-bit int.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.LONG()

    @staticmethod
    @_data_type
    def FLOAT(nullable: bool = True) -> TypeInformation:
        """Return a type of 32-bit float.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.FLOAT()

    @staticmethod
    @_data_type
    def DOUBLE(nullable: bool = True) -> TypeInformation:
        """Return a type of 64-bit float.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.DOUBLE()

    @staticmethod
    @_data_type
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> TypeInformation:
        """Return a type of decimal.Decimal.

        Args:
            precision: Digits, 1 to 38.
            scale: Digits after the point.
            nullable: Without effect.

        Returns:
            DataType: For columns.

        Raises:
            ValueError: More than 38 digits.
        """
        return DecimalTypeInfo(precision, scale)

    @staticmethod
    @_data_type
    def DATE(nullable: bool = True) -> TypeInformation:
        """Return a type of datetime.date.

        Args:
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.SQL_DATE()

    @staticmethod
    @_data_type
    def TIME(precision: int = 0, nullable: bool = True) -> TypeInformation:
        """Return a type of datetime.time, to the millisecond.

        Args:
            precision: Without effect.
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.SQL_TIME()

    @staticmethod
    @_data_type
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Return a type of datetime.datetime without a time zone, to the microsecond.

        Args:
            precision: Without effect.
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME)

    @staticmethod
    @_data_type
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """Return a type of Instant, a point in time.

        Args:
            precision: Without effect.
            nullable: Without effect: any value may be None.

        Returns:
            DataType: For columns.
        """
        return Types.INSTANT()

    @staticmethod
    @_data_type
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """Return a type of lists.

        Args:
            element_type: Any type.
            nullable: Without effect.

        Returns:
            DataType: For columns.
        """
        return Types.OBJECT_ARRAY(_unmarked(element_type))

    @staticmethod
    @_data_type
    def MAP(key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """Return a type of dicts.

        Args:
            key_type: Type of the keys.
            value_type: Type of the values.
            nullable: Without effect.

        Returns:
            DataType: For columns.
        """
        return Types.MAP(_unmarked(key_type), _unmarked(value_type))

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> RowField:
        """Return a field for ROW.

        Args:
            name: Its name.
            data_type: Its type.
            description: Without effect.

        Returns:
            A field.
        """
        return RowField(name, data_type, description)

    @staticmethod
    @_data_type
    def ROW(row_fields: list[RowField] | None = None, nullable: bool = True) -> RowTypeInfo:
        """Return a type of rows.

        Args:
            row_fields: Fields of `FIELD`.
            nullable: Without effect.

        Returns:
            DataType: For columns.
        """
        fields = row_fields or []
        return Types.ROW_NAMED([field.name for field in fields], [field.data_type for field in fields])


def as_row_type(row_type: Any) -> RowTypeInfo:
    """Return `row_type` as a type of rows. Raises TypeError for other types."""
    if not isinstance(row_type, RowTypeInfo):
        raise TypeError(
            f"a row type is required, got {row_type!r}: use Types.ROW_NAMED([names], [types]), or "
            "DataTypes.ROW of penstock.common"
        )
    return _unmarked(row_type)


def as_type(data_type: Any) -> TypeInformation:
    """Return `data_type` as a TypeInformation. Raises TypeError for other objects."""
    if not isinstance(data_type, TypeInformation):
        raise TypeError(f"a type is required, got {data_type!r}: use Types, or DataTypes of penstock.common")
    return _unmarked(data_type)
