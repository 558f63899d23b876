"""Checks the settings of streams and sinks.

Source: org.apache.flink.api.common.operators.util.OperatorValidationUtils;
org.apache.flink.api.dag.Transformation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.transformations import Transformation
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

_UID_HASH = re.compile(r"[0-9A-Fa-f]{32}")


def check_parallelism(parallelism: int, can_be_parallel: bool = True) -> int:
    """`parallelism`; -1 stands for the job's."""
    require_integer(parallelism, "parallelism", 32)
    if parallelism != -1 and parallelism < 1:
        raise ValueError(f"parallelism {parallelism}: at least 1, or -1 for the environment's")
    if not can_be_parallel and parallelism != 1:
        raise ValueError(f"parallelism {parallelism}: this operator is non-parallel, only 1 is possible")
    return parallelism


def check_max_parallelism(max_parallelism: int, can_be_parallel: bool = True) -> int:
    """`max_parallelism`."""
    require_integer(max_parallelism, "maximum parallelism", 32)
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(f"maximum parallelism {max_parallelism}: from 1 to {UPPER_BOUND_MAX_PARALLELISM}")
    if not can_be_parallel and max_parallelism != 1:
        raise ValueError(
            f"maximum parallelism {max_parallelism}: this operator is non-parallel, only 1 is possible"
        )
    return max_parallelism


def check_uid_hash(uid_hash: str) -> str:
    """`uid_hash`."""
    require_text(uid_hash, "uid hash")
    if not _UID_HASH.fullmatch(uid_hash):
        raise ValueError(f"uid hash {uid_hash!r}: 32 hex digits are needed")
    return uid_hash


def check_buffer_timeout(milliseconds: int) -> int:
    """`milliseconds`, -1 or more."""
    if require_integer(milliseconds, "buffer timeout") < -1:
        raise ValueError(f"buffer timeout {milliseconds}: at least -1")
    return milliseconds


def as_output_type(declared: Any) -> TypeInformation | None:
    """The type of a stream: a list stands for a row type; None, if none is declared, for pickled bytes.

    Spark's types and Arrow's schemas as `declared_type` takes them, with its errors.
    """
    if declared is None or isinstance(declared, PickledBytesTypeInfo):
        return None
    if isinstance(declared, list):
        return RowTypeInfo(declared)
    if isinstance(declared, TypeInformation) and is_data_type(declared):
        raise TypeError(
            f"output type {declared!r} was made by DataTypes, which is for file formats; streams and "
            "keys take types made by pyflink.common.Types"
        )
    return declared_type(declared, "output type")


def check_key_type(key_type: TypeInformation | None) -> TypeInformation | None:
    """`key_type`. TypeError for arrays, also as fields: their hash in Java is not that of their content.

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
                f"key type {key_type}{within}: arrays are no keys; take a tuple, a string or Types.LIST"
            )
    return key_type


def check_function(function: Any, kind: type, role: str) -> None:
    """TypeError unless `function` is of class `kind` or a plain callable."""
    if not isinstance(function, kind) and not callable(function):
        raise TypeError(f"{role} must be a {kind.__name__} or a callable, not {type(function).__name__}")


def check_function_object(function: Any, kinds: type | tuple[type, ...], role: str) -> None:
    """TypeError unless `function` is an object of one of the classes `kinds`."""
    if not isinstance(function, kinds):
        raise TypeError(f"{role} must be a {_names(kinds)}, not {type(function).__name__}")


def check_methods(function: Any, kinds: type | tuple[type, ...], role: str) -> None:
    """As check_function_object, but an object of no class of functions will do if it has the methods of one.

    PyFlink looks at the class of some functions, and calls others without a look.
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
        f"{role} must be a {_names(kinds)}, or have its methods: "
        f"{type(function).__name__} has no {missing[0]}"
    )


def _names(kinds: type | tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in (kinds if isinstance(kinds, tuple) else (kinds,)))


# Puts an operator or sink into a slot sharing group.
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


# Checks sources and side outputs that scripts name.


#: Types by the operator that has the side output, and the tag's id.
SideOutputTypes = dict[tuple[int, str], TypeInformation | None]


def check_source(source: Any) -> Source:
    """`source`; TypeError unless it is one of Penstock's."""
    if not isinstance(source, Source):
        raise TypeError(
            f"{type(source).__name__} is no source of Penstock: sources of Java classes have no meaning here"
        )
    return source


def side_output_type(
    known: SideOutputTypes, operator: Transformation, tag: OutputTag
) -> TypeInformation | None:
    """The tag's type. TypeError where the operator's tag of this id was asked for with another type before.

    Source: SingleOutputStreamOperator.getSideOutput.
    """
    output_type = as_output_type(tag.type_info)
    before = known.setdefault((operator.created, tag.tag_id), output_type)
    if before != output_type:
        raise TypeError(
            f"side output {tag.tag_id!r} of {operator.name!r} was asked for with type {before} before, "
            f"and now with {output_type}"
        )
    return output_type


# Keeps what a script hands to a stream as it was at that moment.
#
# PyFlink pickles a function when it is handed over (to map, key_by, reduce, …). What the script changes after
# that call, such as the variable of a loop or a dict that the function refers to, does not reach the job, and
# two operators never share one function object.
#
# Source: pyflink.datastream.data_stream._get_one_input_stream_operator.


class Pickled:
    """Holds the pickle of `thing`, and unpickles as the thing itself.

    `thing` is an operator or a function, and `name` says in messages what it belongs to. Raises
    JobCompileError where it cannot be pickled.
    """

    def __init__(self, thing: Any, name: str) -> None:
        try:
            self._name = name
            self._pickle, self._broadcasts = pickle_with_broadcasts(thing)
        except Exception as error:
            function = getattr(thing, "function", thing)
            raise JobCompileError(
                f"{name}: {describe_unpicklable(function, 'its function', error)}"
            ) from error

    def __call__(self, *arguments: Any) -> Any:
        """The result of a new copy of the function for `arguments`."""
        return cloudpickle.loads(self._pickle)(*arguments)

    def __copy__(self) -> Pickled:
        """One that unpickles as another thing: within one pickle, what stands twice is one thing."""
        other = object.__new__(Pickled)
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> tuple[Callable[[bytes, str], Any], tuple[bytes, str]]:
        note_broadcasts(self._broadcasts)
        return load_function, (self._pickle, self._name)
