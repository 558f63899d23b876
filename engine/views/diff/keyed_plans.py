"""Plans of both sides of a slice under one key, so that a topology and its older one are joined."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import orjson
import polars as pl

from penstock.engine.views.diff.match_operators import with_identity
from penstock.engine.views.diff.side import PLAN_COLUMNS, Plans
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.savepoint.restore_savepoint import Failure
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.fingerprint import CAPTURE_NOTES
from penstock.plans.vocabulary import ManagedMemoryUseCase

_STATE_BACKEND = pl.col("slot_scope").list.contains(str(ManagedMemoryUseCase.STATE_BACKEND))
_OF_SINKS = pl.col("operator_factory").is_in(["SinkWriterOperatorFactory", "CommitterOperatorFactory"])
_IS_KEYED = pl.col("keyed").fill_null(_STATE_BACKEND)
HAS_STATE = _IS_KEYED | pl.col("among_sources") | pl.col("read").is_null() | _OF_SINKS.fill_null(value=False)
"""Keyed operators, sources (their offsets or splits) and sinks (their transactions); `read`: some edge
leaves it."""


_HEADER = ("config", "stream_graph_settings", "parallelism", "max_parallelism", "chaining")
_COUNTED = ("id", "name", "description")


class KeyedPlans(NamedTuple):
    """The plans of one side; topology_id is the number of the pair in its slice.

    `refusals`: why topologies of this side were refused. `operators`: one row per operator with its ids and
    uids, its vertex, the vertex's subtasks and effective max parallelism, whether that is derived, and
    whether it `has_state` by what the topology says, and what with_identity adds.
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
    limits = tables["job_vertices"].select(
        TOPOLOGY, "vertex", derives_max_parallelism=pl.col("max_parallelism") == NOT_DECIDED
    )
    writers = tables["stream_edges"].select(TOPOLOGY, pl.col("source").alias("id"), read=True).unique()
    nodes = tables["stream_nodes"].join(writers, on=[TOPOLOGY, "id"], how="left").rename({"id": "node"})
    nodes = with_identity(nodes.with_columns(has_state=HAS_STATE), _IS_KEYED)
    operators = nodes.join(tables["chained_operators"], on=[TOPOLOGY, "node"], how="left")
    operators = operators.join(vertices, on=[TOPOLOGY, "vertex"], how="left")
    return operators.join(limits, on=[TOPOLOGY, "vertex"], how="left")


def equal_but_for_numbers(old: KeyedPlans, new: KeyedPlans) -> set[int]:
    """Topologies whose fingerprints are equal, or differ by numbers that the Table planner counts alone.

    These are in names, descriptions and ids of nodes. Topologies without such numbers count by fingerprint.
    """
    both = old.tables["topologies"].join(new.tables["topologies"], on=TOPOLOGY, suffix="_new")
    equal = both.filter(pl.col("fingerprint") == pl.col("fingerprint_new"))[TOPOLOGY].to_list()
    counted = old.operators.filter("is_sql")[TOPOLOGY].unique().to_list()
    texts = [_texts_without_numbers(side, counted) for side in (old, new)]
    return {*equal, *(topology for topology in counted if texts[0].get(topology) == texts[1].get(topology))}


def _texts_without_numbers(side: KeyedPlans, topologies: Sequence[int]) -> dict[int, str]:
    """All settings of these topologies and their operators, in order, without counted numbers."""
    chosen = pl.col(TOPOLOGY).is_in(list(topologies))
    texts: dict[int, str] = {}
    headers = side.tables["topologies"].filter(chosen).select(TOPOLOGY, *_HEADER)
    for topology, config, settings, *others in headers.iter_rows():
        kept = sorted((key, value) for key, value in config.items() if not key.startswith(CAPTURE_NOTES))
        graph = orjson.loads(settings or "{}")
        of_graph = sorted((key, value) for key, value in graph.items() if key not in ("sources", "sinks"))
        texts[topology] = repr((kept, of_graph, others))
    columns = [
        "label",
        "meaning",
        *(column for column in PLAN_COLUMNS["stream_nodes"] if column not in (TOPOLOGY, *_COUNTED)),
    ]
    nodes = side.operators.filter(chosen).sort(TOPOLOGY, "node")
    nodes = nodes.with_columns(place=pl.int_range(pl.len()).over(TOPOLOGY))
    edges = side.tables["stream_edges"].filter(chosen)
    for end in ("source", "target"):
        place = nodes.select(TOPOLOGY, pl.col("node").alias(end), pl.col("place").alias(f"{end}_place"))
        edges = edges.join(place, on=[TOPOLOGY, end])
    between = ("source_place", "target_place", "partitioner")
    for rows in (nodes.select(TOPOLOGY, *columns), edges.sort(between).select(TOPOLOGY, *between)):
        for topology, *row in rows.iter_rows():
            texts[topology] += repr(row)
    return texts


