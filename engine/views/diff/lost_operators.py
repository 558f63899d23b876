"""Which operators lose their state in a new topology, and the uid that would keep it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.views.diff.keyed_plans import KeyedPlans
from penstock.plans.tables.column_types import TOPOLOGY

Rows = dict[int, list[dict[str, Any]]]

_NO_COUNTERPART = "the new topology has no such operator"
_SQL = "SQL sets no ids by hand; only jobs that run from a compiled plan keep theirs (EXECUTE PLAN)"
_CHAINED_SOURCE = "Flink finds no state of a source that is chained into an operator with several inputs"
_SEVERAL = "several operators could be meant: give the one that continues it a uid or uid hash"

_UNFIT = (
    "its task has another max parallelism or too many subtasks, and other operators decide about them, too"
)


class LostOperators(NamedTuple):
    """By topology. `lost`: no operator of the new topology has their id. `taken`: another operator has it.

    `mismatched`: their state does not fit the max parallelism or the parallelism of the operator that has it.
    `warnings`: Flink restores it into an operator that cannot use all of it.
    """

    lost: Rows
    taken: Rows
    mismatched: Rows
    warnings: Rows


def lost_operators(entries: pl.DataFrame, new: KeyedPlans, matched: pl.DataFrame) -> LostOperators:
    """Operators of topologies that both sides planned; `matched` as match_operators gives it.

    `entries` are KeyedPlans.operators of the old side, with `has_state` and `is_listed`: whether the new
    topology needs an operator of its id.

    A row has the operator's name, node, operator_id and uid. A row of `lost` also has `has_state`, what it
    `becomes`, the name and node of the new operator (null: none), and a suggestion, by which that operator
    gets the state: a uid or uid_hash, and a max_parallelism or parallelism if its own do not fit. The
    suggestion is null if there is none, or if state could get lost or mixed by it: `because` is the reason. A
    row of `taken` has the operator that gets its state (`by`), a row of `mismatched` that too, and a
    suggestion for it, empty if it is another operator or does not decide alone for its task; a row of
    `warnings` has `by` and a `warning` (see WARNINGS).
    """
    in_new = new.tables["topologies"].select(TOPOLOGY)
    states = entries.join(in_new, on=TOPOLOGY, how="semi").drop_nulls("operator_id")
    states = states.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "old_node"], how="left")
    states = states.join(_holders(new), on=[TOPOLOGY, "operator_id"], how="left")
    states = states.join(_facts(new, "new"), on=[TOPOLOGY, "new_node"], how="left").sort(
        TOPOLOGY, "node", "holder_node"
    )
    states = _with_fit(states, new)
    has_holder = pl.col("holder_node").is_not_null()
    state_max = pl.col("effective_max_parallelism")
    unfit = (~pl.col("holder_derives") & (pl.col("holder_max") != state_max)) | (
        pl.col("holder_subtasks") > state_max
    )
    keeps = (pl.col("holder_node").eq_missing(pl.col("new_node"))).any().over(TOPOLOGY, "node")
    has_state, is_listed = pl.col("has_state"), pl.col("is_listed")
    once = [TOPOLOGY, "node"]
    taken = states.filter(has_holder & ~keeps & has_state).unique(once, maintain_order=True)
    held = states.filter(pl.col("holder_node") == pl.col("new_node")).with_columns(warning=_warning())
    # Without state nothing is lost, but that keyed state begins empty is worth a word.
    warned = held.filter(has_state | (pl.col("warning") == NEWLY_KEYED)).drop_nulls("warning")
    return LostOperators(
        _rows(states.filter(~has_holder & is_listed), _lost),
        _rows(taken, _taken),
        _rows(states.filter(has_holder & unfit), _mismatched),
        _rows(warned.unique(once, maintain_order=True), _warned),
    )


NO_LONGER_KEYED, NEWLY_KEYED = "no-longer-keyed", "newly-keyed"
OTHER_CLASS = "other-class"

WARNINGS = {
    NO_LONGER_KEYED: "is no longer keyed: Flink drops its keyed state and timers without an error",
    NEWLY_KEYED: "is keyed now: Flink restores its operator state, and its keyed state begins empty",
    OTHER_CLASS: "is of another class: Flink does not check that it reads the state",
}
"""Warnings as people read them, after the operator's name.

