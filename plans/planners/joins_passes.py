"""The passes as joins and windows on Spark, each with how the runner keeps its rows."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import pairwise
from operator import itemgetter

import numpy as np
import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame

from penstock.plans.execution_graph.columnar.create_intermediate_results import (
    execution_edges,
    execution_vertices,
    intermediate_result_partitions,
    intermediate_results,
)
from penstock.plans.execution_graph.joins.find_pipelined_regions import (
    create_execution_job_vertices,
    find_pipelined_regions,
)
from penstock.plans.execution_graph.joins.job_graph_arrays import place_job_edges
from penstock.plans.execution_graph.joins.refuse_execution_graphs import refuse_execution_graphs
from penstock.plans.frames.packed_blocks import Batches, PackedTables
from penstock.plans.frames.polars_frames import from_arrow, to_arrow
from penstock.plans.frames.spark_schemas import conform, spark_schema
from penstock.plans.job_graph.joins.choose_result_partition_types import (
    choose_result_partition_types,
    reuse_data_sets,
)
from penstock.plans.job_graph.joins.create_vertices import (
    assign_operators_to_vertices,
    connect_vertices,
    create_data_sets,
    create_vertices,
    find_forward_groups,
    set_dynamic_parallelism,
)
from penstock.plans.job_graph.joins.mark_chainable_edges import (
    find_chain_heads,
    mark_chainable_edges,
    mark_local_reasons,
    walk_stream_graph,
)
from penstock.plans.job_graph.joins.number_slot_sharing_groups import (
    co_location_groups,
    number_co_location_groups,
    number_slot_sharing_groups,
    set_managed_memory_fractions,
    slot_sharing_groups,
    sort_vertices_topologically,
)
from penstock.plans.job_graph.joins.refuse_job_graphs import refuse_job_graphs
from penstock.plans.layers import Choices
from penstock.plans.passes import in_order, produced_by_layer
from penstock.plans.resources.columnar import count_network_buffers
from penstock.plans.resources.joins import size_managed_memory
from penstock.plans.slots.columnar import slots_of_tasks
from penstock.plans.slots.joins import grouped_slots, required_slots, share_slots
from penstock.plans.slots.strategies import STRATEGIES
from penstock.plans.stream_graph.joins import resolve_virtual_nodes as expand_virtual_nodes
from penstock.plans.stream_graph.joins.expand_sinks import expand_sinks
from penstock.plans.stream_graph.joins.refuse_stream_graphs import refuse_stream_graphs
from penstock.plans.stream_graph.joins.resolve_virtual_nodes import resolve_virtual_nodes
from penstock.plans.stream_graph.joins.translate_transformations import (
    choose_partitioners,
    inherit_slot_sharing_groups,
    translate_nodes,
)
from penstock.plans.vocabulary import Layer

# Tables with several rows for each row of another: Python workers make them, by columns.


ROWS_AT_A_TIME = 262_144
"""About how many rows are made at a time: one row may stand for some 30,000."""

BYTES_AT_A_TIME = 2**26
"""About how much is read for that at a time: a row may hold a list of as many numbers."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """How rows of `table` are derived from those of another one: `expand` gets some of these at a time, and
    `rows_of_each` estimates how many rows each one becomes."""

    table: str
    expand: Callable[[pl.DataFrame], pl.DataFrame]
    rows_of_each: Callable[[pl.DataFrame], pl.Series]


def expand_in_workers(rows: DataFrame, expansion: Expansion) -> DataFrame:
    """The declared table that `expansion` makes of `rows`; nothing is exchanged."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for table in _expanded_rows(batch, expansion):
                yield from table.to_batches()

    return conform(rows.mapInArrow(run, spark_schema(expansion.table)), expansion.table)


def packed_expansions(rows: DataFrame, expansions: Iterable[Expansion]) -> PackedTables:
    """All `expansions` of the same rows, which are read once for all of them."""
    by_table = {expansion.table: expansion for expansion in expansions}
    return PackedTables(rows, frozenset(by_table), _parts(by_table))


