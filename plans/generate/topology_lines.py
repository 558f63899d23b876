"""Topology lines (docs/topology-files.md) of a fleet, in pieces: a topology may be larger than memory."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from hashlib import sha256

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.generate.fleet import INDEX, Fleet, Spec
from penstock.plans.plan_json.columnar.json_text import in_list, json_object, quoted
from penstock.plans.tables import TABLES, TRANSFORMATIONS
from penstock.plans.topology.columnar.topology_tables import topology_id
from penstock.plans.vocabulary import VIRTUAL_KINDS, TopologyForm

GENERATOR = 2
"""Raised whenever a shape makes other topologies of the same Spec; part of the fingerprint."""


def topology_rows(fleet: Fleet, start: int, stop: int) -> pl.DataFrame:
    """Topologies number `start` to `stop` - 1: INDEX, `name`, `fingerprint` and the settings of the shape.

    The name is shape-seed-index. The fingerprint is SHA-256 over the recipe (shape, version of the generator,
    Spec) and the index, from which every row of the topology follows: no pass over the rows is needed.
    """
    recipe = "|".join(["generated", fleet.shape, str(GENERATOR), *_parameters(fleet.spec)])
    numbers = range(start, stop)
    return pl.DataFrame(
        {
            INDEX: pl.Series(numbers, dtype=pl.Int64),
            "name": [_name(fleet, number) for number in numbers],
            "fingerprint": [sha256(f"{recipe}|{number}".encode()).hexdigest() for number in numbers],
        }
    ).with_columns(**{"chaining": pl.lit(True), **fleet.settings})


def transformation_rows(fleet: Fleet, start: int, stop: int) -> pl.DataFrame:
    """The rows of units `start` to `stop` - 1, as Fleet.rows describes them."""
    return fleet.rows(pl.DataFrame({"unit": pl.Series(range(start, min(stop, fleet.units)), dtype=pl.Int64)}))


def topologies_table(fleet: Fleet, start: int, stop: int) -> pa.Table:
    """TOPOLOGIES of the topologies number `start` to `stop` - 1."""
    rows = topology_rows(fleet, start, stop)
    return _table(fleet, rows, "topologies", {"form": pl.lit(str(TopologyForm.TRANSFORMATIONS))})


def transformations_table(fleet: Fleet, start: int, stop: int) -> pa.Table:
    """TRANSFORMATIONS of the units `start` to `stop` - 1."""
    return _table(fleet, transformation_rows(fleet, start, stop), "transformations", {})


def fleet_tables(fleet: Fleet) -> tuple[pa.Table, pa.Table]:
    """The tables topologies and transformations of a fleet."""
    parts = range(0, fleet.units, fleet.units_of_a_part)
    rows = [transformations_table(fleet, start, start + fleet.units_of_a_part) for start in parts]
    return topologies_table(fleet, 0, fleet.spec.topologies), pa.concat_tables(rows)


def _parameters(spec: Spec) -> list[str]:
    """`name=value` for everything that a topology's rows depend on, except its index."""
    names = [field.name for field in fields(spec) if field.name != "topologies"]
    return [f"{name}={getattr(spec, name)}" for name in names]


def _name(fleet: Fleet, number: int) -> str:
    return f"{fleet.shape}-{fleet.spec.seed}-{number:06}"


