"""Plans of both sides of a slice under one key, so that a topology and its older one are joined."""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl

from penstock.engine.diff.side import Plans
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.savepoint.restore_savepoint import Failure
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import ManagedMemoryUseCase

_STATE_BACKEND = pl.col("slot_scope").list.contains(str(ManagedMemoryUseCase.STATE_BACKEND))
_OF_SINKS = pl.col("operator_factory").is_in(["SinkWriterOperatorFactory", "CommitterOperatorFactory"])
HAS_STATE = (
    pl.col("keyed").fill_null(_STATE_BACKEND)
    | pl.col("among_sources")
    | pl.col("read").is_null()
    | _OF_SINKS.fill_null(value=False)
)
"""Keyed operators, sources (their offsets or splits) and sinks (their transactions); `read`: some edge
leaves it."""


class KeyedPlans(NamedTuple):
    """The plans of one side; topology_id is the number of the pair in its slice.

    `refusals`: why topologies of this side were refused. `operators`: one row per operator with its ids and
    uids, its vertex, the vertex's subtasks and effective max parallelism, whether that is derived, and
    whether it `has_state` as far as the topology says.
    """

    tables: Mapping[str, pl.DataFrame]
    refusals: dict[int, Failure]
    operators: pl.DataFrame


def keyed_plans(plans: Plans, ids: pl.Series) -> KeyedPlans:
    """The plans of topologies with these `ids`, null where this side lacks one, by position in `ids`."""
    numbers = pl.DataFrame({TOPOLOGY: ids, "number": pl.int_range(len(ids), eager=True)}).drop_nulls(TOPOLOGY)
    tables = {name: _numbered(frame, numbers) for name, frame in plans.items()}
    planned = tables["topologies"].select(TOPOLOGY)
    rejected = tables["rejected"].join(planned, on=TOPOLOGY, how="anti")
    refusals: dict[int, Failure] = {}
    for number, error, message in rejected.select(TOPOLOGY, "error", "message").iter_rows():
        refusals.setdefault(number, Failure(error, message))
    return KeyedPlans(tables, refusals, _operators(tables))


def _numbered(frame: pl.DataFrame, numbers: pl.DataFrame) -> pl.DataFrame:
    keyed = frame.join(numbers, on=TOPOLOGY, how="inner")
    return keyed.drop(TOPOLOGY).rename({"number": TOPOLOGY})


def _operators(tables: Plans) -> pl.DataFrame:
    vertices = tables["execution_job_vertices"].select(
        TOPOLOGY, "vertex", subtasks="parallelism", effective_max_parallelism="max_parallelism"
    )
    given = tables["job_vertices"].select(
        TOPOLOGY, "vertex", derives_max_parallelism=pl.col("max_parallelism") == NOT_DECIDED
    )
    writers = tables["stream_edges"].select(TOPOLOGY, pl.col("source").alias("id"), read=True).unique()
    nodes = tables["stream_nodes"].join(writers, on=[TOPOLOGY, "id"], how="left").rename({"id": "node"})
    nodes = nodes.with_columns(has_state=HAS_STATE)
    operators = nodes.join(tables["chained_operators"], on=[TOPOLOGY, "node"], how="left")
    operators = operators.join(vertices, on=[TOPOLOGY, "vertex"], how="left")
    return operators.join(given, on=[TOPOLOGY, "vertex"], how="left")
