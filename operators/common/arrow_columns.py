"""Lists of values as Arrow columns and back, by declared type.

What comes back is what PyFlink gives back when records go through Flink: plain Python numbers and strings,
Decimals, dates and times without time zone, tuples, Rows with their type's field names and their kinds,
lists, bytes, dicts in the order of Java's HashMap. None may stand for any value.

Source: pyflink.fn_execution.coders.
"""

import gc
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from penstock.operators.common.adapt_columns import as_arrow_type
from penstock.operators.common.arrow_types import arrow_type, element_type, is_bytes, type_info_of_arrow
from penstock.operators.common.basic_types import ForeignTypeInfo, PickledBytesTypeInfo, TypeInformation
from penstock.operators.common.codec import Codec
from penstock.operators.common.collection_codecs import ListCodec, MapCodec
from penstock.operators.common.collection_types import (
    BasicArrayTypeInfo,
    ExternalTypeInfo,
    ListTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PrimitiveArrayTypeInfo,
)
from penstock.operators.common.composite_codecs import RowCodec, TupleCodec
from penstock.operators.common.composite_types import RowTypeInfo, TupleTypeInfo
from penstock.operators.common.single_codecs import PickledCodec, single_codec
from penstock.operators.common.without_pandas import without_pandas

__all__ = ["arrow_type", "codec_of", "coerce", "from_arrow", "to_arrow", "type_info_of_arrow"]

_PICKLED = PickledCodec()


def to_arrow(values: Sequence[Any], type_info: TypeInformation | None) -> pa.Array:
    """A column of type `arrow_type(type_info)`; rows of other kinds than INSERT have one field more.

    TypeError, OverflowError or ValueError name a value that is not of the type. Without declared type, each
    value is a pickle.
    """
    with without_pandas():
        found = codec_of(type_info).encode(values)
    if isinstance(found, pa.ChunkedArray):
        raise OverflowError(f"{len(values)} values of {type_info} take more than the 2 GB of a column")
    return found


def from_arrow(array: pa.Array | pa.ChunkedArray, type_info: TypeInformation | None) -> list[Any]:
    """The values of a column: of one that `to_arrow` made, or of any other that has such values."""
    codec = codec_of(type_info)
    column = as_arrow_type(array, codec.arrow_type)
    found: list[Any] = _uncollected(codec.decode, column)
    return found


def coerce(values: Sequence[Any], type_info: TypeInformation | None) -> Sequence[Any]:
    """from_arrow(to_arrow(values)), but `values` itself if that is the same. Errors as `to_arrow`."""
    found: Sequence[Any] = _uncollected(codec_of(type_info).coerce, values)
    return found


def codec_of(type_info: TypeInformation | None) -> Codec:
    """The codec of a type, made once for each TypeInformation. TypeError for types that have none."""
    if type_info is None:
        return _PICKLED
    found: Codec | None = type_info.__dict__.get("_codec")
    if found is None:
        found = type_info.__dict__["_codec"] = _made(type_info)
    return found


def _made(type_info: TypeInformation) -> Codec:
    if isinstance(type_info, PickledBytesTypeInfo):
        return _PICKLED
    if isinstance(type_info, ForeignTypeInfo):
        made: Codec = type_info.make_codec()
        return made
    if isinstance(type_info, RowTypeInfo):
        return RowCodec(type_info, [codec_of(one) for one in type_info.get_field_types()])
    if isinstance(type_info, TupleTypeInfo):
        return TupleCodec(type_info, [codec_of(one) for one in type_info.get_field_types()])
    if isinstance(type_info, MapTypeInfo):
        return MapCodec(type_info, codec_of(type_info._key_type_info), codec_of(type_info._value_type_info))
    if isinstance(type_info, ExternalTypeInfo):
        return codec_of(type_info._type_info)
    arrays = (PrimitiveArrayTypeInfo, BasicArrayTypeInfo, ObjectArrayTypeInfo, ListTypeInfo)
    if isinstance(type_info, arrays) and not is_bytes(type_info):
        return ListCodec(type_info, codec_of(element_type(type_info)))
    return single_codec(type_info)


def _uncollected(function: Callable[[Any], Any], argument: Any) -> Any:
    # there is no garbage while values are made, and looking for it takes longer than making them
    enabled = gc.isenabled()
    gc.disable()
    try:
        return function(argument)
    finally:
        if enabled:
            gc.enable()