def _table(fleet: Fleet, rows: pl.DataFrame, table: str, more: Mapping[str, pl.Expr]) -> pa.Table:
    """The declared columns of a table; those that a shape does not set are null or empty."""
    if rows.is_empty():
        return pa.Table.from_batches([], TABLES[table])
    numbers = rows[INDEX].unique().to_list()
    ids = pl.col(INDEX).replace_strict(
        numbers, [topology_id(_name(fleet, number)) for number in numbers], return_dtype=pl.Int64
    )
    keyed = rows.with_columns(topology_id=ids, **more)
    schema = TABLES[table]
    columns = []
    for field in schema:
        values = keyed[field.name] if field.name in keyed.columns else pl.Series([None] * len(keyed))
        if pa.types.is_map(field.type):
            columns.append(_one_entry_maps(values, field, fleet.key_of_map(field.name)))
        elif pa.types.is_list(field.type) and not field.nullable and values.dtype != pl.List:
            columns.append(_one_value_lists(values, field))
        elif values.dtype == pl.Null:
            columns.append(pa.nulls(len(values), field.type))
        else:
            columns.append(values.to_arrow().cast(field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def _one_entry_maps(values: pl.Series, field: pa.Field, key: str) -> pa.MapArray:
    entries = values.drop_nulls()
    keys = pa.repeat(key, len(entries))
    items = entries.to_arrow().cast(field.type.item_type)
    return pa.MapArray.from_arrays(_offsets(values), keys, items).cast(field.type)


def _one_value_lists(values: pl.Series, field: pa.Field) -> pa.ListArray:
    items = values.drop_nulls().to_arrow().cast(field.type.value_type)
    return pa.ListArray.from_arrays(_offsets(values), items).cast(field.type)


def _offsets(values: pl.Series) -> pa.Array:
    ends = np.cumsum(values.is_not_null().to_numpy(), dtype=np.int32)
    return pa.Array.from_buffers(
        pa.int32(), len(ends) + 1, [None, pa.py_buffer(np.concatenate([np.zeros(1, np.int32), ends]))]
    )


_VIRTUAL = sorted(map(str, VIRTUAL_KINDS))
_OF_TOPOLOGY = ("name", "parallelism", "max_parallelism", "chaining", "config")


def topology_lines(fleet: Fleet) -> Iterator[str]:
    """The lines of all topologies by number, each one JSON object and a line feed, in pieces of any length.

    Keys that are not set are left out: nulls, empty lists and maps, the name of a virtual transformation, and
    `chaining` where it is on.
    """
    begun = -1
    for start in range(0, fleet.units, fleet.units_of_a_part):
        rows = transformation_rows(fleet, start, start + fleet.units_of_a_part)
        if rows.is_empty():
            continue
        members = rows.select(INDEX, member=json_object(_values(fleet, rows, TRANSFORMATIONS.names[1:])))
        joined = members.group_by(INDEX, maintain_order=True).agg(pl.col("member").str.join(","))
        first, last = int(joined[INDEX][0]), int(joined[INDEX][-1])
        heads = topology_rows(fleet, first, last + 1)
        texts = heads.select(text=json_object(_values(fleet, heads, _OF_TOPOLOGY)))["text"]
        pieces = []
        for head, members_of_it in zip(texts, joined["member"], strict=True):
            if first == begun:
                pieces.append(f",{members_of_it}")
            else:
                end = "" if begun < 0 else "]}\n"
                pieces.append(f'{end}{head[:-1]},"transformations":[{members_of_it}')
            begun, first = first, first + 1
        yield "".join(pieces)
    yield "]}\n"


def _values(fleet: Fleet, rows: pl.DataFrame, names: list[str] | tuple[str, ...]) -> dict[str, pl.Expr]:
    """JSON values of the columns that a shape has set, null if the key is to be left out."""
    return {name: _value(fleet, rows, name) for name in names if name in rows.columns}


def _value(fleet: Fleet, rows: pl.DataFrame, name: str) -> pl.Expr:
    value = pl.col(name)
    text = quoted(value) if rows.schema[name] == pl.String else value.cast(pl.String)
    match name:
        case "inputs":
            listed = in_list(value.cast(pl.List(pl.String)).list.join(","))
            return pl.when(value.list.len() > 0).then(listed)
        case "config" | "managed_memory":
            return pl.concat_str(pl.lit(f'{{"{fleet.key_of_map(name)}":'), text, pl.lit("}"))
        case "slot_scope":
            return in_list(text)
        case "name" if "kind" in rows.columns:
            return pl.when((value != "") | ~pl.col("kind").is_in(_VIRTUAL)).then(text)
        case "chaining" if rows.schema[name] == pl.Boolean:
            return pl.when(~value).then(text)
        case _:
            return text
