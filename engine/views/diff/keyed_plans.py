"""Plans of both sides of a slice under one key, which joins a topology to its older one, and changes."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import orjson
import polars as pl

from penstock.engine.views.diff.match_operators import with_identity
from penstock.engine.views.diff.side_of_store import PLAN_COLUMNS, Plans
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.restore_savepoint import Failure
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.fingerprint import CAPTURE_NOTES, STREAM_STATE
from penstock.plans.vocabulary import ManagedMemoryUseCase

_STATE_BACKEND = pl.col("slot_scope").list.contains(str(ManagedMemoryUseCase.STATE_BACKEND))
_OF_SINKS = pl.col("operator_factory").is_in(["SinkWriterOperatorFactory", "CommitterOperatorFactory"])
_IS_KEYED = pl.col("keyed").fill_null(_STATE_BACKEND)
HAS_STATE = _IS_KEYED | (
    ~pl.col("in_spark")
    & (pl.col("among_sources") | pl.col("read").is_null() | _OF_SINKS.fill_null(value=False))
)
"""Keyed operators, sources (their offsets or splits) and sinks (their transactions). `read`: an edge leaves
the operator. `in_spark`: the topology runs in a stream of Spark, which keeps the offsets itself."""


_HEADER = ("config", "stream_graph_settings", "parallelism", "max_parallelism", "chaining")
_COUNTED = ("id", "name", "description")


class KeyedPlans(NamedTuple):
    """The plans of one side; topology_id is the number of the pair in its slice.

    `refusals`: reasons why topologies of this side were refused. `operators`: one row per operator with its
    ids and uids, its vertex, the vertex's subtasks and effective max parallelism, whether that is derived,
    `has_state` by the topology's settings, and the columns of with_identity.
    """

    tables: Mapping[str, pl.DataFrame]
    refusals: dict[int, Failure]
    operators: pl.DataFrame


def keyed_plans(plans: Plans, ids: pl.Series) -> KeyedPlans:
    """Return the plans of topologies with these `ids`, null if this side lacks one, by position in `ids`."""
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
    streams = tables["topologies"].select(
        TOPOLOGY, in_spark=pl.col("config").map.contains_key(STREAM_STATE).fill_null(value=False)
    )
    nodes = nodes.join(streams, on=TOPOLOGY, how="left")
    nodes = with_identity(nodes.with_columns(has_state=HAS_STATE), _IS_KEYED)
    operators = nodes.join(tables["chained_operators"], on=[TOPOLOGY, "node"], how="left")
    operators = operators.join(vertices, on=[TOPOLOGY, "vertex"], how="left")
    return operators.join(limits, on=[TOPOLOGY, "vertex"], how="left")


def equal_but_for_numbers(old: KeyedPlans, new: KeyedPlans) -> set[int]:
    """Return topologies whose fingerprints differ at most by numbers of the Table planner.

    These numbers are in names, descriptions and ids of nodes. Topologies without them are compared by
    fingerprint.
    """
    both = old.tables["topologies"].join(new.tables["topologies"], on=TOPOLOGY, suffix="_new")
    equal = both.filter(pl.col("fingerprint") == pl.col("fingerprint_new"))[TOPOLOGY].to_list()
    counted = old.operators.filter("is_sql")[TOPOLOGY].unique().to_list()
    texts = [_texts_without_numbers(side, counted) for side in (old, new)]
    return {*equal, *(topology for topology in counted if texts[0].get(topology) == texts[1].get(topology))}


def _texts_without_numbers(side: KeyedPlans, topologies: Sequence[int]) -> dict[int, str]:
    """Return all settings of topologies and their operators, in order, without the planner's numbers."""
    chosen = pl.col(TOPOLOGY).is_in(list(topologies))
    texts: dict[int, str] = {}
    headers = side.tables["topologies"].filter(chosen).select(TOPOLOGY, *_HEADER)
    for topology, config, settings, *others in headers.iter_rows():
        known_config = sorted(
            (key, value) for key, value in config.items() if not key.startswith(CAPTURE_NOTES)
        )
        graph = orjson.loads(settings or "{}")
        graph_values = sorted((key, value) for key, value in graph.items() if key not in ("sources", "sinks"))
        texts[topology] = repr((known_config, graph_values, others))
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
"""Totals and their texts for people."""

Totals = dict[str, tuple[int, int]]
"""Old and new value by key of TOTALS, if they differ."""

_Tables = Mapping[str, pl.DataFrame]


