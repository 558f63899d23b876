"""One side of a comparison: which topologies it has, and their plans when they are asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import polars as pl

from penstock.engine.views.diff.match_operators import IDENTITY_COLUMNS
from penstock.plans.errors import ConfigurationError
from penstock.plans.tables.column_types import TOPOLOGY

PLAN_COLUMNS: dict[str, tuple[str, ...]] = {
    "topologies": (
        *(TOPOLOGY, "name", "fingerprint", "config", "stream_graph_settings"),
        *("parallelism", "max_parallelism", "chaining"),
    ),
    "rejected": (TOPOLOGY, "name", "error", "message"),
    "stream_nodes": (
        *(TOPOLOGY, "id", "name", "parallelism", "uid", "uid_hash"),
        *("among_sources", "keyed", "slot_scope", "operator_factory", "buffer_timeout", "chaining"),
        "slot_sharing_group",
        *IDENTITY_COLUMNS,
    ),
    "stream_edges": (TOPOLOGY, "source", "target", "partitioner"),
    "job_vertices": (
        *(TOPOLOGY, "vertex", "vertex_id", "max_parallelism", "topological_order", "slot_sharing_group"),
    ),
    "chained_operators": (
        *(TOPOLOGY, "vertex", "node", "operator_id", "user_defined_operator_id", "operator_order"),
        "chain_index",
    ),
    "job_edges": (
        *(TOPOLOGY, "source_vertex", "source_node", "target_node", "in_index", "data_set_id"),
        "ship_strategy",
    ),
    "intermediate_data_sets": (TOPOLOGY, "vertex", "data_set_id", "result_partition_type"),
    "execution_job_vertices": (TOPOLOGY, "vertex", "parallelism", "max_parallelism"),
    "execution_edges": (
        *(TOPOLOGY, "first_partition", "last_partition", "first_subpartition", "last_subpartition"),
    ),
    "required_slots": (TOPOLOGY, "slots"),
    "network_buffers": (TOPOLOGY, "vertex", "announced", "required"),
    "managed_memory": (TOPOLOGY, "vertex", "use_case", "bytes"),
}
"""What is read of a plan. A store whose plans end before the slots lacks tables of that layer."""

Plans = Mapping[str, pl.DataFrame]
"""Tables with PLAN_COLUMNS."""


class Side(NamedTuple):
    """The old or the new topologies.

    `topologies`: topology_id, name and fingerprint (null where it was refused), one row per name.
    `operators`: topology_id, about one row per operator. `plans`: of these topologies (topology_id and slice)
    in that many slices, slice by slice, the tables of PLAN_COLUMNS that there are. `planned_as`: sides that
    are equal in it have equal plans where fingerprints are equal. `left_out`: how many refused inputs have no
    readable name, or that of another one.
    """

    label: str
    topologies: pl.LazyFrame
    operators: pl.LazyFrame
    plans: Callable[[pl.DataFrame, int], Iterator[Plans]]
    planned_as: tuple[object, ...]
    left_out: int


def known_topologies(planned: pl.LazyFrame, rejected: pl.LazyFrame) -> pl.LazyFrame:
    """`topologies` of a Side, out of the tables `topologies` and `rejected`; each name once."""
    refused = rejected.select(TOPOLOGY, "name", fingerprint=pl.lit(None, pl.String)).drop_nulls("name")
    chosen = planned.select(TOPOLOGY, "name", "fingerprint")
    only_refused = refused.unique(TOPOLOGY, keep="first").join(chosen, on=TOPOLOGY, how="anti")
    return pl.concat([chosen, only_refused])


def count_left_out(known: pl.LazyFrame, rejected: pl.LazyFrame) -> int:
    """How many refused inputs are not among the known topologies (see known_topologies)."""
    refused, inputs = pl.collect_all(
        [known.select(pl.col("fingerprint").null_count()), rejected.select(pl.len())]
    )
    return int(inputs.item()) - int(refused.item())


def only_topology(sides: Sequence[Side], name: str) -> list[Side]:
    """The sides with that topology alone. Raises ConfigurationError where neither has it."""
    chosen = [side._replace(topologies=side.topologies.filter(pl.col("name") == name)) for side in sides]
    if all(side.topologies.select(pl.len()).collect().item() == 0 for side in chosen):
        raise ConfigurationError(f"neither {sides[0].label} nor {sides[1].label} has a topology {name!r}")
    return chosen