Source: StreamTaskStateInitializerImpl.keyedStatedBackend, which leaves keyed state unread without a key
serializer, and StreamOperatorStateHandler.
"""


def _warning() -> pl.Expr:
    """The warning about a state and the operator that has its id; null: none."""
    was, now = pl.col("is_keyed"), pl.col("holder_keyed")
    own, held = pl.col("operator_class"), pl.col("holder_class")
    simple = [name.str.extract(r"([^.]+)$") for name in (own, held)]
    return (
        pl.when(was & ~now)
        .then(pl.lit(NO_LONGER_KEYED))
        .when(~was & now)
        .then(pl.lit(NEWLY_KEYED))
        .when((pl.col("among_sources") != pl.col("holder_source")) | (simple[0] != simple[1]))
        .then(pl.lit(OTHER_CLASS))
    )


def _with_fit(states: pl.DataFrame, new: KeyedPlans) -> pl.DataFrame:
    """States with `can_set_max` and `can_set_parallelism`: whether these settings of their operator help.

    A task has one max parallelism, its head's, for the states of all its operators. A chain stays together
    only if all of its operators get another parallelism.
    """
    vertex, node = pl.coalesce("holder_vertex", "new_vertex"), pl.coalesce("holder_node", "new_node")
    sizes = new.operators.group_by(TOPOLOGY, task="vertex").agg(size=pl.len())
    own = (node == pl.col("new_node")) & (pl.len().over(TOPOLOGY, "node") == 1)
    states = states.with_columns(task=vertex, is_own=own.fill_null(value=False))
    states = states.join(sizes, on=[TOPOLOGY, "task"], how="left", maintain_order="left")
    one_max = pl.col("effective_max_parallelism").n_unique().over(TOPOLOGY, "task") == 1
    whole = pl.col("is_own").sum().over(TOPOLOGY, "task") == pl.col("size")
    return states.with_columns(
        can_set_max=(pl.col("is_own") & one_max & (node == pl.col("task"))).fill_null(value=False),
        can_set_parallelism=(pl.col("is_own") & one_max & whole).fill_null(value=False),
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
        "vertex": "vertex",
        "subtasks": "subtasks",
        "max": "effective_max_parallelism",
        "derives": "derives_max_parallelism",
        "keyed": "is_keyed",
        "class": "operator_class",
        "source": "among_sources",
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
    lost = _operator(row) | {"has_state": row["has_state"], "becomes": None, "suggestion": None}
    if row["new_node"] is None:
        return lost | {"because": f"{_NO_COUNTERPART}; {_SQL}" if row["is_sql"] else _NO_COUNTERPART}
    lost["becomes"] = {"operator": row["new_name"], "node": row["new_node"]}
    if row["is_sql"]:
        return lost | {"because": _SQL}
    if row["new_order"] is None:
        return lost | {"because": _CHAINED_SOURCE}
    if not row["certain"]:
        return lost | {"because": _SEVERAL}
    if row["is_keyed"] != row["new_keyed"]:
        warning = NO_LONGER_KEYED if row["is_keyed"] else NEWLY_KEYED
        return lost | {"because": f"the new one {WARNINGS[warning]}"}
    known_by = {"uid_hash": row["operator_id"]} if row["uid"] is None else {"uid": row["uid"]}
    fitting = _fitting(row, "new")
    if fitting is None:
        return lost | {"because": _UNFIT}
    return lost | {"suggestion": known_by | fitting}


def _taken(row: dict[str, Any]) -> dict[str, Any]:
    return _operator(row) | {"by": {"operator": row["holder_name"], "node": row["holder_node"]}}


def _warned(row: dict[str, Any]) -> dict[str, Any]:
    return _taken(row) | {"has_state": row["has_state"], "warning": row["warning"]}


def _mismatched(row: dict[str, Any]) -> dict[str, Any]:
    return _taken(row) | {"has_state": row["has_state"], "suggestion": _fitting(row, "holder") or {}}


def _fitting(row: dict[str, Any], prefix: str) -> dict[str, int] | None:
    """Settings of an operator, or of its whole job in SQL, by which the state fits it; None: not by these."""
    state_max = row["effective_max_parallelism"]
    fitting = {}
    if not row[f"{prefix}_derives"] and row[f"{prefix}_max"] != state_max:
        if not row["can_set_max"]:
            return None
        fitting["pipeline.max-parallelism" if row["is_sql"] else "max_parallelism"] = state_max
    if row[f"{prefix}_subtasks"] > state_max:
        if not row["can_set_parallelism"]:
            return None
        fitting["table.exec.resource.default-parallelism" if row["is_sql"] else "parallelism"] = state_max
    return fitting
