"""Arrow columns of parsed topologies, and the canonical texts of many transformations at once."""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.compiled import compiled, is_worth_compiling
from penstock.plans.tables import STREAM_NODES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.fingerprint import CAPTURE_NOTES
from penstock.plans.topology.operator_rules import DETAILS, SINK_TOPOLOGY
from penstock.plans.vocabulary import (
    PARTITIONER_CLASSES,
    TABLE_HASH_CLASS,
    UNSPECIFIED_FORWARD_CLASS,
    TopologyForm,
)

# Parsed transformations as Arrow columns, and the canonical text of each row.


_COLUMN_TEXT, _INT32, _INT64 = pa.string(), pa.int32(), pa.int64()
RESOURCES_TYPE = pa.struct(
    [
        ("cpu_cores", pa.float64()),
        ("task_heap_memory_bytes", _INT64),
        ("task_off_heap_memory_bytes", _INT64),
        ("managed_memory_bytes", _INT64),
    ]
)


def offsets(lengths: Iterable[int]) -> pa.Array:
    """Return list offsets for the given lengths."""
    return pa.array(accumulate(lengths, initial=0), _INT32)


def cells(rows: Sequence[dict[str, Any]], keys: Iterable[str]) -> dict[str, list[Any]]:
    """Return the values of each key, row by row; null if a row lacks it. Other keys are dropped."""
    values: dict[str, list[Any]] = {key: [None] * len(rows) for key in keys}
    for position, row in enumerate(rows):
        for key, value in row.items():
            if key in values:
                values[key][position] = value
    return values


def _list_array(lists: Sequence[list[Any] | None], item: pa.DataType) -> pa.Array:
    """Return a list column; null becomes an empty list."""
    filled = [entry or () for entry in lists]
    return pa.ListArray.from_arrays(
        offsets(map(len, filled)), pa.array(list(chain.from_iterable(filled)), item)
    )


def _weights_array(maps: Sequence[dict[str, int] | None]) -> pa.Array:
    """Return `managed_memory` as a map with sorted keys; null becomes an empty map."""
    entries = [entry for m in maps if m for entry in sorted(m.items())]
    return pa.MapArray.from_arrays(
        offsets(len(m) if m else 0 for m in maps),
        pa.array([key for key, _ in entries], _COLUMN_TEXT),
        pa.array([weight for _, weight in entries], _INT32),
    )


RESOURCES_OF_ZERO = ("task_off_heap_memory_bytes", "managed_memory_bytes")
"""Fields of a ResourceSpec that default to 0."""


def _resources_array(resources: Sequence[dict[str, Any] | None]) -> pa.Array:
    """Return a ResourceSpec column; off-heap and managed memory default to 0."""
    zero = dict.fromkeys(RESOURCES_OF_ZERO, 0)
    return pa.array([None if r is None else {**zero, **r} for r in resources], RESOURCES_TYPE)


def plain_array(data_type: pa.DataType) -> Callable[[Sequence[Any]], pa.Array]:
    """Return a function that builds a column of `data_type` from unchanged values."""
    return lambda values: pa.array(values, data_type)


COLUMNS: dict[str, Callable[[Sequence[Any]], pa.Array]] = {
    "id": plain_array(_INT32),
    "kind": plain_array(_COLUMN_TEXT),
    "name": lambda names: pa.array([name or "" for name in names], _COLUMN_TEXT),
    "inputs": lambda lists: _list_array(lists, _INT32),
    "parallelism": plain_array(_INT32),
    "max_parallelism": plain_array(_INT32),
    "uid": plain_array(_COLUMN_TEXT),
    "uid_hash": plain_array(_COLUMN_TEXT),
    "slot_sharing_group": plain_array(_COLUMN_TEXT),
    "co_location_group": plain_array(_COLUMN_TEXT),
    "buffer_timeout": plain_array(_INT64),
    "chaining": plain_array(_COLUMN_TEXT),
    "managed_memory": _weights_array,
    "slot_scope": lambda lists: _list_array(lists, _COLUMN_TEXT),
    "min_resources": _resources_array,
    "preferred_resources": _resources_array,
    "partitioner": plain_array(_COLUMN_TEXT),
    "exchange_mode": plain_array(_COLUMN_TEXT),
    "tag": plain_array(_COLUMN_TEXT),
    "names": plain_array(pa.list_(_COLUMN_TEXT)),
    "sink_topology": plain_array(_COLUMN_TEXT),
    "details": plain_array(_COLUMN_TEXT),
}
JSON_COLUMNS = {"sink_topology": SINK_TOPOLOGY, "details": DETAILS}
"""The last columns, each JSON of several keys. Trailing ones that are null are omitted from a row's canonical
text, because topologies once had no such keys."""