# Totals of a plan: tasks, channels, buffers, managed memory and slots of each topology.


TOTALS = {
    "tasks": "tasks",
    "channels": "input channels",
    "network_buffers": "network buffers",
    "managed_bytes": "bytes of managed memory",
    "slots": "slots",
}
"""What is counted, and how people read it."""

Totals = dict[str, tuple[int, int]]
"""Old and new value by key of TOTALS, where they differ."""

_Tables = Mapping[str, pl.DataFrame]


def changed_totals(old: _Tables, new: _Tables, in_both: pl.DataFrame) -> dict[int, Totals]:
    """The totals that differ, by topology of `in_both`. Totals of tables that one side lacks are left out."""
    names = [name for name, needed in _NEEDED.items() if needed <= old.keys() & new.keys()]
    counted = [
        _totals(tables, in_both, names).rename({name: f"{side} {name}" for name in names})
        for side, tables in (("old", old), ("new", new))
    ]
    both = counted[0].join(counted[1], on=TOPOLOGY)
    different = both.filter(
        pl.any_horizontal(pl.lit(False), *(pl.col(f"old {name}") != pl.col(f"new {name}") for name in names))
    )
    return {
        row[TOPOLOGY]: {
            name: (row[f"old {name}"], row[f"new {name}"])
            for name in names
            if row[f"old {name}"] != row[f"new {name}"]
        }
        for row in different.iter_rows(named=True)
    }


def _totals(tables: _Tables, topologies: pl.DataFrame, names: list[str]) -> pl.DataFrame:
    totals = topologies
    for name in names:
        totals = totals.join(_COUNT[name](tables), on=TOPOLOGY, how="left")
    return totals.with_columns(pl.col(names).fill_null(0).cast(pl.Int64))


def _tasks(tables: _Tables) -> pl.DataFrame:
    return tables["execution_job_vertices"].group_by(TOPOLOGY).agg(tasks=_long("parallelism").sum())


def _channels(tables: _Tables) -> pl.DataFrame:
    partitions = _long("last_partition") - _long("first_partition") + 1
    subpartitions = _long("last_subpartition") - _long("first_subpartition") + 1
    return tables["execution_edges"].group_by(TOPOLOGY).agg(channels=(partitions * subpartitions).sum())


def _network_buffers(tables: _Tables) -> pl.DataFrame:
    """Network buffers of all tasks: what they announce, or what they require if that is not bounded."""
    tasks = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    of_tasks = tables["network_buffers"].join(tasks, on=[TOPOLOGY, "vertex"])
    each = pl.coalesce(_long("announced"), _long("required")) * _long("parallelism")
    return of_tasks.group_by(TOPOLOGY).agg(network_buffers=each.sum())


def _managed_bytes(tables: _Tables) -> pl.DataFrame:
    """Managed memory of all slots: for use case OPERATOR by operator; other use cases share theirs."""
    groups = tables["job_vertices"].select(TOPOLOGY, "vertex", "slot_sharing_group")
    tasks = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    used = tables["managed_memory"].join(groups, on=[TOPOLOGY, "vertex"]).join(tasks, on=[TOPOLOGY, "vertex"])
    own = pl.col("use_case") == str(ManagedMemoryUseCase.OPERATOR)
    each = used.filter(own).select(TOPOLOGY, bytes=_long("bytes") * _long("parallelism"))
    shared = (
        used.filter(~own)
        .group_by(TOPOLOGY, "slot_sharing_group", "use_case")
        .agg(bytes=_long("bytes").max() * _long("parallelism").max())
        .select(TOPOLOGY, "bytes")
    )
    return pl.concat([each, shared]).group_by(TOPOLOGY).agg(managed_bytes=pl.col("bytes").sum())


def _slots(tables: _Tables) -> pl.DataFrame:
    return tables["required_slots"].group_by(TOPOLOGY).agg(slots=_long("slots").sum())


def _long(column: str) -> pl.Expr:
    return pl.col(column).cast(pl.Int64)


_COUNT = {
    "tasks": _tasks,
    "channels": _channels,
    "network_buffers": _network_buffers,
    "managed_bytes": _managed_bytes,
    "slots": _slots,
}
_NEEDED: dict[str, set[str]] = {
    "tasks": {"execution_job_vertices"},
    "channels": {"execution_edges"},
    "network_buffers": {"execution_job_vertices", "network_buffers"},
    "managed_bytes": {"execution_job_vertices", "job_vertices", "managed_memory"},
    "slots": {"required_slots"},
}
