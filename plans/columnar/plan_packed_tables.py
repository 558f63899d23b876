"""The columnar planner inside Spark's Python workers, for one part of the topologies per call."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from plans.choices import Choices
from plans.columnar.packed_tables import Batches, packed_rows
from plans.tables import TABLES
from plans.vocabulary import Layer

if TYPE_CHECKING:
    import polars as pl

    from plans.columnar.plan_in_parts import InParts
    from plans.execution_graph.columnar.count_task_rows import TaskRows
    from plans.topology.columnar.topology_tables import TopologyTables

STAGE_SECONDS = "stage_seconds"
"""A table in addition to the plan's: (stage, seconds) of each part."""

ORPHANS = "orphans"
"""Another one: (orphans), how many topologies of a part have transformations but no row in topologies."""

Read = Callable[[Mapping[str, pa.Table]], "TopologyTables"]
"""Rows of a part by table to the tables of the topology layer; tables without rows are not there."""


PlanPart = Callable[[dict[str, "pl.DataFrame"]], "InParts"]
"""From the tables of the topology layer, which are emptied, to those of the plan."""


def plan_packed_tables(read: Read, plan: PlanPart) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """For `mapInArrow` over PACKED rows of what `read` takes; gives PACKED rows of the plan, of STAGE_SECONDS
    and of ORPHANS.

    The rows of a topology are all in one partition, which `plan` gets as a whole; `rejected` has what `read`
    and `plan` refuse.
    """

    def planned(batches: Batches) -> Iterator[pa.RecordBatch]:
        # A worker is one of several on its machine. polars reads this when it is imported for the first time.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
        blocks: dict[str, list[pa.RecordBatch]] = {}
        part = None
        for batch in batches:
            for row in range(len(batch)):
                part = batch["part"][row].as_py()
                stream = pa.ipc.open_stream(batch["block"][row].as_buffer())
                blocks.setdefault(batch["table"][row].as_py(), []).extend(stream)
        if part is None:
            return
        started = time.monotonic()
        rows = {name: pa.Table.from_batches(of_table) for name, of_table in blocks.items()}
        del blocks
        given = read(rows)._asdict()
        orphans = given.pop("inputs") - (len(rows["topologies"]) if "topologies" in rows else 0)
        del rows
        seconds = {"read_and_validate": time.monotonic() - started}
        result = plan(given)
        seconds |= result.seconds
        stages = {"stage": list(seconds), "seconds": list(seconds.values())}
        yield from packed_rows(part, STAGE_SECONDS, pa.table(stages))
        yield from packed_rows(part, ORPHANS, pa.table({ORPHANS: [orphans]}))
        for name in list(result.tables):
            yield from packed_rows(part, name, result.tables.pop(name))

    return planned


def planned_by_flinks_rules(
    until: Layer, choices: Choices, before_tasks: "Callable[[TaskRows], None]"
) -> PlanPart:
    """plan_in_parts, which workers import when they need it."""

    def plan(given: dict[str, "pl.DataFrame"]) -> "InParts":
        from plans.columnar.plan_in_parts import plan_in_parts

        return plan_in_parts(given, until, choices, before_tasks=before_tasks)

    return plan


def validated_tables(rows: Mapping[str, pa.Table]) -> "TopologyTables":
    """Tables of the topology layer that have been validated."""
    from plans.columnar.frames import empty, from_arrow
    from plans.topology.columnar.topology_tables import TopologyTables

    tables = {
        name: from_arrow(rows[name]) if name in rows else empty(name)
        for name in TopologyTables._fields
        if name != "inputs"
    }
    return TopologyTables(**tables, inputs=len(tables["topologies"]))


def validate_tables(rows: Mapping[str, pa.Table]) -> "TopologyTables":
    """The valid topologies of the tables `topologies` and `transformations`. As read_topology_tables."""
    from plans.topology.columnar.read_topology_tables import read_topology_tables

    names = ("topologies", "transformations")
    return read_topology_tables(*(rows.get(name, TABLES[name].empty_table()) for name in names))
