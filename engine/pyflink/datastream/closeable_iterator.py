"""Results of a job, one by one. Source: pyflink.datastream.data_stream.CloseableIterator."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Protocol

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


class Closeable(Protocol):
    """An iterator that can be closed."""

    def __iter__(self) -> Iterator[Any]: ...

    def __next__(self) -> Any: ...

    def close(self) -> None:
        """Give up the rest."""


class CloseableIterator:
    """Iterates over `results`; closed, it has none."""

    def __init__(self, results: Closeable) -> None:
        self._results = results

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._results)

    def next(self) -> Any:
        """The next result. StopIteration where there is none."""
        return next(self._results)

    def close(self) -> None:
        """Give up the rest: a job that is still running is cancelled."""
        self._results.close()

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# Records as `execute_and_collect` gives them, which differs from how functions see them for arrays of
# bytes.
#
# Source: pyflink.datastream.utils.pickled_bytes_to_python_obj.


def collected_values(values: list[Any], type_info: TypeInformation | None) -> list[Any]:
    """The records of type `type_info`; arrays of BYTE become lists of ints from -128 to 127, at any depth."""
    convert = part_converter(type_info, _bytes_converter)
    return values if convert is None else list(map(convert, values))


def _bytes_converter(type_info: TypeInformation) -> Convert | None:
    if isinstance(type_info, (BasicArrayTypeInfo, ObjectArrayTypeInfo, PrimitiveArrayTypeInfo)):
        element_type = type_info._element_type
    elif isinstance(type_info, ListTypeInfo):
        element_type = type_info.elem_type
    else:
        return None
    if isinstance(element_type, BasicTypeInfo) and element_type._basic_type is BasicType.BYTE:
        return lambda value: list(memoryview(value).cast("b")) if isinstance(value, bytes) else value
    return None
