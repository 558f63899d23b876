"""All columnar passes in order, over whole topologies at once."""

from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
import polars as pl
import pyarrow as pa

from penstock.plans.errors import NotEnoughMemoryError
from penstock.plans.execution_graph.columnar.job_graph_arrays import TaskRows, count_task_rows
from penstock.plans.execution_graph.columnar.name_most_tasks import name_most_tasks
from penstock.plans.frames.polars_frames import arrow_parts, to_arrow
from penstock.plans.frames.polars_refusals import (
    first_refused,
    reject_refused,
    rows_to_keep,
    without_topologies,
)
from penstock.plans.layers import LAYER_TABLES, Choices, layers_until
from penstock.plans.planners.columnar_passes import inputs_of, steps
from penstock.plans.stream_graph.columnar.limit_expansion import limit_expansion
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import Layer

Tables = dict[str, pl.DataFrame]


TO_ARROW, WITHOUT_REFUSED = "to_arrow", "without_refused"
"""Stages that are no steps."""


_NOBODY = np.zeros(0, np.int64)
_LAST_BEFORE_TASKS = "placed_edges"


def stages(until: Layer) -> int:
    """The number of stages that a run until that layer reports."""
    return len(steps(Choices(), until)) + 2


class Finished(Protocol):
    """Receives the tables of a plan as soon as no step needs them."""

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        """Take the rows of a table, in parts; no table comes twice."""

    def clear(self) -> None:
        """Drop the rows of all tables that have come: Flink refuses the topology."""


class InMemory:
    """Keeps finished tables in memory."""

    def __init__(self) -> None:
        self.tables: dict[str, pa.Table] = {}

    def add(self, table: str, parts: Iterable[pa.Table]) -> None:
        self.tables[table] = pa.concat_tables(parts)

    def clear(self) -> None:
        self.tables = {table: rows.slice(0, 0) for table, rows in self.tables.items()}


def plan_columnar(
    topology_tables: dict[str, pl.DataFrame],
    until: Layer,
    choices: Choices,
    report: Callable[[str], None] = lambda stage: None,
    before_tasks: Callable[[TaskRows], None] = lambda rows: None,
) -> dict[str, pa.Table]:
    """The plan's tables (as in plans.tables.TABLES) of whole topologies, without those that Flink refuses.

    As plan_into.
    """
    finished = InMemory()
    plan_into(finished, topology_tables, until, choices, report, before_tasks)
    return finished.tables


def plan_into(
    finished: Finished,
    topology_tables: dict[str, pl.DataFrame],
    until: Layer,
    choices: Choices,
    report: Callable[[str], None],
    before_tasks: Callable[[TaskRows], None],
) -> None:
    """Hand the plan's tables (as in plans.tables.TABLES) of whole topologies over to `finished`.

    In: `topology_tables`, with topologies, transformations, job_settings, rejected, and stream_nodes and
    stream_edges of topologies that came as stream graphs; it is emptied. Out: the tables of all layers up to
    `until`, and `rejected`, without topologies that have too many edges (see limit_expansion) or that Flink
    refuses. Those leave all tables once every refusal is known; from then on, a table is handed over and
    dropped as soon as no step needs it. A single topology may be huge, so its tables are handed over that
    way from the start. `report` is called when a step, TO_ARROW or WITHOUT_REFUSED begins, `before_tasks`
    with the number of task rows to come; an error that it raises ends planning.
    """
    tables: Tables = {
        **limit_expansion(topology_tables),
        "given_stream_nodes": topology_tables["stream_nodes"],
        "given_stream_edges": topology_tables["stream_edges"],
    }
    topology_tables.clear()
    rejected = tables.pop("rejected")
    alone = len(tables["topologies"]) == 1
    layers = layers_until(until)
    todo = steps(choices, until)
    wanted = {source: table for layer in layers for table, source in LAYER_TABLES[layer].items()}
    refusing = [f"{layer}_refusals" for layer in layers]
    all_known_at = max((place for place, (name, _) in enumerate(todo) if name in refusing), default=-1)
    done_at = {name: place for place, (name, _) in enumerate(todo)}
    done_at |= {name: place for place, (_, derive) in enumerate(todo) for name in inputs_of(derive)}
    done_at |= dict.fromkeys([*refusing, "topologies"], all_known_at)
    done_at["job_settings"] = max(done_at.get("job_settings", all_known_at), all_known_at)

    def finish(place: int) -> None:
        nonlocal rejected
        done = {name for name in tables if done_at.get(name, -1) <= place}
        refused = _NOBODY
        if place == all_known_at and todo:
            report(WITHOUT_REFUSED)
            first = first_refused([tables[name] for name in refusing if name in tables])
            rejected = pl.concat(
                [rejected, reject_refused(first, tables["topologies"], tables["job_settings"])]
            )
            refused = np.sort(first[TOPOLOGY].to_numpy())
            if len(refused):
                finished.clear()
        elif not alone and place < all_known_at:
            done -= wanted.keys()
        # Table by table, so that each gets the memory of what was taken out of the one before.
        for name in [*tables]:
            if name not in done and len(refused):
                report(WITHOUT_REFUSED)
                tables[name] = without_topologies(tables[name], refused)
            if name in done and name in wanted:
                report(TO_ARROW)
                kept = rows_to_keep(tables[name], refused)
                finished.add(wanted[name], arrow_parts(tables[name], wanted[name], kept))
            if name in done:
                del tables[name]

    finish(-1)
    for place, (produced, derive) in enumerate(todo):
        report(produced)
        tables[produced] = derive(**{name: tables[name] for name in inputs_of(derive)})
        if produced == _LAST_BEFORE_TASKS:
            try:
                before_tasks(count_task_rows(tables["ordered_vertices"], tables[_LAST_BEFORE_TASKS]))
            except NotEnoughMemoryError as error:
                raise NotEnoughMemoryError(
                    f"{error.message}; {name_most_tasks(tables)}", error.hint
                ) from None
        finish(place)
    finished.add("rejected", [to_arrow(rejected, "rejected")])
