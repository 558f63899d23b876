"""Parsed transformations as Arrow columns, and the canonical text of each row."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.topology.operator_rules import SINK_TOPOLOGY

_STRING, _INT32, _INT64 = pa.string(), pa.int32(), pa.int64()
RESOURCES_TYPE = pa.struct(
    [
        ("cpu_cores", pa.float64()),
        ("task_heap_memory_bytes", _INT64),
        ("task_off_heap_memory_bytes", _INT64),
        ("managed_memory_bytes", _INT64),
    ]
)
_WEIGHTS = pa.map_(_STRING, _INT32)


def offsets(lengths: Iterable[int]) -> pa.Array:
    """List offsets of the given lengths."""
    return pa.array(accumulate(lengths, initial=0), _INT32)


def cells(rows: Sequence[dict[str, Any]], keys: Iterable[str]) -> dict[str, list[Any]]:
    """The values of each key, row by row; null if a row lacks it. Other keys are left out."""
    values: dict[str, list[Any]] = {key: [None] * len(rows) for key in keys}
    for position, row in enumerate(rows):
        for key, value in row.items():
            if key in values:
                values[key][position] = value
    return values


def list_array(lists: Sequence[list[Any] | None], item: pa.DataType) -> pa.Array:
    """A list column; null is an empty list."""
    filled = [entry or () for entry in lists]
    return pa.ListArray.from_arrays(
        offsets(map(len, filled)), pa.array(list(chain.from_iterable(filled)), item)
    )


def weights_array(maps: Sequence[dict[str, int] | None]) -> pa.Array:
    """`managed_memory` as a map, keys sorted; null is an empty map."""
    entries = [entry for m in maps if m for entry in sorted(m.items())]
    return pa.MapArray.from_arrays(
        offsets(len(m) if m else 0 for m in maps),
        pa.array([key for key, _ in entries], _STRING),
        pa.array([weight for _, weight in entries], _INT32),
    )


RESOURCES_OF_ZERO = ("task_off_heap_memory_bytes", "managed_memory_bytes")
"""What a ResourceSpec has none of unless it says so."""


def resources_array(resources: Sequence[dict[str, Any] | None]) -> pa.Array:
    """A ResourceSpec; off-heap and managed memory default to 0."""
    zero = dict.fromkeys(RESOURCES_OF_ZERO, 0)
    return pa.array([None if r is None else {**zero, **r} for r in resources], RESOURCES_TYPE)


def plain_array(data_type: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """A column as it is."""
    return lambda values: pa.array(values, data_type)


COLUMNS: dict[str, Callable[[Sequence[Any]], pa.Array]] = {
    "id": plain_array(_INT32),
    "kind": plain_array(_STRING),
    "name": lambda names: pa.array([name or "" for name in names], _STRING),
    "inputs": lambda lists: list_array(lists, _INT32),
    "parallelism": plain_array(_INT32),
    "max_parallelism": plain_array(_INT32),
    "uid": plain_array(_STRING),
    "uid_hash": plain_array(_STRING),
    "slot_sharing_group": plain_array(_STRING),
    "co_location_group": plain_array(_STRING),
    "buffer_timeout": plain_array(_INT64),
    "chaining": plain_array(_STRING),
    "managed_memory": weights_array,
    "slot_scope": lambda lists: list_array(lists, _STRING),
    "min_resources": resources_array,
    "preferred_resources": resources_array,
    "partitioner": plain_array(_STRING),
    "exchange_mode": plain_array(_STRING),
    "tag": plain_array(_STRING),
    "names": plain_array(pa.list_(_STRING)),
    "sink_topology": plain_array(_STRING),
}
IF_SET = "sink_topology"
"""Left out of a row's canonical text where it is null: no topology had it once."""


def transformation_columns(rows: Sequence[dict[str, Any]]) -> pa.StructArray:
    """Valid transformations as one struct array: the columns of TRANSFORMATIONS after topology_id."""
    values = cells(rows, COLUMNS)
    values["sink_topology"] = list(map(sink_topology, rows))
    return pa.StructArray.from_arrays(
        [build(values[key]) for key, build in COLUMNS.items()], names=list(COLUMNS)
    )


def sink_topology(row: dict[str, Any]) -> str | None:
    """The parts a sink expands into, as JSON with sorted keys; null for sink functions and other kinds."""
    if "writer" not in row:
        return None
    sink = {key: row[key] for key in SINK_TOPOLOGY if key in row}
    return orjson.dumps(sink, option=orjson.OPT_SORT_KEYS).decode()


def canonical_rows(columns: pa.StructArray) -> pa.StringArray:
    """One line of canonical text per transformation, ending in a newline (see `fingerprint`)."""
    fields = [canonical_column(name, columns.field(name)) for name in COLUMNS if name != IF_SET]
    row = pc.binary_join_element_wise(*fields, "|", null_handling="replace", null_replacement="")
    if columns.field(IF_SET).null_count < len(columns):
        longer = pc.binary_join_element_wise(row, canonical_column(IF_SET, columns.field(IF_SET)), "|")
        row = pc.coalesce(longer, row)
    return pc.binary_join_element_wise(row, "", "\n")


def canonical_column(name: str, values: pa.Array) -> pa.Array:
    """A column as text that no other value of it has; null or empty for null, empty lists and maps."""
    if pa.types.is_integer(values.type):
        return pc.cast(values, _STRING)
    if values.null_count == len(values):
        return pa.nulls(len(values), _STRING)
    if pa.types.is_string(values.type):
        return _with_lengths(values)
    if pa.types.is_struct(values.type):
        cores, *sizes = values.flatten()
        nanos = pc.cast(pc.floor(pc.add(pc.multiply(cores, 1e9), 0.5)), _INT64)
        return pc.binary_join_element_wise(*(pc.cast(part, _STRING) for part in (nanos, *sizes)), ",")
    if name == "managed_memory":  # which has one key at most
        items = pc.binary_join_element_wise(values.keys, pc.cast(values.items, _STRING), "=")
    elif name == "slot_scope":
        return _sorted_words(values)
    elif name == "inputs":
        items = pc.cast(values.values, _STRING)
    else:
        items = _with_lengths(values.values)
    return pc.binary_join(pa.ListArray.from_arrays(values.offsets, items), ",")


def _with_lengths(strings: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(pc.cast(pc.binary_length(strings), _STRING), strings, ":")


def _sorted_words(lists: pa.ListArray) -> pa.StringArray:
    """The words of each list in their order, joined by commas."""
    several = pc.greater(pc.list_value_length(lists), 1)
    texts = pc.binary_join(lists, ",")
    ordered = [",".join(sorted(words)) for words in lists.filter(several).to_pylist()]
    return pc.replace_with_mask(texts, several, pa.array(ordered, _STRING))