def transformation_columns(rows: Sequence[dict[str, Any]]) -> pa.StructArray:
    """Return valid transformations as one struct array with the columns of TRANSFORMATIONS
    after topology_id.
    """
    values = cells(rows, COLUMNS)
    for name, keys in JSON_COLUMNS.items():
        values[name] = [json_of_keys(row, keys) for row in rows]
    return pa.StructArray.from_arrays(
        [build(values[key]) for key, build in COLUMNS.items()], names=list(COLUMNS)
    )


def json_of_keys(row: dict[str, Any], keys: Collection[str]) -> str | None:
    """Return the keys of `row` that are in `keys` as JSON, sorted; None if it has none."""
    if row.keys().isdisjoint(keys):
        return None
    return orjson.dumps({key: row[key] for key in keys if key in row}, option=orjson.OPT_SORT_KEYS).decode()


def canonical_rows(columns: pa.StructArray) -> pa.StringArray:
    """Return one line of canonical text per transformation, ending in a newline (see `fingerprint`)."""
    fields = [_canonical_column(name, columns.field(name)) for name in COLUMNS if name not in JSON_COLUMNS]
    text = pc.binary_join_element_wise(*fields, "|", null_handling="replace", null_replacement="")
    row = text
    for name in JSON_COLUMNS:
        column = columns.field(name)
        text = pc.binary_join_element_wise(
            text, _canonical_column(name, column), "|", null_handling="replace", null_replacement=""
        )
        row = pc.if_else(column.is_valid(), text, row)
    return pc.binary_join_element_wise(row, "", "\n")


def _canonical_column(name: str, values: pa.Array) -> pa.Array:
    """Return a column as text, injective per column; null, empty lists and empty maps become null or ""."""
    if pa.types.is_integer(values.type):
        return pc.cast(values, _COLUMN_TEXT)
    if values.null_count == len(values):
        return pa.nulls(len(values), _COLUMN_TEXT)
    if pa.types.is_string(values.type):
        return _with_lengths(values)
    if pa.types.is_struct(values.type):
        cores, *sizes = values.flatten()
        nanos = pc.cast(pc.floor(pc.add(pc.multiply(cores, 1e9), 0.5)), _INT64)
        return pc.binary_join_element_wise(*(pc.cast(part, _COLUMN_TEXT) for part in (nanos, *sizes)), ",")
    if name == "managed_memory":  # which has at most one key
        items = pc.binary_join_element_wise(values.keys, pc.cast(values.items, _COLUMN_TEXT), "=")
    elif name == "slot_scope":
        return _sorted_words(values)
    elif name == "inputs":
        items = pc.cast(values.values, _COLUMN_TEXT)
    else:
        items = _with_lengths(values.values)
    return pc.binary_join(pa.ListArray.from_arrays(values.offsets, items), ",")


