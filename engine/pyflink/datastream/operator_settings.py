"""Checks the settings of streams and sinks.

Source: org.apache.flink.api.common.operators.util.OperatorValidationUtils;
org.apache.flink.api.dag.Transformation.
"""

from __future__ import annotations

import re
from typing import Any

from penstock.engine.pyflink.common.typeinfo import (
    BasicArrayTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.engine.pyflink.datastream.slot_sharing_group import SlotSharingGroup
from penstock.engine.run.runtime.transformations import Transformation
from penstock.operators.common.arguments import require_integer, require_text
from penstock.operators.common.declared_types import declared_type
from penstock.operators.common.key_groups import UPPER_BOUND_MAX_PARALLELISM
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
