"""Checks of the settings of streams and sinks.

Source: org.apache.flink.api.common.operators.util.OperatorValidationUtils;
org.apache.flink.api.dag.Transformation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.run.lowering.transformations import Transformation
from penstock.engine.spark.describe_spark_error import note_broadcasts, pickle_with_broadcasts
from penstock.operators.common.arguments import require_integer, require_text
from penstock.operators.common.declared_types import declared_type
from penstock.operators.common.key_groups import UPPER_BOUND_MAX_PARALLELISM
from penstock.operators.common.output_tag import OutputTag
from penstock.operators.common.pickles import describe_unpicklable, load_function
from penstock.operators.common.typeinfo import (
    BasicArrayTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.operators.connectors.source import Source
from penstock.operators.formats.data_types import is_data_type
from penstock.operators.functions.functions import Function
from penstock.plans.errors import JobCompileError

_UID_HASH = re.compile(r"[0-9A-Fa-f]{32}")


def check_parallelism(parallelism: int, can_be_parallel: bool = True) -> int:
    """Return `parallelism`, which is at least 1, or -1 for the job's. Raises TypeError and ValueError."""
    require_integer(parallelism, "parallelism", 32)
    if parallelism != -1 and parallelism < 1:
        raise ValueError(
            f"parallelism must be at least 1, or -1 for the environment's parallelism, got {parallelism}"
        )
    if not can_be_parallel and parallelism != 1:
        raise ValueError(f"parallelism of a non-parallel operator must be 1, got {parallelism}")
    return parallelism


def check_max_parallelism(max_parallelism: int, can_be_parallel: bool = True) -> int:
    """Return `max_parallelism`, from 1 to 32768. Raises TypeError and ValueError."""
    require_integer(max_parallelism, "maximum parallelism", 32)
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(
            f"maximum parallelism must be from 1 to {UPPER_BOUND_MAX_PARALLELISM}, got {max_parallelism}"
        )
    if not can_be_parallel and max_parallelism != 1:
        raise ValueError(f"maximum parallelism of a non-parallel operator must be 1, got {max_parallelism}")
    return max_parallelism


def check_uid_hash(uid_hash: str) -> str:
    """Return `uid_hash`, which has 32 hex digits. Raises TypeError and ValueError."""
    require_text(uid_hash, "uid hash")
    if not _UID_HASH.fullmatch(uid_hash):
        raise ValueError(f"uid hash must have 32 hex digits, got {uid_hash!r}")
    return uid_hash


def check_buffer_timeout(milliseconds: int) -> int:
    """Return `milliseconds`, which is at least -1. Raises TypeError and ValueError."""
    if require_integer(milliseconds, "buffer timeout") < -1:
        raise ValueError(f"buffer timeout must be at least -1 ms, got {milliseconds}")
    return milliseconds


def as_output_type(declared: Any) -> TypeInformation | None:
    """Return a stream's type: a row type for a list; None, for pickled bytes, if no type is declared.

    Spark's types and Arrow's schemas are converted by `declared_type`, which also defines the errors.
    """
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        return None
    if isinstance(declared, list):
        return RowTypeInfo(declared)
    if isinstance(declared, TypeInformation) and is_data_type(declared):
        raise TypeError(
            f"types of streams and keys must be made by pyflink.common.Types, got {declared!r} of DataTypes, "
            "which is for file formats"
        )
    return declared_type(declared, "output type")


def check_key_type(key_type: TypeInformation | None) -> TypeInformation | None:
    """Return `key_type`. Raises TypeError for arrays, also as fields: Java does not hash their content.

    Source: org.apache.flink.streaming.api.datastream.KeyedStream.validateKeyType.
    """
    unchecked: list[TypeInformation | None] = [key_type]
    while unchecked:
        unchecked_type = unchecked.pop()
        if isinstance(unchecked_type, RowTypeInfo | TupleTypeInfo):
            unchecked += unchecked_type.get_field_types()
        elif isinstance(unchecked_type, PrimitiveArrayTypeInfo | BasicArrayTypeInfo | ObjectArrayTypeInfo):
            within = "" if unchecked_type is key_type else f", which has a field of type {unchecked_type}"
            raise TypeError(
                f"key type {key_type}{within}: arrays cannot be keys; use a tuple, a string or Types.LIST"
            )
    return key_type