def _parts(
    expansions: Mapping[str, Expansion],
) -> Callable[[Batches, Collection[str]], Iterator[tuple[str, pa.Table]]]:
    def parts(batches: Batches, tables: Collection[str]) -> Iterator[tuple[str, pa.Table]]:
        for rows in _together(batches):
            for table, expansion in expansions.items():
                if table in tables:
                    for part in _expanded_rows(rows, expansion):
                        yield table, part

    return parts


def _together(batches: Batches) -> Iterator[pa.Table]:
    """Tables of at least ROWS_AT_A_TIME rows or BYTES_AT_A_TIME, except the last."""
    kept: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        kept.append(batch)
        rows, size = rows + len(batch), size + batch.nbytes
        if rows >= ROWS_AT_A_TIME or size >= BYTES_AT_A_TIME:
            yield pa.Table.from_batches(kept)
            kept, rows, size = [], 0, 0
    if rows:
        yield pa.Table.from_batches(kept)


def _expanded_rows(rows: pa.Table | pa.RecordBatch, expansion: Expansion) -> Iterator[pa.Table]:
    # A worker is one of several on its machine. polars reads this before it uses threads for the first time.
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    frame = from_arrow(rows)
    ends = np.cumsum(expansion.rows_of_each(frame).to_numpy().astype(np.int64))
    starts = np.flatnonzero(np.diff((ends - 1) // ROWS_AT_A_TIME, prepend=-1))
    for start, end in pairwise([*starts.tolist(), len(frame)]):
        yield to_arrow(expansion.expand(frame.slice(start, end - start)), expansion.table)


@dataclass(frozen=True, slots=True)
class JoinStep:
    """An implementation: `derive` makes one table of the tables that its positional parameters name."""

    derive: Callable[..., DataFrame]

    @property
    def reads(self) -> list[str]:
        """The parameters that name tables; keyword-only ones are choices and bound already."""
        parameters = signature(self.derive).parameters.values()
        return [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]


class Checkpointed(JoinStep):
    """A step that several read: its rows are computed once and kept."""


class View(JoinStep):
    """A step without a Spark job of its own: it becomes part of the step that reads it, or of the writing."""


@dataclass(frozen=True, slots=True)
class Expanded(View):
    """A view with several rows for each row of the table `source`, which Python workers make.

    What stores it makes them itself. The function is that of the columnar planner.
    """

    source: str
    expansion: Expansion

    @property
    def reads(self) -> list[str]:
        """The table that it reads."""
        return [self.source]


class Walk(JoinStep):
    """A step whose rows come out of a walk in Python: they have to be partitioned by topology again."""


@dataclass(frozen=True, slots=True)
class FixedPoint(JoinStep):
    """`derive` gives the rows to start from; `step` is repeated until no row is `open`."""

    step: Callable[[DataFrame], DataFrame]


@dataclass(frozen=True, slots=True)
class HandOver:
    """No pass: `tables` (name in plans.tables.TABLES to the table of passes) go to what stores them, unless
    one of the tables `refusals` has rows."""

    tables: Mapping[str, str]
    refusals: tuple[str, ...]

    @property
    def reads(self) -> list[str]:
        """The tables of passes that it needs."""
        return [*self.tables.values(), *self.refusals]


def _expanded(
    table: str,
    source: str,
    expand: Callable[[pl.DataFrame], pl.DataFrame],
    rows_of_each: Callable[[pl.DataFrame], pl.Series],
) -> Expanded:
    expansion = Expansion(table, expand, rows_of_each)
    return Expanded(lambda **tables: expand_in_workers(tables[source], expansion), source, expansion)


def _lengths_of(lists: str) -> Callable[[pl.DataFrame], pl.Series]:
    return lambda rows: rows[lists].list.len()


OF_ITS_OWN: dict[str, tuple[str, JoinStep]] = {
    "virtual_expansions": (
        "resolved_inputs",
        FixedPoint(expand_virtual_nodes.start, expand_virtual_nodes.step),
    ),
    "placed_edges": ("intermediate_results", View(place_job_edges)),
    "grouped_slots": ("execution_slot_sharing_groups", View(grouped_slots)),
}
"""Tables that only this planner keeps: name to the pass before which it is made, and how."""


def produced() -> dict[Layer, tuple[str, ...]]:
    """Layer to the tables that this planner derives in it."""
    return produced_by_layer((name, before) for name, (before, _) in OF_ITS_OWN.items())


def implementations(choices: Choices) -> dict[str, JoinStep]:
    """The table that a pass produces to how it is produced here."""
    return {**_ALWAYS, **_slots(choices)}


def steps(choices: Choices, until: Layer) -> list[tuple[str, JoinStep]]:
    """(table, step) of all layers up to `until`, in the order of plans.passes.PASSES."""
    return in_order(implementations(choices), OF_ITS_OWN, until)


_ALWAYS: dict[str, JoinStep] = {
    "expanded_transformations": Checkpointed(expand_sinks),
    "resolved_inputs": Checkpointed(resolve_virtual_nodes),
    "inherited_groups": Walk(inherit_slot_sharing_groups),
    "stream_nodes": Checkpointed(translate_nodes),
    "edges_with_ends": View(choose_partitioners),
    "marked_edges": Checkpointed(mark_local_reasons),
    "chain_heads": Walk(find_chain_heads),
    "stream_edges": Checkpointed(mark_chainable_edges),
    "stream_graph_refusals": Checkpointed(refuse_stream_graphs),
    "walked": Walk(walk_stream_graph),
    "operators": Checkpointed(assign_operators_to_vertices),
    "chain_vertices": Checkpointed(create_vertices),
    "typed_edges": Checkpointed(choose_result_partition_types),
    "forward_groups": Walk(find_forward_groups),
    "vertices": Checkpointed(set_dynamic_parallelism),
    "shared_edges": View(reuse_data_sets),
    "connected_edges": Checkpointed(connect_vertices),
    "sorted_vertices": Walk(sort_vertices_topologically),
    "grouped_vertices": Checkpointed(number_slot_sharing_groups),
    "job_vertices": Checkpointed(number_co_location_groups),
    "chained_operators": Checkpointed(set_managed_memory_fractions),
    "intermediate_data_sets": View(create_data_sets),
    "slot_sharing_groups": View(slot_sharing_groups),
    "co_location_groups": View(co_location_groups),
    "job_graph_refusals": Checkpointed(refuse_job_graphs),
    "execution_job_vertices": Checkpointed(create_execution_job_vertices),
    "task_regions": Walk(find_pipelined_regions),
    "execution_vertices": _expanded(
        "execution_vertices", "task_regions", execution_vertices, _lengths_of("regions")
    ),
    "intermediate_results": _expanded(
        "intermediate_results", "placed_edges", intermediate_results, itemgetter("producers")
    ),
    "intermediate_result_partitions": _expanded(
        "intermediate_result_partitions",
        "placed_edges",
        intermediate_result_partitions,
        itemgetter("producers"),
    ),
    "execution_edges": _expanded("execution_edges", "placed_edges", execution_edges, itemgetter("consumers")),
    "execution_graph_refusals": Checkpointed(refuse_execution_graphs),
}


def _slots(choices: Choices) -> dict[str, JoinStep]:
    return {
        "task_slots": Walk(partial(share_slots, strategy=STRATEGIES[choices.slot_sharing_strategy])),
        "execution_slot_sharing_groups": _expanded(
            "execution_slot_sharing_groups", "grouped_slots", slots_of_tasks, _lengths_of("slots")
        ),
        "required_slots": View(required_slots),
        "network_buffers": _expanded(
            "network_buffers",
            "placed_edges",
            partial(count_network_buffers, options=choices.network),
            lambda edges: edges["consumer_index"] * 0 + 2,
        ),
        "managed_memory": View(partial(size_managed_memory, task_manager=choices.task_manager)),
    }
