"""The differences between plans of topologies: operators, chains, data sets and totals, as rows."""

from itertools import chain
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.views.diff.keyed_plans import KeyedPlans, Totals, changed_totals
from penstock.plans.tables.column_types import TOPOLOGY

Rows = dict[int, list[dict[str, Any]]]
"""Changes by topology."""

_CHANGEABLE = {
    "renamed": "name",
    "changed_ids": "operator_id",
    "parallelism": "parallelism",
    "max_parallelism": "effective_max_parallelism",
}


class ChangedPlans(NamedTuple):
    """Changes by topology, for those that both sides planned.

    `operators`: added, removed and the keys of _CHANGEABLE.
    """

    operators: dict[str, Rows]
    split: Rows
    joined: Rows
    data_sets: Rows
    totals: dict[int, Totals]


def changed_plans(old: KeyedPlans, new: KeyedPlans, matched: pl.DataFrame) -> ChangedPlans:
    """All changes; `matched` as match_operators gives it. Topologies that one side lacks have none."""
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
        changed_totals(old.tables, new.tables, in_both),
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
    """Chains by `whole` whose operators are in several chains by `part`."""
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
    """Exchanges between operators: the data sets that they read, by the new operators at both ends.

    An id follows from the names and numbers of its ends. Where it only moved because the numbers of nodes
    did, which the Table planner writes into names too, nothing has changed.
    """
    to_new = matched.rename({"old_node": "node", "new_node": "end"})
    ends = ("source_node", "target_node")
    before, after = (_exchanges(side).join(in_both, on=TOPOLOGY, how="semi") for side in (old, new))
    for end in ends:
        renamed = to_new.rename({"node": end, "end": f"new_{end}"})
        before = before.join(renamed, on=[TOPOLOGY, end], how="left")
    before = before.with_columns(
        **{f"{end}_before": pl.col(end) for end in ends},
        # Ends that the new topology lacks keep their number below zero, where no other is.
        **{end: pl.coalesce(f"new_{end}", -1 - pl.col(end)) for end in ends},
    ).drop([f"new_{end}" for end in ends])
    keys = [TOPOLOGY, *ends, "nth"]
    before, after = (_nth(frame, ends) for frame in (before, after))
    joined = before.join(after, on=keys, how="full", coalesce=True, suffix="_new")
    values = ("data_set_id", "result_partition_type", "ship_strategy")
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"{name}_new")) for name in values)
    names = ("source", "target")
    changes: Rows = {}
    # Null, as of an exchange that one side lacks, is not equal.
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
    """Names without the numbers that the Table planner gives: Calc[3]."""
    return pl.col(name).str.replace_all(r"\[\d+\]", "")


def _exchanges(side: KeyedPlans) -> pl.DataFrame:
    """Job edges with the types of their data sets and the names of their ends."""
    sets = side.tables["intermediate_data_sets"].rename({"vertex": "source_vertex"})
    edges = side.tables["job_edges"].join(sets, on=[TOPOLOGY, "source_vertex", "data_set_id"], how="left")
    for end in ("source", "target"):
        names = side.operators.select(
            TOPOLOGY, pl.col("node").alias(f"{end}_node"), pl.col("name").alias(f"{end}_name")
        )
        edges = edges.join(names, on=[TOPOLOGY, f"{end}_node"], how="left")
    return edges.drop("source_vertex")


def _nth(edges: pl.DataFrame, ends: tuple[str, str]) -> pl.DataFrame:
    """Edges numbered among those between the same two operators."""
    numbered = edges.sort(TOPOLOGY, *ends, "in_index").with_columns(
        nth=pl.int_range(pl.len()).over(TOPOLOGY, *ends)
    )
    return numbered.drop("in_index")


def _by_topology(rows: pl.DataFrame) -> Rows:
    by_topology: Rows = {}
    for row in rows.iter_rows(named=True):
        by_topology.setdefault(row.pop(TOPOLOGY), []).append(row)
    return by_topology
