"""Which operators lose their state in a new topology, and the uid that would keep it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.diff.keyed_plans import KeyedPlans
from penstock.plans.tables.column_types import TOPOLOGY

Rows = dict[int, list[dict[str, Any]]]

_NO_COUNTERPART = "the new topology has no operator of its uid, name or id"
_CHAINED_SOURCE = "Flink finds no state of a source that is chained into an operator with several inputs"


class LostOperators(NamedTuple):
    """By topology. `lost`: no operator of the new topology has their id. `taken`: another operator has it.

    `mismatched`: their state does not fit the max parallelism or the parallelism of the operator that has it.
    """

    lost: Rows
    taken: Rows
    mismatched: Rows


def lost_operators(with_state: pl.DataFrame, new: KeyedPlans, matched: pl.DataFrame) -> LostOperators:
    """Operators `with_state` of topologies that both sides planned; `matched` as match_operators gives it.

    `with_state` are of KeyedPlans.operators of the old side.

    A row has the operator's name, node, operator_id and uid. A row of `lost` also has what it `becomes`, the
    name and node of the new operator (null: none), and a suggestion, by which that operator gets the state: a
    uid or uid_hash, and a max_parallelism or parallelism if its own do not fit. The suggestion is null if
    there is none, and `because` says why. A row of `taken` has the operator that gets its state (`by`), a row
    of `mismatched` that too, and a suggestion for it.
    """
    in_new = new.tables["topologies"].select(TOPOLOGY)
    states = with_state.join(in_new, on=TOPOLOGY, how="semi").drop_nulls("operator_id")
    states = states.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "old_node"], how="left")
    states = states.join(_holders(new), on=[TOPOLOGY, "operator_id"], how="left")
    states = states.join(_facts(new, "new"), on=[TOPOLOGY, "new_node"], how="left").sort(
        TOPOLOGY, "node", "holder_node"
    )
    has_holder = pl.col("holder_node").is_not_null()
    state_max = pl.col("effective_max_parallelism")
    unfit = (~pl.col("holder_derives") & (pl.col("holder_max") != state_max)) | (
        pl.col("holder_subtasks") > state_max
    )
    keeps = (pl.col("holder_node").eq_missing(pl.col("new_node"))).any().over(TOPOLOGY, "node")
    return LostOperators(
        _rows(states.filter(~has_holder), _lost),
        _rows(states.filter(has_holder & ~keeps).unique([TOPOLOGY, "node"], maintain_order=True), _taken),
        _rows(states.filter(has_holder & unfit), _mismatched),
    )


def _holders(new: KeyedPlans) -> pl.DataFrame:
    """Facts of the operators in which Flink looks for state, by each of their ids.

    An id has several rows if several operators have the same uid hash; one of them gets the state.
    """
    listed = new.operators.filter(pl.col("operator_order").is_not_null())
    ids = pl.concat(
        listed.select(TOPOLOGY, pl.col(column).alias("operator_id"), holder_node="node")
        for column in ("user_defined_operator_id", "operator_id")
    ).drop_nulls("operator_id")
    ids = ids.unique([TOPOLOGY, "operator_id", "holder_node"], maintain_order=True)
    return ids.join(_facts(new, "holder"), on=[TOPOLOGY, "holder_node"], how="left")


def _facts(side: KeyedPlans, prefix: str) -> pl.DataFrame:
    names = {
        "node": "node",
        "name": "name",
        "order": "operator_order",
        "subtasks": "subtasks",
        "max": "effective_max_parallelism",
        "derives": "derives_max_parallelism",
    }
    return side.operators.select(
        TOPOLOGY, **{f"{prefix}_{fact}": pl.col(name) for fact, name in names.items()}
    )


def _rows(states: pl.DataFrame, row_of: Callable[[dict[str, Any]], dict[str, Any]]) -> Rows:
    rows_by_topology: Rows = {}
    for row in states.iter_rows(named=True):
        rows_by_topology.setdefault(row[TOPOLOGY], []).append(row_of(row))
    return rows_by_topology


def _operator(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "operator": row["name"],
        "node": row["node"],
        "operator_id": row["operator_id"],
        "uid": row["uid"],
    }


def _lost(row: dict[str, Any]) -> dict[str, Any]:
    said = _operator(row) | {"becomes": None, "suggestion": None}
    if row["new_node"] is None:
        return said | {"because": _NO_COUNTERPART}
    said["becomes"] = {"operator": row["new_name"], "node": row["new_node"]}
    if row["new_order"] is None:
        return said | {"because": _CHAINED_SOURCE}
    known_by = {"uid_hash": row["operator_id"]} if row["uid"] is None else {"uid": row["uid"]}
    return said | {"suggestion": known_by | _fitting(row, "new")}


def _taken(row: dict[str, Any]) -> dict[str, Any]:
    return _operator(row) | {"by": {"operator": row["holder_name"], "node": row["holder_node"]}}


def _mismatched(row: dict[str, Any]) -> dict[str, Any]:
    return _taken(row) | {"suggestion": _fitting(row, "holder")}


def _fitting(row: dict[str, Any], prefix: str) -> dict[str, int]:
    """What an operator has to set so that the state fits it."""
    state_max = row["effective_max_parallelism"]
    fitting = {}
    if not row[f"{prefix}_derives"] and row[f"{prefix}_max"] != state_max:
        fitting["max_parallelism"] = state_max
    if row[f"{prefix}_subtasks"] > state_max:
        fitting["parallelism"] = state_max
    return fitting
