"""The key group of a key, and the subtask of a group, as in Flink.

Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment, org.apache.flink.util.MathUtils.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.operators.common.arrow_columns import to_arrow
from penstock.operators.common.arrow_types import type_info_of_arrow
from penstock.operators.common.basic_types import PickledBytesTypeInfo, TypeInformation
from penstock.operators.common.java_hash import Hashes, key_hashes, pickled_key_hashes
from penstock.operators.common.serialized_keys import dictionary_keys
from penstock.operators.common.without_pandas import without_pandas

# Flink's bounds of parallelism
#
# Source: org.apache.flink.runtime.state.KeyGroupRangeAssignment.


UPPER_BOUND_MAX_PARALLELISM = 1 << 15
DEFAULT_LOWER_BOUND_MAX_PARALLELISM = 1 << 7
"""The minimum of the max parallelism that Flink derives from a parallelism."""


KeyGroups = npt.NDArray[np.int32]


@without_pandas()
def key_groups(keys: Sequence[Any], type_info: TypeInformation | None, max_parallelism: int) -> list[int]:
    """Return the key group of each key; keys with equal `dictionary_key` have the same group.

    A type of None means that none is declared. Raises TypeError or OverflowError for keys that are not of the
    type.
    """
    if type_info is not None and not isinstance(type_info, PickledBytesTypeInfo):
        column = to_arrow(keys, type_info)
        return _listed(_group_hashes(key_hashes(column, type_info), max_parallelism))
    types = set(map(type, keys))
    if types in ({str}, {int}):
        return _listed(_group_pickles(keys, max_parallelism))
    same = dictionary_keys(list(keys))
    distinct = list(dict.fromkeys(same))
    group_of = dict(zip(distinct, _listed(_group_pickles(distinct, max_parallelism)), strict=True))
    return [group_of[key] for key in same]


@without_pandas()
def key_groups_of_column(
    column: pa.Array | pa.ChunkedArray, type_info: TypeInformation | None, max_parallelism: int
) -> KeyGroups:
    """Return the key group of each value of a column; without a declared type, by the type of the column."""
    if type_info is None or isinstance(type_info, PickledBytesTypeInfo):
        type_info = type_info_of_arrow(column.type)
    return _group_hashes(key_hashes(column, type_info), max_parallelism)


def operator_index(key_group: int, max_parallelism: int, parallelism: int) -> int:
    """Return the subtask, out of `parallelism`, that owns the key group."""
    return key_group * parallelism // max_parallelism


def _group_pickles(keys: Sequence[Any], max_parallelism: int) -> KeyGroups:
    return _group_hashes(pickled_key_hashes(keys), max_parallelism)


def _group_hashes(hashes: Hashes, max_parallelism: int) -> KeyGroups:
    groups: KeyGroups = (murmur_hash(hashes) % max_parallelism).astype(np.int32)
    return groups


def _listed(groups: KeyGroups) -> list[int]:
    numbers: list[int] = groups.tolist()
    return numbers


def murmur_hash(codes: Hashes) -> Hashes:
    """Mix Java ints into numbers from 0 to 2^31 - 1."""
    code = codes * np.uint32(0xCC9E2D51)
    code = _rotated_left(code, 15) * np.uint32(0x1B873593)
    code = _rotated_left(code, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    code ^= np.uint32(4)
    code ^= code >> np.uint32(16)
    code *= np.uint32(0x85EBCA6B)
    code ^= code >> np.uint32(13)
    code *= np.uint32(0xC2B2AE35)
    code ^= code >> np.uint32(16)
    negative = code >= np.uint32(1 << 31)
    code[negative] = (~code[negative] + np.uint32(1)) & np.uint32((1 << 31) - 1)
    return code


def _rotated_left(code: Hashes, bits: int) -> Hashes:
    rotated: Hashes = (code << np.uint32(bits)) | (code >> np.uint32(32 - bits))
    return rotated