def check_function(function: Any, kind: type, role: str) -> None:
    """Raise TypeError unless `function` is of class `kind` or a plain callable."""
    if not isinstance(function, kind) and not callable(function):
        raise TypeError(f"{role} must be a {kind.__name__} or a callable, got {type(function).__name__}")


def check_function_object(function: Any, kinds: type | tuple[type, ...], role: str) -> None:
    """Raise TypeError unless `function` is an object of a class in `kinds`."""
    if not isinstance(function, kinds):
        raise TypeError(f"{role} must be a {_names(kinds)}, got {type(function).__name__}")


def check_methods(function: Any, kinds: type | tuple[type, ...], role: str) -> None:
    """Raise TypeError unless `function` is of a class in `kinds`, or has the methods of such a class.

    An object of another class of functions is refused. PyFlink checks the class of some functions, and calls
    others without a check.
    """
    if isinstance(function, Function | type) or function is None:
        check_function_object(function, kinds, role)
    if isinstance(function, kinds):
        return
    for kind in kinds if isinstance(kinds, tuple) else (kinds,):
        methods: frozenset[str] = getattr(kind, "__abstractmethods__", frozenset())
        missing = [name for name in sorted(methods) if not callable(getattr(function, name, None))]
        if not missing:
            return
    raise TypeError(
        f"{role} must be a {_names(kinds)}, or have its methods: {type(function).__name__} lacks {missing[0]}"
    )


def _names(kinds: type | tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


# Slot sharing groups of operators and sinks.
#
# Source: org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator.slotSharingGroup.


def set_slot_sharing_group(transformation: Transformation, group: str | SlotSharingGroup) -> None:
    """Put `transformation` into the group."""
    if isinstance(group, SlotSharingGroup):
        transformation.slot_sharing_group = group.get_name()
        transformation.slot_resources = group.slot_resources()
    else:
        transformation.slot_sharing_group, transformation.slot_resources = (
            require_text(group, "slot sharing group"),
            (),
        )


# Checks of sources and side outputs.


#: Types of side outputs, by operator and tag id.
SideOutputTypes = dict[tuple[int, str], TypeInformation | None]


def check_source(source: Any) -> Source:
    """Return `source`. Raises TypeError unless it is a source of Penstock."""
    if not isinstance(source, Source):
        raise TypeError(
            f"source must be a source of Penstock, got {type(source).__name__}: sources of Java classes "
            "cannot run here"
        )
    return source


def side_output_type(
    known: SideOutputTypes, operator: Transformation, tag: OutputTag
) -> TypeInformation | None:
    """Return the tag's type. Raises TypeError if this side output was requested with another type before.

    Source: SingleOutputStreamOperator.getSideOutput.
    """
    output_type = as_output_type(tag.type_info)
    before = known.setdefault((operator.created, tag.tag_id), output_type)
    if before != output_type:
        raise TypeError(
            f"side output {tag.tag_id!r} of {operator.name!r} must have one type, got {output_type} after "
            f"{before}"
        )
    return output_type


# Copies of functions from the time when a script passed them to a stream.
#
# PyFlink pickles a function at the call that gets it (map, key_by, reduce, …). Later changes by the script,
# for example of a loop variable or a dict that the function refers to, do not reach the job, and two
# operators never share one function object.
#
# Source: pyflink.datastream.data_stream._get_one_input_stream_operator.


class PickledCopy:
    """Holds the pickle of an operator or function, and unpickles as the original.

    `name` is the operator's name, for messages. Raises JobCompileError if `original` cannot be pickled.
    """

    def __init__(self, original: Any, name: str) -> None:
        try:
            self._name = name
            self._pickle, self._broadcasts = pickle_with_broadcasts(original)
        except Exception as error:
            function = getattr(original, "function", original)
            raise JobCompileError(
                f"{name}: {describe_unpicklable(function, 'its function', error)}"
            ) from error

    def __call__(self, *arguments: Any) -> Any:
        """Return the result of a new copy of the function for `arguments`."""
        return cloudpickle.loads(self._pickle)(*arguments)

    def __copy__(self) -> PickledCopy:
        """Return a copy that unpickles as a separate object, even if both are in one pickle."""
        other = object.__new__(PickledCopy)
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> tuple[Callable[[bytes, str], Any], tuple[bytes, str]]:
        note_broadcasts(self._broadcasts)
        return load_function, (self._pickle, self._name)