def _changed_totals(old: _Tables, new: _Tables, in_both: pl.DataFrame) -> dict[int, Totals]:
    """Return differing totals by topology of `in_both`. Totals of tables that one side lacks are left out."""
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
    """Sum the announced network buffers of all tasks, or the required ones if these are unbounded."""
    tasks = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    buffers_of_tasks = tables["network_buffers"].join(tasks, on=[TOPOLOGY, "vertex"])
    each = pl.coalesce(_long("announced"), _long("required")) * _long("parallelism")
    return buffers_of_tasks.group_by(TOPOLOGY).agg(network_buffers=each.sum())


def _managed_bytes(tables: _Tables) -> pl.DataFrame:
    """Sum managed memory of all slots: use case OPERATOR by operator; other use cases are shared."""
    groups = tables["job_vertices"].select(TOPOLOGY, "vertex", "slot_sharing_group")
    tasks = tables["execution_job_vertices"].select(TOPOLOGY, "vertex", "parallelism")
    used = tables["managed_memory"].join(groups, on=[TOPOLOGY, "vertex"]).join(tasks, on=[TOPOLOGY, "vertex"])
    is_operator = pl.col("use_case") == str(ManagedMemoryUseCase.OPERATOR)
    each = used.filter(is_operator).select(TOPOLOGY, bytes=_long("bytes") * _long("parallelism"))
    shared = (
        used.filter(~is_operator)
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


# Differences between plans of topologies as rows: operators, chains, data sets and totals.


Rows = dict[int, list[dict[str, Any]]]
"""Changes by topology."""

_CHANGEABLE = {
    "renamed": "name",
    "changed_ids": "operator_id",
    "parallelism": "parallelism",
    "max_parallelism": "effective_max_parallelism",
}


class ChangedPlans(NamedTuple):
    """Changes by topology, for topologies that both sides planned.

    `operators`: added, removed and the keys of _CHANGEABLE.
    """

    operators: dict[str, Rows]
    split: Rows
    joined: Rows
    data_sets: Rows
    totals: dict[int, Totals]


def changed_plans(old: KeyedPlans, new: KeyedPlans, matched: pl.DataFrame) -> ChangedPlans:
    """Find all changes; `matched` comes from match_operators. Topologies that one side lacks have none."""
    both = [old.tables["topologies"].select(TOPOLOGY), new.tables["topologies"].select(TOPOLOGY)]
    in_both = both[0].join(both[1], on=TOPOLOGY, how="semi")
    olds, news = (side.operators.join(in_both, on=TOPOLOGY, how="semi") for side in (old, new))
    pairs = matched.join(olds, left_on=[TOPOLOGY, "old_node"], right_on=[TOPOLOGY, "node"], how="inner")
    pairs = pairs.join(
        news.rename({name: f"new_{name}" for name in news.columns if name != TOPOLOGY}),
        on=[TOPOLOGY, "new_node"],
        how="inner",
    ).sort(TOPOLOGY, "new_node")
    gone = olds.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "old_node"], how="anti")
    come = news.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "new_node"], how="anti")
    operators = {"added": _named(come), "removed": _named(gone)}
    operators |= {change: _changed(pairs, column) for change, column in _CHANGEABLE.items()}
    operators["renamed"] = _changed(pairs.filter(pl.col("label") != pl.col("new_label")), "name")
    return ChangedPlans(
        operators,
        _divided(pairs, "vertex", "new_vertex", "name", "chain", "into"),
        _divided(pairs, "new_vertex", "vertex", "new_name", "into", "chains"),
        _data_sets(old, new, matched, in_both),
        _changed_totals(old.tables, new.tables, in_both),
    )


def _named(operators: pl.DataFrame) -> Rows:
    chosen = operators.sort(TOPOLOGY, "node").select(TOPOLOGY, "name", "node", "uid", "operator_id")
    return _by_topology(chosen)


def _changed(pairs: pl.DataFrame, column: str) -> Rows:
    different = pairs.filter(pl.col(column).ne_missing(pl.col(f"new_{column}")))
    columns = {"operator": "new_name", "node": "new_node", "old": column, "new": f"new_{column}"}
    if column == "operator_id":
        columns |= {"old_uid": "uid", "new_uid": "new_uid"}
    return _by_topology(different.select(TOPOLOGY, **{key: pl.col(name) for key, name in columns.items()}))


