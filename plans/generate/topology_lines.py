"""Topology lines (docs/topology-files.md) of a fleet, in pieces: a topology may be larger than memory."""

from collections.abc import Iterator

import polars as pl

from plans.generate.fleet import INDEX, Fleet
from plans.generate.rows import topology_rows, transformation_rows
from plans.plan_json.columnar.json_text import in_list, json_object, quoted
from plans.tables import TRANSFORMATIONS
from plans.vocabulary import VIRTUAL_KINDS

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
    """JSON values of the columns that a shape has set, null where the key is to be left out."""
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
