"""Plans as arrays, the input of the cost model, and its results."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.tables.column_types import TOPOLOGY

Floats = npt.NDArray[np.float64]

NO_VERTEX = -1
"""The vertex of a node that Flink leaves out of the JobGraph, because no source reaches it."""


class Operators(NamedTuple):
    """Columns of the stream nodes of whole topologies, in any order.

    `vertices`: the id of the node that heads its chain, or NO_VERTEX. `tasks`: the subtasks of a head's
    vertex. `levels`: see operator_costs.LEVEL. The others are columns of stream_nodes and operator_costs,
    with NaN for a selectivity that is not given.
    """

    topologies: Ints
    ids: Ints
    vertices: Ints
    parallelism: Ints
    tasks: Ints
    levels: Floats
    selectivity: Floats
    record_bytes: Floats
    cpu_nanoseconds_per_record: Floats
    records_per_second: Floats


class Edges(NamedTuple):
    """Columns of the stream edges of these topologies, in any order.

    `tags`: a number per side output, 0 for the main one. `chained`: within a vertex. `alone`: the first
    subtask reads the whole edge. `reuses`: the job passes objects on in chains without a copy.
    """

    topologies: Ints
    sources: Ints
    targets: Ints
    in_indexes: Ints
    tags: Ints
    broadcast: Flags
    chained: Flags
    forward: Flags
    alone: Flags
    reuses: Flags


class Vertices(NamedTuple):
    """One row per vertex, by topology and id. `records_per_second`: into its head."""

    topologies: Ints
    vertices: Ints
    records_per_second: Floats
    cpu_load: Floats
    utilisation: Floats
    needed_parallelism: Ints


class Plans(NamedTuple):
    """One row per topology, with columns of plan_metrics; `bottleneck` is a vertex, the first of several.

    `sustained_records_per_second` is infinite if a source costs nothing.
    """

    topologies: Ints
    operators: Ints
    critical_path: Ints
    exchanged_bytes_per_second: Floats
    shuffled_bytes_per_second: Floats
    remote_bytes_per_second: Floats
    cpu_load: Floats
    exchange_cpu_load: Floats
    utilisation: Floats
    slot_utilisation: Floats
    network_utilisation: Floats
    bottleneck: Ints
    source_records_per_second: Floats
    delivered_records_per_second: Floats
    sustained_records_per_second: Floats
    needed_tasks: Ints


class SteadyState(NamedTuple):
    """`along`: records/s on each of the given edges, as its producer emits them."""

    along: Floats
    vertices: Vertices
    plans: Plans


Columns = Callable[[str], npt.NDArray[Any]]
"""Column name to values."""

_OPERATORS = {"topologies": TOPOLOGY, "ids": "id", "vertices": "vertex", "levels": "level"}
_EDGES = {
    "topologies": TOPOLOGY,
    "sources": "source",
    "targets": "target",
    "in_indexes": "in_index",
    "tags": "tag",
}
_WHOLE = ("topologies", "ids", "vertices", "parallelism", "tasks")


def operators_of(column: Columns) -> Operators:
    """Build Operators from columns topology_id, id, vertex, parallelism, tasks, level and operator_costs'
    columns.
    """
    kinds: dict[str, Any] = {name: np.int64 if name in _WHOLE else np.float64 for name in Operators._fields}
    return Operators(
        **{name: column(_OPERATORS.get(name, name)).astype(kind) for name, kind in kinds.items()}
    )


def edges_of(column: Columns) -> Edges:
    """Build Edges from columns topology_id, source, target, in_index, tag, broadcast, chained, forward,
    alone, reuses.
    """
    kinds: dict[str, Any] = {name: np.int64 if name in _EDGES else np.bool_ for name in Edges._fields}
    return Edges(**{name: column(_EDGES.get(name, name)).astype(kind) for name, kind in kinds.items()})


class Slots(NamedTuple):
    """Slots with the same vertices, merged into one kind, because they have the same limits.

    `topologies`: per kind of slot. A member is a vertex in a kind of slot; `members` number the kinds,
    `first` flags the members that include the vertex' first subtask. `signatures`: a number per vertex, equal
    for vertices whose subtasks of the same number are in the same slot. `counts`: slots per topology.
    """

    topologies: Ints
    kinds: Ints
    vertices: Ints
    first: Flags
    signed_topologies: Ints
    signed_vertices: Ints
    signatures: Ints
    counted_topologies: Ints
    counts: Ints


_HASHES = 2**40
"""Bound of hashes, so that sums over the tasks of a slot or a vertex do not overflow."""


def kinds_of_slots(tasks: pl.DataFrame, with_first: Ints) -> Slots:
    """Build Slots from topology_id, vertex, subtask and execution_slot_sharing_group of tasks, in any order.

    `with_first`: topologies whose first subtasks may have more to do than others.
    """
    slot = "execution_slot_sharing_group"
    first = (pl.col("subtask") == 0) & pl.col(TOPOLOGY).is_in(pl.Series(with_first).unique().implode())
    hashed = tasks.select(
        TOPOLOGY,
        "vertex",
        slot,
        first=first,
        member=pl.struct("vertex", first=first).hash(1) % _HASHES,
        place=pl.struct("subtask", slot).hash(2) % _HASHES,
    )
    signatures = hashed.group_by(TOPOLOGY, "vertex").agg(pl.col("place").cast(pl.Int64).sum())
    slots = hashed.group_by(TOPOLOGY, slot).agg(
        pl.col("member").cast(pl.Int64).sum(), tasks=pl.len(), lowest=pl.col("vertex").min()
    )
    alike = [TOPOLOGY, "member", "tasks", "lowest"]
    chosen = slots.group_by(alike).agg(pl.col(slot).min()).select(TOPOLOGY, slot)
    members = hashed.join(chosen, on=[TOPOLOGY, slot], how="semi").sort(TOPOLOGY, slot, "vertex")
    keys = members.select(pl.struct(TOPOLOGY, slot).rle_id().cast(pl.Int64).alias("kind"), TOPOLOGY)
    counted = slots.group_by(TOPOLOGY).len().sort(TOPOLOGY)

    def column(frame: pl.DataFrame, name: str) -> Ints:
        return frame[name].to_numpy().astype(np.int64)

    return Slots(
        topologies=column(keys.unique("kind", keep="first", maintain_order=True), TOPOLOGY),
        kinds=column(keys, "kind"),
        vertices=column(members, "vertex"),
        first=members["first"].to_numpy().astype(np.bool_),
        signed_topologies=column(signatures, TOPOLOGY),
        signed_vertices=column(signatures, "vertex"),
        signatures=column(signatures, "place"),
        counted_topologies=column(counted, TOPOLOGY),
        counts=column(counted, "len"),
    )
