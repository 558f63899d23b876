"""Checks the settings of streams and sinks.

Source: org.apache.flink.api.common.operators.util.OperatorValidationUtils;
org.apache.flink.api.dag.Transformation.
"""

from __future__ import annotations

import re
from typing import Any

from engine.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TypeInformation
from operators.common.parallelism import UPPER_BOUND_MAX_PARALLELISM
from operators.formats.data_types import is_data_type

_UID_HASH = re.compile(r"[0-9A-Fa-f]{32}")


def check_parallelism(parallelism: int, can_be_parallel: bool = True) -> int | None:
    """`parallelism`, None for -1 (the environment's)."""
    if parallelism != -1 and parallelism < 1:
        raise ValueError(f"parallelism {parallelism}: at least 1, or -1 for the environment's")
    if not can_be_parallel and parallelism != 1:
        raise ValueError(f"parallelism {parallelism}: this operator is non-parallel, only 1 is possible")
    return None if parallelism == -1 else parallelism


def check_max_parallelism(max_parallelism: int, can_be_parallel: bool = True) -> int:
    """`max_parallelism`."""
    if not 1 <= max_parallelism <= UPPER_BOUND_MAX_PARALLELISM:
        raise ValueError(f"maximum parallelism {max_parallelism}: from 1 to {UPPER_BOUND_MAX_PARALLELISM}")
    if not can_be_parallel and max_parallelism != 1:
        raise ValueError(
            f"maximum parallelism {max_parallelism}: this operator is non-parallel, only 1 is possible"
        )
    return max_parallelism


def check_uid_hash(uid_hash: str) -> str:
    """`uid_hash`."""
    if not _UID_HASH.fullmatch(uid_hash):
        raise ValueError(f"uid hash {uid_hash!r}: 32 hex digits are needed")
    return uid_hash


def as_output_type(given: TypeInformation | list[Any] | None) -> TypeInformation | None:
    """The type of a stream: a list stands for a row type; None, if none is declared, for pickled bytes."""
    if given is None or isinstance(given, PickledBytesTypeInfo):
        return None
    if isinstance(given, list):
        return RowTypeInfo(given)
    if isinstance(given, TypeInformation):
        if is_data_type(given):
            raise TypeError(
                f"output type {given!r} was made by DataTypes, which is for file formats; streams and keys "
                "take types made by pyflink.common.Types"
            )
        return given
    raise TypeError(f"output type {given!r}: a TypeInformation, a list of them or None is needed")


def check_function(function: Any, kind: type, what: str) -> None:
    """TypeError unless `function` is of class `kind` or a plain callable."""
    if not isinstance(function, kind) and not callable(function):
        raise TypeError(f"{what} must be a {kind.__name__} or a callable, not {type(function).__name__}")


def check_function_object(function: Any, kinds: type | tuple[type, ...], what: str) -> None:
    """TypeError unless `function` is an object of one of the classes `kinds`."""
    if not isinstance(function, kinds):
        names = " or ".join(one.__name__ for one in (kinds if isinstance(kinds, tuple) else (kinds,)))
        raise TypeError(f"{what} must be a {names}, not {type(function).__name__}")
