"""Records as `execute_and_collect` gives them, which differs from how functions see them for arrays of bytes.

Source: pyflink.datastream.utils.pickled_bytes_to_python_obj.
"""

from typing import Any

from penstock.operators.common.part_converter import Convert, part_converter
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    ListTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
    TypeInformation,
)


def collected_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """The records of type `type_info`; arrays of BYTE become lists of ints from -128 to 127, at any depth."""
    convert = part_converter(type_info, _of_bytes)
    return values if convert is None else list(map(convert, values))


def _of_bytes(type_info: TypeInformation) -> Convert | None:
    if isinstance(type_info, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)):
        element_type = type_info._element_type
    elif isinstance(type_info, ListTypeInfo):
        element_type = type_info.elem_type
    else:
        return None
    if isinstance(element_type, BasicTypeInfo) and element_type._basic_type is BasicType.BYTE:
        return lambda value: list(memoryview(value).cast("b")) if isinstance(value, bytes) else value
    return None
