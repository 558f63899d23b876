"""Every table that the passes derive of topologies, final or not."""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.layers import PlanOptions
from penstock.plans.planners.plan_as_read import read_topologies
from penstock.plans.planners.run_passes import implementations, inputs_of, steps
from penstock.plans.tables.column_types import TOPOLOGY
from tests.plans.planners.table_contents import with_dicts

Derived = Callable[[str, PlanOptions, str], list[dict[str, Any]]]
"""(table, how the cluster is configured, name of a topology) to its rows."""

_BESIDE = {
    "inherited_groups": ("expanded_transformations", "id", "id"),
    "walked": ("stream_nodes", "id", "node"),
    "sorted_vertices": ("vertices", "vertex", "vertex"),
}
"""Tables without keys: the table whose rows they follow, its key, and the key's name here."""

_IDS_IN_HALVES = {
    "walked": "operator_id",
    "operators": "operator_id",
    "typed_edges": "data_set_id",
    "shared_edges": "data_set_id",
}
_PLACES = "preorder"
"""A column of which only the order counts."""


def derived_in_process(topologies: Iterable[Mapping[str, Any]]) -> Derived:
    """By the columnar planner's steps."""
    given = read_topologies(list(topologies))._asdict()
    assert given.pop("rejected").is_empty()
    assert given.pop("inputs") == len(given["topologies"])
    given |= {f"given_{name}": given.pop(name) for name in ("stream_nodes", "stream_edges")}
    tables: dict[str, pl.DataFrame] = given
    for name, derive in steps(PlanOptions()):
        tables[name] = derive(**{read: tables[read] for read in inputs_of(derive)})

    @cache
    def table(name: str, choices: PlanOptions) -> pa.Table:
        frame = tables[name]
        if choices != PlanOptions():
            derive = implementations(choices)[name]
            frame = derive(**{read: tables[read] for read in inputs_of(derive)})
        if name in _BESIDE:
            beside, key, known_as = _BESIDE[name]
            keys = tables[beside].select(TOPOLOGY, pl.col(key).alias(known_as))
            at = frame["row"] if "row" in frame.columns else pl.int_range(len(frame), eager=True)
            frame = frame.select(pl.exclude(TOPOLOGY, known_as)).hstack(keys[at])
        return frame.to_arrow()

    return _by_name(table)


def _by_name(table: Callable[[str, PlanOptions], pa.Table]) -> Derived:
    topologies = table("topologies", PlanOptions())
    ids = dict(zip(*(topologies[column].to_pylist() for column in ("name", TOPOLOGY)), strict=True))

    def rows(name: str, choices: PlanOptions, topology: str) -> list[dict[str, Any]]:
        found = table(name, choices).filter(pc.field(TOPOLOGY) == ids[topology])
        plain = [
            {field.name: with_dicts(row[field.name], field.type) for field in found.schema}
            for row in found.to_pylist()
        ]
        return _comparable(name, plain)

    return rows


def _comparable(name: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with ids as a whole, and places from 0."""
    places = sorted(row[_PLACES] for row in rows if _PLACES in row)
    for row in rows:
        if "id_lower" in row and name in _IDS_IN_HALVES:
            halves = (row[half] % 2**64 for half in ("id_lower", "id_upper"))
            row[_IDS_IN_HALVES[name]] = "".join(f"{half:016x}" for half in halves)
        if _PLACES in row:
            row[_PLACES] = places.index(row[_PLACES])
    return rows