def _divided(pairs: pl.DataFrame, whole: str, part: str, name: str, together: str, many: str) -> Rows:
    """Return chains by `whole` whose operators are in several chains by `part`."""
    several = (
        pairs.drop_nulls([whole, part]).group_by(TOPOLOGY, whole).agg(pl.col(part).n_unique().alias("parts"))
    )
    several = several.filter(pl.col("parts") > 1)
    members = pairs.join(several, on=[TOPOLOGY, whole], how="semi").sort(TOPOLOGY, whole, "new_node")
    divided_rows: Rows = {}
    chains: dict[tuple[int, int], dict[int, list[str]]] = {}
    for topology, divided, piece, operator in members.select(TOPOLOGY, whole, part, name).iter_rows():
        chains.setdefault((topology, divided), {}).setdefault(piece, []).append(operator)
    for (topology, _), pieces in chains.items():
        listed = list(pieces.values())
        divided_rows.setdefault(topology, []).append({together: [*chain.from_iterable(listed)], many: listed})
    return divided_rows


def _data_sets(old: KeyedPlans, new: KeyedPlans, matched: pl.DataFrame, in_both: pl.DataFrame) -> Rows:
    """Compare the data sets exchanged between operators, by the new operators at both ends.

    An id depends on the names and numbers of its ends. If it changed only because the numbers of nodes did,
    which the Table planner writes into names too, nothing has changed.
    """
    to_new = matched.rename({"old_node": "node", "new_node": "end"})
    ends = ("source_node", "target_node")
    before, after = (_exchanges(side).join(in_both, on=TOPOLOGY, how="semi") for side in (old, new))
    for end in ends:
        renamed = to_new.rename({"node": end, "end": f"new_{end}"})
        before = before.join(renamed, on=[TOPOLOGY, end], how="left")
    before = before.with_columns(
        **{f"{end}_before": pl.col(end) for end in ends},
        # Ends missing in the new topology keep their number as a negative one, which no other has.
        **{end: pl.coalesce(f"new_{end}", -1 - pl.col(end)) for end in ends},
    ).drop([f"new_{end}" for end in ends])
    keys = [TOPOLOGY, *ends, "nth"]
    before, after = (_nth(frame, ends) for frame in (before, after))
    joined = before.join(after, on=keys, how="full", coalesce=True, suffix="_new")
    values = ("data_set_id", "result_partition_type", "ship_strategy")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_new")) for name in values)
    names = ("source", "target")
    changes: Rows = {}
    # Null, for an exchange that one side lacks, is not equal.
    moved = pl.all_horizontal(
        *(pl.col(name).eq_missing(pl.col(f"{name}_new")) for name in values[1:]),
        *(_unnumbered(f"{end}_name").eq_missing(_unnumbered(f"{end}_name_new")) for end in names),
    ) & pl.any_horizontal(pl.col(end) != pl.col(f"{end}_before") for end in ends)
    changed = joined.filter(differs & ~moved.fill_null(False))
    for row in changed.sort(keys).iter_rows(named=True):
        in_old, in_new = row["data_set_id"] is not None, row["data_set_id_new"] is not None
        change: dict[str, Any] = {
            "change": "changed" if in_old and in_new else "added" if in_new else "removed",
            "source": row["source_name_new"] if in_new else row["source_name"],
            "target": row["target_name_new"] if in_new else row["target_name"],
        }
        for key, name in zip(("id", "type", "ship_strategy"), values, strict=True):
            if row[name] != row[f"{name}_new"]:
                change[key] = {"old": row[name], "new": row[f"{name}_new"]}
        changes.setdefault(row[TOPOLOGY], []).append(change)
    return changes


def _unnumbered(name: str) -> pl.Expr:
    """Remove the Table planner's numbers from names such as Calc[3]."""
    return pl.col(name).str.replace_all(r"\[\d+\]", "")


def _exchanges(side: KeyedPlans) -> pl.DataFrame:
    """Return job edges with the types of their data sets and the names of their ends."""
    sets = side.tables["intermediate_data_sets"].rename({"vertex": "source_vertex"})
    edges = side.tables["job_edges"].join(sets, on=[TOPOLOGY, "source_vertex", "data_set_id"], how="left")
    for end in ("source", "target"):
        names = side.operators.select(
            TOPOLOGY, pl.col("node").alias(f"{end}_node"), pl.col("name").alias(f"{end}_name")
        )
        edges = edges.join(names, on=[TOPOLOGY, f"{end}_node"], how="left")
    return edges.drop("source_vertex")


def _nth(edges: pl.DataFrame, ends: tuple[str, str]) -> pl.DataFrame:
    """Number edges among the edges between the same two operators."""
    numbered = edges.sort(TOPOLOGY, *ends, "in_index").with_columns(
        nth=pl.int_range(pl.len()).over(TOPOLOGY, *ends)
    )
    return numbered.drop("in_index")


def _by_topology(rows: pl.DataFrame) -> Rows:
    by_topology: Rows = {}
    for row in rows.iter_rows(named=True):
        by_topology.setdefault(row.pop(TOPOLOGY), []).append(row)
    return by_topology