def _with_lengths(strings: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(pc.cast(pc.binary_length(strings), _COLUMN_TEXT), strings, ":")


def _sorted_words(lists: pa.ListArray) -> pa.StringArray:
    """Sort the words of each list and join them by commas."""
    several = pc.greater(pc.list_value_length(lists), 1)
    texts = pc.binary_join(lists, ",")
    ordered = [",".join(sorted(words)) for words in lists.filter(several).to_pylist()]
    return pc.replace_with_mask(texts, several, pa.array(ordered, _COLUMN_TEXT))


# Parsed stream graphs as Arrow columns of STREAM_NODES and STREAM_EDGES.


_NODE_TEXT, _NODE_INT32, _NODE_INT64, _BOOL = pa.string(), pa.int32(), pa.int64(), pa.bool_()

_NODE_COLUMNS: dict[str, pa.DataType] = {
    "id": _NODE_INT32,
    "name": _NODE_TEXT,
    "parallelism": _NODE_INT32,
    "max_parallelism": _NODE_INT32,
    "parallelism_configured": _BOOL,
    "slot_sharing_group": _NODE_TEXT,
    "co_location_group": _NODE_TEXT,
    "uid": _NODE_TEXT,
    "uid_hash": _NODE_TEXT,
    "buffer_timeout": _NODE_INT64,
    "chaining": _NODE_TEXT,
    "source": _BOOL,
    "legacy_source": _BOOL,
    "yielding": _BOOL,
    "coordinated": _BOOL,
    "invokable": _NODE_TEXT,
    "operator_factory": _NODE_TEXT,
    "input_format": _BOOL,
    "output_format": _BOOL,
    "no_output_until_end_of_input": _BOOL,
    "supports_concurrent_execution_attempts": _BOOL,
    "among_sources": _BOOL,
    "description": _NODE_TEXT,
    "keyed": _BOOL,
    "operator_class": _NODE_TEXT,
    "function_class": _NODE_TEXT,
    "output_type": _NODE_TEXT,
    "consumes_data_set": _NODE_TEXT,
    "transformation": _NODE_INT32,
}
_EDGE_COLUMNS: dict[str, pa.DataType] = {
    "source": _NODE_INT32,
    "target": _NODE_INT32,
    "in_index": _NODE_INT32,
    "out_index": _NODE_INT32,
    "type_number": _NODE_INT32,
    "unique_id": _NODE_INT32,
    "partitioner": _NODE_TEXT,
    "partitioner_class": _NODE_TEXT,
    "partitioner_key": _NODE_TEXT,
    "pointwise": _BOOL,
    "broadcast": _BOOL,
    "exchange_mode": _NODE_TEXT,
    "output_tag": _NODE_TEXT,
    "selected_names": pa.list_(_NODE_TEXT),
    "buffer_timeout": _NODE_INT64,
    "unaligned_checkpoints": _BOOL,
    "edge_id": _NODE_TEXT,
    "persistent_data_set": _NODE_TEXT,
}
_RENAMED = {"unaligned_checkpoints": "supports_unaligned_checkpoints"}
_EQUAL_IF_SAME_OBJECT = ("KeyGroupStreamPartitioner", "CustomPartitionerWrapper")
_EQUAL_BY_CLASS = frozenset(
    {*PARTITIONER_CLASSES.values(), UNSPECIFIED_FORWARD_CLASS}.difference(_EQUAL_IF_SAME_OBJECT)
)


def partitioner_key(edge: dict[str, Any], compared: bool = False) -> str:
    """Return a key that is equal if StreamPartitioner.equals holds, among the edges of one source.

    Partitioners are equal by class; BinaryHashPartitioner also by its fields, which its name lists (`HASH[a,
    b]`). Two that contain a key selector or a user's function are equal only if those are equal. A stream
    graph records that only if its partitioners were `compared`; otherwise they are treated as different, like
    separately written ones.
    """
    partitioner_class: str = edge["partitioner_class"]
    if compared and partitioner_class not in _EQUAL_BY_CLASS:
        return f"#{edge.get('equal_partitioner', edge['edge_id'])}"
    if partitioner_class in _EQUAL_IF_SAME_OBJECT:
        return f"{partitioner_class}#{edge['edge_id']}"
    if partitioner_class == TABLE_HASH_CLASS:
        return f"{partitioner_class}#{edge['partitioner']}"
    return partitioner_class


def placed_edges(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the edges of a valid stream graph with their positions in the edge lists of both ends."""
    compared = graph.get("partitioners_compared", False)
    in_index = {e: i for node in graph["nodes"] for i, e in enumerate(node["in_edges"])}
    out_index = {e: i for node in graph["nodes"] for i, e in enumerate(node["out_edges"])}
    return [
        {
            **edge,
            "in_index": in_index[edge["edge_id"]],
            "out_index": out_index[edge["edge_id"]],
            "unique_id": int(edge["edge_id"].rpartition("_")[2]),
            "partitioner_key": partitioner_key(edge, compared),
        }
        for edge in graph["edges"]
    ]


def nodes_with_sources(graph: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the nodes of a valid stream graph with a flag for the graph's `sources`."""
    sources = frozenset(graph["sources"])
    return [{**node, "among_sources": node["id"] in sources} for node in graph["nodes"]]


def stream_node_columns(nodes: Sequence[dict[str, Any]]) -> pa.StructArray:
    """Return valid stream nodes as one struct array with the columns of STREAM_NODES after topology_id."""
    requirements = [
        [(int(index), need) for index, need in node["input_requirements"].items()] for node in nodes
    ]
    complex_keys = ("managed_memory", "slot_scope", "min_resources", "preferred_resources")
    values = cells(nodes, (*_NODE_COLUMNS, *complex_keys))
    columns = {key: pa.array(values[key], data_type) for key, data_type in _NODE_COLUMNS.items()}
    # StreamingJobGraphGenerator.createChain checks both.
    columns["no_output_until_end_of_input"] = pc.or_(
        columns["no_output_until_end_of_input"],
        pa.array([node["output_only_after_end_of_stream"] for node in nodes], _BOOL),
    )
    columns |= {
        "managed_memory": _weights_array(values["managed_memory"]),
        "slot_scope": _list_array(values["slot_scope"], _NODE_TEXT),
        "input_requirements": pa.array(requirements, pa.map_(_NODE_INT32, _NODE_TEXT)),
        "min_resources": _resources_array(values["min_resources"]),
        "preferred_resources": _resources_array(values["preferred_resources"]),
    }
    names = [name for name in STREAM_NODES.names if name != TOPOLOGY]
    return pa.StructArray.from_arrays([columns[name] for name in names], names=names)


def stream_edge_columns(edges: Sequence[dict[str, Any]]) -> pa.StructArray:
    """Return placed edges as one struct array with the columns of STREAM_EDGES after topology_id.

    A later pass decides chaining: chainable and chained_source are false, the reasons are empty.
    """
    values = cells(edges, _EDGE_COLUMNS)
    columns = {_RENAMED.get(key, key): pa.array(values[key], kind) for key, kind in _EDGE_COLUMNS.items()}
    false = pa.array([False] * len(edges), _BOOL)
    columns |= {
        "chainable": false,
        "chained_source": false,
        "not_chainable_reasons": pa.array([[]] * len(edges), pa.list_(_NODE_TEXT)),
    }
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


_TEXT, _STRING, _INTEGER, _INTEGERS = range(4)
_LONGEST_INTEGER = 20
_FIELDS = tuple(COLUMNS)  # which end in JSON_COLUMNS

Bytes = npt.NDArray[np.uint8]


def canonical_texts(rows: pa.StructArray) -> pa.StringArray | pa.LargeStringArray:
    """Return `canonical_rows` as one line per row of valid TRANSFORMATIONS columns, by a compiled loop if
    there are many.
    """
    if not is_worth_compiling(len(rows)):
        return canonical_rows(rows)
    kinds = np.zeros(len(_FIELDS), np.int64)
    present = np.zeros(len(rows), np.int32)
    cells = np.zeros((len(_FIELDS), len(rows) + 1), np.int64)
    text, items = [np.zeros(0, np.uint8)], [np.zeros(0, np.int64)]
    characters = integers = 0
    for field, name in enumerate(_FIELDS):
        column = rows.field(name)
        if column.null_count == len(column):
            continue
        if pa.types.is_integer(column.type):
            kinds[field] = _INTEGER
            width = column.type.bit_width // 8
            numbers = np.frombuffer(column.buffers()[1], f"i{width}", len(column), column.offset * width)
            cells[field, :-1] = numbers
        elif name == "inputs":
            kinds[field] = _INTEGERS
            bounds = column.offsets.to_numpy()
            np.subtract(bounds, bounds[0], out=cells[field])
            items.append(column.flatten().to_numpy().astype(np.int64))
            integers += len(items[-1])
        else:
            is_string = pa.types.is_string(column.type)
            kinds[field] = _STRING if is_string else _TEXT
            column = column if is_string else _canonical_column(name, column)
            bounds, text_of_cells = _texts(column)
            np.add(bounds, characters - bounds[0], out=cells[field])
            text.append(text_of_cells)
            characters += len(text_of_cells)
        if column.null_count:
            present |= column.is_valid().to_numpy(zero_copy_only=False).astype(np.int32) << field
        else:
            present |= 1 << field
        integers += len(column) - column.null_count
    out = np.empty(characters + integers * (_LONGEST_INTEGER + 1) + len(rows) * len(_FIELDS), np.uint8)
    ends = np.zeros(len(rows) + 1, np.int64)
    compiled(_write)(kinds, present, cells, np.concatenate(text), np.concatenate(items), out, ends)
    return pa.LargeStringArray.from_buffers(len(rows), pa.py_buffer(ends), pa.py_buffer(out[: ends[-1]]))


def _texts(column: pa.StringArray) -> tuple[npt.NDArray[np.int32], Bytes]:
    """Return the bounds of the cells in a column of strings, and the text from the first cell on."""
    _, bounds, text = column.buffers()
    starts = np.frombuffer(bounds, np.int32, len(column) + 1, column.offset * 4)
    characters = np.zeros(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return starts, characters[starts[0] : starts[-1]]


def _write(
    kinds: Ints, present: npt.NDArray[np.int32], cells: Ints, text: Bytes, items: Ints, out: Bytes, ends: Ints
) -> None:
    """The compiled loop (see frames.compiled).

    present: one bit per field that is not null. cells: per field and row an integer, or the start of its text
    or items, which end at the next row's start. The last two fields (JSON_COLUMNS) are left
    out if they and later ones are null.
    """
    at = 0
    last = len(kinds) - 1
    digits = np.zeros(_LONGEST_INTEGER, np.uint8)
    for row in range(len(present)):
        mask = present[row]
        optional = 2 if mask >> last & 1 else mask >> last - 1 & 1
        for field in range(last - 1 + optional):
            if field:
                out[at] = 0x7C
                at += 1
            if not mask >> field & 1:
                continue
            kind, first = kinds[field], cells[field, row]
            size = 1 if kind == _INTEGER else cells[field, row + 1] - first
            if kind != _TEXT:
                for place in range(1 if kind == _STRING else size):
                    number = size if kind == _STRING else first if kind == _INTEGER else items[first + place]
                    if place:
                        out[at] = 0x2C
                        at += 1
                    if number < 0:
                        out[at] = 0x2D
                        at += 1
                        number = -number
                    count = 0
                    while number or not count:
                        digits[count] = 0x30 + number % 10
                        number //= 10
                        count += 1
                    while count:
                        count -= 1
                        out[at] = digits[count]
                        at += 1
            if kind == _STRING:
                out[at] = 0x3A
                at += 1
            if kind in (_STRING, _TEXT):
                for place in range(first, first + size):
                    out[at] = text[place]
                    at += 1
        out[at] = 0x0A
        at += 1
        ends[row + 1] = at


# Canonical headers of topologies.


_CONFIG = pl.col("config").map.entries()
_ITEM = pl.element()


def canonical_headers(topologies: pl.DataFrame) -> list[bytes]:
    """Return the canonical header of each TOPOLOGIES row of transformations, with its newline."""
    text = pl.concat_str(
        pl.lit(str(TopologyForm.TRANSFORMATIONS)),
        _string(pl.col("name")),
        pl.col("parallelism").cast(pl.String),
        pl.col("max_parallelism").cast(pl.String).fill_null(""),
        pl.when("chaining").then(pl.lit("true")).otherwise(pl.lit("false")),
        _own_entries().list.sort().list.join(","),
        separator="|",
    )
    lines = topologies.select(pl.concat_str(text, pl.lit("\n"))).to_series()
    return [line.encode() for line in lines]


def config_text() -> pl.Expr:
    """Return the list of a config's entries in the given order, each as its canonical text."""
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return _CONFIG.list.eval(pl.concat_str(*fields, separator="="))


def _own_entries() -> pl.Expr:
    """`config_text` without the notes of `penstock capture`."""
    entries = _CONFIG.list.filter(~_ITEM.struct.field("key").str.starts_with(CAPTURE_NOTES))
    fields = (_string(_ITEM.struct.field(name)) for name in ("key", "value"))
    return entries.list.eval(pl.concat_str(*fields, separator="="))


def _string(value: pl.Expr) -> pl.Expr:
    """Return length in bytes, a colon, and the string."""
    return pl.concat_str(value.str.len_bytes().cast(pl.String), pl.lit(":"), value)
