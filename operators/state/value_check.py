"""Check that a value can be encoded as its declared type, without encoding it.

Accepts exactly the values that PyFlink's coder of the type accepts. These coders are stricter than the
encoding of records in transit: a list is not a tuple, a tuple is not a row, and the fields of a tuple must
not be None. A row of one of Spark's types follows the rule of records in transit.

Source: pyflink.fn_execution.coder_impl_fast.
"""

from collections.abc import Callable
from typing import Any

from penstock.operators.common.arrow_columns import codec_of
from penstock.operators.common.basic_types import ForeignTypeInfo, RowTypeInfo, TupleTypeInfo
from penstock.operators.common.composite_codecs import INTEGER_BITS, conversion_of, mismatch
from penstock.operators.common.pickles import is_pickled
from penstock.operators.common.row import Row
from penstock.operators.common.time import Instant
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TypeInformation,
    Types,
)

#: Raises TypeError, OverflowError or ValueError for a value that is not of the type.
Check = Callable[[Any], None]


def value_check(type_info: TypeInformation | None) -> Check | None:
    """Return the check of values of a type; None for types whose coder pickles, which accept any value."""
    if isinstance(type_info, ExternalTypeInfo):
        return value_check(type_info._type_info)
    if type_info is None or is_pickled(type_info):
        return None
    if isinstance(type_info, ForeignTypeInfo):
        return _foreign(type_info)
    if type_info == Types.INSTANT():
        return _instant(type_info)
    if isinstance(type_info, PrimitiveArrayTypeInfo) and type_info._element_type == Types.BYTE():
        return _single(type_info)
    checks = (make(type_info) for kind, make in _COMPOSITE.items() if isinstance(type_info, kind))
    return next(checks, None) or _single(type_info)


def no_check(value: Any) -> None:
    """Accept any value."""


def entry_check(check_key: Check | None, check_item: Check | None) -> Callable[[Any, Any], None]:
    """Return the check of entries of a map, whose values may be None."""
    if check_key is None and check_item is None:
        return lambda key, item: None

    def check(key: Any, item: Any) -> None:
        if check_key is not None:
            check_key(key)
        if check_item is not None and item is not None:
            check_item(item)

    return check


def _single(type_info: TypeInformation) -> Check:
    kind, convert, _ = conversion_of(type_info)
    bits = INTEGER_BITS.get(type_info._basic_type) if isinstance(type_info, BasicTypeInfo) else None
    accepts_none = isinstance(type_info, LocalTimeTypeInfo)

    def check_other(value: Any) -> None:
        if value is not None:
            convert(value, type_info)
        elif not accepts_none:
            raise TypeError(mismatch(value, type_info))

    if bits is None:

        def check(value: Any) -> None:
            if type(value) is not kind:
                check_other(value)

    else:
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

        def check(value: Any) -> None:
            if type(value) is not int or not low <= value <= high:
                check_other(value)

    return check


def _foreign(type_info: ForeignTypeInfo) -> Check:
    codec = type_info.make_codec()

    def check(value: Any) -> None:
        codec.encode([value])

    return check


def _instant(type_info: TypeInformation) -> Check:
    def check(value: Any) -> None:
        if value is not None and not isinstance(value, Instant):
            raise TypeError(mismatch(value, type_info))

    return check


def record_check(type_info: TypeInformation | None) -> Check | None:
    """Return the check of value_check, but let fields of a tuple be None, as in records in transit."""
    if not isinstance(type_info, TupleTypeInfo):
        return value_check(type_info)
    checks = [value_check(field_type) for field_type in type_info.get_field_types()]

    def check(value: Any) -> None:
        for check_field, field in _checked_fields(value, checks, type_info):
            if field is not None:
                check_field(field)

    return check


def _tuple(type_info: TupleTypeInfo) -> Check:
    checks = [value_check(field_type) for field_type in type_info.get_field_types()]

    def check(value: Any) -> None:
        for check_field, field in _checked_fields(value, checks, type_info):
            check_field(field)

    return check


def _checked_fields(
    value: Any, checks: list[Check | None], type_info: TypeInformation
) -> list[tuple[Check, Any]]:
    if type(value) is not tuple or len(value) < len(checks):
        raise TypeError(mismatch(value, type_info))
    return [(check, field) for check, field in zip(checks, value, strict=False) if check is not None]


def _row(type_info: RowTypeInfo) -> Check:
    if getattr(type_info, "spark_schema", None) is not None:
        return _spark_row(type_info)
    checks = [value_check(field_type) for field_type in type_info.get_field_types()]
    names = type_info.get_field_names()

    def check(value: Any) -> None:
        if not isinstance(value, Row):
            raise TypeError(mismatch(value, type_info))
        try:
            fields = value.get_fields_by_names(names)
        except ValueError as error:
            raise ValueError(mismatch(value, type_info, str(error))) from error
        if len(fields) != len(checks):
            raise ValueError(mismatch(value, type_info, f"it has {len(fields)} fields"))
        for check_field, field in zip(checks, fields, strict=True):
            if check_field is not None and field is not None:
                check_field(field)

    return check


def _spark_row(type_info: RowTypeInfo) -> Check:
    # as for records in transit: a Row of Spark, a tuple or a dict is a row as well
    codec = codec_of(type_info)

    def check(value: Any) -> None:
        if value is None:
            raise TypeError(mismatch(value, type_info))
        codec.coerce([value])

    return check


def _map(type_info: MapTypeInfo) -> Check:
    check_key, check_item = value_check(type_info._key_type_info), value_check(type_info._value_type_info)

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise TypeError(mismatch(value, type_info))
        for key, item in value.items():
            if check_key is not None:
                check_key(key)
            if check_item is not None and item is not None:
                check_item(item)

    return check


def _list(type_info: Any) -> Check:
    element_type = type_info.elem_type if isinstance(type_info, ListTypeInfo) else type_info._element_type
    check_element = value_check(element_type)
    allows_none = not isinstance(type_info, PrimitiveArrayTypeInfo)

    def check(value: Any) -> None:
        if type(value) is not list:
            raise TypeError(mismatch(value, type_info))
        for element in value:
            if check_element is not None and not (allows_none and element is None):
                check_element(element)

    return check


_COMPOSITE: dict[type, Callable[[Any], Check]] = {
    TupleTypeInfo: _tuple,
    RowTypeInfo: _row,
    MapTypeInfo: _map,
    ListTypeInfo: _list,
    PrimitiveArrayTypeInfo: _list,
    BasicArrayTypeInfo: _list,
    ObjectArrayTypeInfo: _list,
}
