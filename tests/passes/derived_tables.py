"""Every table that a planner derives of topologies, final or not, in the columns that both planners know."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from plans.choices import Choices
from plans.columnar import passes as columnar
from plans.columnar.frames import from_arrow
from plans.columnar.read_topologies import read_topologies
from plans.joins import passes as joins
from plans.joins.run_passes import _Run
from plans.passes import PASSES
from plans.tables.column_types import TOPOLOGY
from plans.topology.joins.read_topology_objects import read_topology_objects
from plans.vocabulary import Layer
from tests.columnar.table_contents import with_dicts

Rows = list[dict[str, Any]]
Derived = Callable[[str, Choices], dict[str, Rows]]
"""(table, how the cluster is configured) to the rows of each topology, by its name."""

_BESIDE = {
    "inherited_groups": ("transformations", "id", "id"),
    "walked": ("stream_nodes", "id", "node"),
    "sorted_vertices": ("vertices", "vertex", "vertex"),
}
"""Tables without keys of the columnar planner: the table that their rows stand beside, its key, and its name here."""

_HALVES = {"walked": "operator_id", "operators": "operator_id", "typed_edges": "data_set_id"}
_HALVES["shared_edges"] = "data_set_id"
"""Tables with an id in halves, and its name as a whole."""

_RANKS = {"preorder", "precedence"}


def derived_in_process(topologies: Iterable[Mapping[str, Any]]) -> Derived:
    """By the columnar planner's steps."""
    given = read_topologies(list(topologies))._asdict()
    assert given.pop("rejected").is_empty()
    assert given.pop("inputs") == len(given["topologies"])
    given |= {f"given_{name}": given.pop(name) for name in ("stream_nodes", "stream_edges")}
    tables: dict[str, pl.DataFrame] = given

    def derive(step: Callable[..., pl.DataFrame]) -> pl.DataFrame:
        return step(**{name: tables[name] for name in columnar.inputs_of(step)})

    for name, step in columnar.steps(Choices(), Layer.SLOTS):
        tables[name] = derive(step)
    names = dict(tables["topologies"].select(TOPOLOGY, "name").iter_rows())

    def rows(table: str, choices: Choices) -> dict[str, Rows]:
        chosen = dict(columnar.steps(choices, Layer.SLOTS)).get(table)
        frame = tables[table] if choices == Choices() or chosen is None else derive(chosen)
        if table in _BESIDE:
            beside, key, name = _BESIDE[table]
            keys = tables[beside].select(TOPOLOGY, pl.col(key).alias(name))
            at = frame["row"] if "row" in frame.columns else pl.int_range(len(frame), eager=True)
            frame = frame.select(pl.exclude(TOPOLOGY, name)).hstack(keys[at])
        return _by_topology(table, frame.to_arrow(), names)

    return rows


def derived_on_spark(spark: SparkSession, topologies: Iterable[Mapping[str, Any]]) -> Derived:
    """By the steps of joins, all of them in one run."""
    run = _Run(2, lambda stage: None)
    run.read(read_topology_objects(spark, topologies))
    for name, step in joins.steps(Choices(), Layer.SLOTS):
        run.run(name, step)
    names = {row[TOPOLOGY]: row["name"] for row in run.tables["topologies"].collect()}

    def rows(table: str, choices: Choices) -> dict[str, Rows]:
        frame = run.tables[table]
        if choices != Choices() and table in dict(joins.steps(choices, Layer.SLOTS)):
            run.run(table, dict(joins.steps(choices, Layer.SLOTS))[table])
            frame, run.tables[table] = run.tables[table], frame
        if table == "walked":
            frame = frame.filter("node IS NOT NULL AND out_index IS NULL")
        return _by_topology(table, frame.toArrow(), names)

    return rows


def _by_topology(table: str, rows: pa.Table, names: Mapping[int, str]) -> dict[str, Rows]:
    found: dict[str, Rows] = {name: [] for name in names.values()}
    for row in rows.to_pylist():
        plain = {field.name: with_dicts(row[field.name], field.type) for field in rows.schema}
        if table in _HALVES and "id_lower" in plain:
            halves = (plain[half] % 2**64 for half in ("id_lower", "id_upper"))
            plain[_HALVES[table]] = "".join(f"{half:016x}" for half in halves)
        found[names[plain[TOPOLOGY]]].append(plain)
    for of_topology in found.values():
        for column in _RANKS & set(of_topology[0] if of_topology else ()):
            places = {value: place for place, value in enumerate(sorted(row[column] for row in of_topology))}
            for row in of_topology:
                row[column] = places[row[column]]
    return found
