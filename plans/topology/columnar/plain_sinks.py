"""The keys of sinks, as Arrow's JSON reader gives them, become the column sink_topology."""

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.arrow_walks import Flags
from penstock.plans.topology.operator_rules import NOT_BESIDE_WRITER, SINK_TOPOLOGY, sink_errors
from penstock.plans.topology.transformation_columns import sink_topology
from penstock.plans.vocabulary import Kind

READ_BY_ARROW: dict[str, pa.DataType] = {
    "writer": pa.struct([("uid_hash", pa.string()), ("supports_concurrent_execution_attempts", pa.bool_())]),
    "committer": pa.struct([("uid_hash", pa.string())]),
    "global_committer": pa.bool_(),
}
"""Keys of SINK_TOPOLOGY to their types. The others are lists of steps, in lines that are read one by one."""

_BESIDE = "beside_writer"
_IS_SINK = "is_sink"


def plain_sinks(given: pa.StructArray) -> tuple[pa.Array, Flags]:
    """The column sink_topology; and which rows have keys that do not go together, or wrong values.

    In: transformations as `lines_as_arrow` gives them, null for keys that are not there.
    """
    keys = [field.name for field in given.type if field.name in READ_BY_ARROW]
    has_keys = np.zeros(len(given), bool)
    for key in keys:
        has_keys |= _is_there(given, key)
    if not has_keys.any():
        return pa.nulls(len(given), pa.string()), has_keys
    values = _values(given.filter(pa.array(has_keys)), keys)
    distinct = values.unique(maintain_order=True)
    texts = [_text(row) for row in distinct.iter_rows(named=True)]
    found = values.join(
        distinct.with_columns(text=pl.Series(texts, dtype=pl.String)),
        on=values.columns,
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )["text"]
    places = np.cumsum(has_keys) - 1
    column = found.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
    of_rows = column.take(pa.array(places, mask=~has_keys))
    return of_rows, has_keys & of_rows.is_null().to_numpy(zero_copy_only=False)


def _values(sinks: pa.StructArray, keys: list[str]) -> pl.DataFrame:
    """What decides each one's text, in columns: for each key whether it is there, and its values."""
    there = {field.name for field in sinks.type}
    beside = np.zeros(len(sinks), bool)
    for key in NOT_BESIDE_WRITER:
        if key in there:
            beside |= _is_there(sinks, key)
    columns: dict[str, Any] = {
        _BESIDE: beside,
        _IS_SINK: (pl.Series(sinks.field("kind")) == str(Kind.SINK)).fill_null(value=False),
    }
    for key in keys:
        columns[key] = _is_there(sinks, key)
        column = sinks.field(key)
        if pa.types.is_struct(column.type):
            for field, values in zip(column.type, column.flatten(), strict=True):
                columns[f"{key}.{field.name}"] = pl.Series(values)
        else:
            columns[f"{key}."] = pl.Series(column)
    return pl.DataFrame(columns)


def _text(values: dict[str, Any]) -> str | None:
    """The cell of sink_topology; None if the keys are wrong."""
    entry: dict[str, Any] = {"kind": str(Kind.SINK)}
    for key in READ_BY_ARROW:
        if values.get(key):
            inner = {
                name.partition(".")[2]: value for name, value in values.items() if name.startswith(f"{key}.")
            }
            entry[key] = inner[""] if "" in inner else {k: v for k, v in inner.items() if v is not None}
    right = values[_IS_SINK] and not values[_BESIDE] and not sink_errors(entry, "")
    right = right and all(SINK_TOPOLOGY[key].accepts(entry[key]) for key in READ_BY_ARROW if key in entry)
    return sink_topology(entry) if right else None


def _is_there(rows: pa.StructArray, key: str) -> Flags:
    there: Flags = rows.field(key).is_valid().to_numpy(zero_copy_only=False)
    return there
