"""Compare all topologies of two sides, and describe the differing ones."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.views.diff.keyed_plans import (
    ChangedPlans,
    KeyedPlans,
    changed_plans,
    equal_but_for_numbers,
    keyed_plans,
)
from penstock.engine.views.diff.match_operators import match_operators
from penstock.engine.views.diff.savepoint_verdicts import (
    Change,
    Counts,
    RestoreFrom,
    RestoreResult,
    TopologyDiff,
    restored,
)
from penstock.engine.views.diff.side_of_store import SLICE, Side
from penstock.plans.planners.plan_in_parts import without_garbage_collection
from penstock.plans.restore_savepoint import JOB_COLUMNS, Job, jobs_to_restore
from penstock.plans.tables.column_types import TOPOLOGY

# Operators that lose their state in a new topology, and the uid that would keep it.


Rows = dict[int, list[dict[str, Any]]]

_NO_COUNTERPART = "the new topology has no such operator"
_SQL = "SQL sets no ids by hand; only jobs that run from a compiled plan keep theirs (EXECUTE PLAN)"
_CHAINED_SOURCE = (
    "Flink does not find the state of a source that is chained into an operator with several inputs"
)
_SEVERAL = "several operators could be meant: give the one that continues it a uid or uid hash"

_UNFIT = (
    "its task has another max parallelism or too many subtasks, and other operators decide about them, too"
)


class LostOperators(NamedTuple):
    """Operators by topology. `lost`: no operator of the new topology has their id. `taken`: another one does.

    `mismatched`: their state does not fit the max parallelism or the parallelism of the operator that gets
    it. `warnings`: Flink restores it into an operator that cannot use all of it.
    """

    lost: Rows
    taken: Rows
    mismatched: Rows
    warnings: Rows


def _lost_operators(entries: pl.DataFrame, new: KeyedPlans, matched: pl.DataFrame) -> LostOperators:
    """Find lost operators of topologies that both sides planned; `matched` comes from match_operators.

    `entries` are KeyedPlans.operators of the old side, with `has_state` and `is_listed`: whether the new
    topology needs an operator with the id.

    A row has the operator's name, node, operator_id and uid. A row of `lost` also has `has_state`; `becomes`,
    the name and node of the new operator (null: none); and a suggestion that gives that operator the state: a
    uid or uid_hash, and a max_parallelism or parallelism if its own do not fit. The suggestion is null if
    there is none, or if it could lose or mix state: `because` is the reason. A row of `taken` has the
    operator that gets its state (`by`). A row of `mismatched` has that too, and a suggestion for it, empty if
    it is another operator or does not decide alone for its task. A row of `warnings` has `by` and a `warning`
    (see WARNINGS).
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
    # Without state nothing is lost, but keyed state that begins empty deserves a warning.
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
"""Text of warnings after the operator's name.

Source: StreamTaskStateInitializerImpl.keyedStatedBackend, which leaves keyed state unread without a key
serializer, and StreamOperatorStateHandler.
"""


def _warning() -> pl.Expr:
    """Return the warning about a state and the operator with its id; null if there is none."""
    was, now = pl.col("is_keyed"), pl.col("holder_keyed")
    old_class, new_class = pl.col("operator_class"), pl.col("holder_class")
    simple = [name.str.extract(r"([^.]+)$") for name in (old_class, new_class)]
    return (
        pl.when(was & ~now)
        .then(pl.lit(NO_LONGER_KEYED))
        .when(~was & now)
        .then(pl.lit(NEWLY_KEYED))
        .when((pl.col("among_sources") != pl.col("holder_source")) | (simple[0] != simple[1]))
        .then(pl.lit(OTHER_CLASS))
    )


def _with_fit(states: pl.DataFrame, new: KeyedPlans) -> pl.DataFrame:
    """Add `can_set_max` and `can_set_parallelism` to states, which tell if these operator settings help.

    A task has one max parallelism, its head's, for the states of all its operators. A chain stays together
    only if all its operators get another parallelism.
    """
    vertex, node = pl.coalesce("holder_vertex", "new_vertex"), pl.coalesce("holder_node", "new_node")
    sizes = new.operators.group_by(TOPOLOGY, task="vertex").agg(size=pl.len())
    is_same_operator = (node == pl.col("new_node")) & (pl.len().over(TOPOLOGY, "node") == 1)
    states = states.with_columns(task=vertex, is_own=is_same_operator.fill_null(value=False))
    states = states.join(sizes, on=[TOPOLOGY, "task"], how="left", maintain_order="left")
    one_max = pl.col("effective_max_parallelism").n_unique().over(TOPOLOGY, "task") == 1
    whole = pl.col("is_own").sum().over(TOPOLOGY, "task") == pl.col("size")
    return states.with_columns(
        can_set_max=(pl.col("is_own") & one_max & (node == pl.col("task"))).fill_null(value=False),
        can_set_parallelism=(pl.col("is_own") & one_max & whole).fill_null(value=False),
    )


def _holders(new: KeyedPlans) -> pl.DataFrame:
    """Return facts of the operators in which Flink looks for state, by each of their ids.

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
    """Return settings of an operator (in SQL, of its job) that make the state fit; None if none do."""
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


# Pairing of topologies, and the pairs that need comparison.


TOPOLOGIES_AT_ONCE = 100_000
"""Names of a side in memory at a time, approximately."""
OPERATORS_PER_SLICE = 50_000
"""Operators of both sides compared at a time, approximately; a topology is never divided."""


class Part(NamedTuple):
    """Topologies to compare, by name, in slices that fit in memory.

    `pairs`: old_id, new_id, name and slice; an id is null if only the other side has the topology. `equal`:
    number of other topologies of this part that are equal.
    """

    pairs: pl.DataFrame
    slices: int
    equal: int


def pair_topologies(old: Side, new: Side, in_both: int = 0) -> Iterator[Part]:
    """Yield all topologies that are not known to be equal, in parts of about TOPOLOGIES_AT_ONCE.

    Topologies are paired by name; if each side has only one, these two. They are known to be equal if their
    fingerprints are, and both sides were planned in the same way. `in_both`: number of additional equal
    topologies on both sides.
    """
    counts = [int(side.topologies.select(pl.len()).collect().item()) for side in (old, new)]
    parts = max(1, -(-max(counts) // TOPOLOGIES_AT_ONCE))
    for part in range(parts):
        mine = (pl.col(TOPOLOGY) % parts + parts) % parts == part
        known = [side.topologies.filter(mine) if parts > 1 else side.topologies for side in (old, new)]
        old_part, right = pl.collect_all(known)
        paired = _alone(old_part, right) if counts == [1, 1] and not in_both else _paired(old_part, right)
        same = pl.lit(old.planned_as == new.planned_as) & (pl.col("fingerprint") == pl.col("fingerprint_new"))
        candidates = paired.filter(~same.fill_null(False)).select("old_id", "new_id", "name")
        pairs = _in_slices(old, new, candidates.sort("name"))
        yield Part(pairs, pairs[SLICE].n_unique(), len(paired) - len(pairs))


def _paired(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    joined = left.rename({TOPOLOGY: "old_id"}).join(
        right.select("name", new_id=TOPOLOGY, fingerprint_new="fingerprint"),
        on="name",
        how="full",
        coalesce=True,
    )
    return joined.select("old_id", "new_id", "name", "fingerprint", "fingerprint_new")


def _alone(left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "old_id": left[TOPOLOGY],
            "new_id": right[TOPOLOGY],
            "name": right["name"],
            "fingerprint": left["fingerprint"],
            "fingerprint_new": right["fingerprint"],
        }
    )


def _in_slices(old: Side, new: Side, candidates: pl.DataFrame) -> pl.DataFrame:
    """Number pairs by slice, each with as many operators as fit; read nothing if there are no pairs."""
    if candidates.is_empty():
        return candidates.with_columns(pl.lit(0, pl.Int64).alias(SLICE))
    sizes = []
    for side, key in ((old, "old_id"), (new, "new_id")):
        chosen = candidates.lazy().select(pl.col(key).alias(TOPOLOGY)).drop_nulls()
        size = side.operators.join(chosen, on=TOPOLOGY, how="semi").group_by(TOPOLOGY).len(f"{key}_rows")
        sizes.append(size.rename({TOPOLOGY: key}))
    counted = candidates.lazy()
    for size, key in zip(sizes, ("old_id", "new_id"), strict=True):
        counted = counted.join(size, on=key, how="left", maintain_order="left")
    rows = pl.lit(1, pl.Int64)
    for key in ("old_id", "new_id"):
        rows = rows + pl.col(f"{key}_rows").cast(pl.Int64).fill_null(0)
    numbered = counted.select("old_id", "new_id", "name", rows.alias(SLICE).cum_sum() // OPERATORS_PER_SLICE)
    # A topology larger than a slice skips numbers.
    return numbered.with_columns(pl.col(SLICE).rle_id().cast(pl.Int64)).collect(engine="streaming")


# The differences, slice by slice.


def diff_sides(
    old: Side,
    new: Side,
    counts: Counts,
    stateful: Sequence[str] = (),
    in_both: int = 0,
) -> Iterator[TopologyDiff]:
    """Yield topologies that are added, removed or changed, slice by slice, each by name.

    `counts` counts all topologies; its `source` is the source of the new jobs' state. `stateful`: patterns
    (fnmatch, case-sensitive) for names and uids of the operators that have state; if empty, keyed operators,
    sources and sinks. `in_both`: number of additional equal topologies on both sides. One slice is in memory
    at a time. Raises the errors of the sides' plans.
    """
    counts.topologies[Change.EQUAL] += in_both
    for part in pair_topologies(old, new, in_both):
        counts.topologies[Change.EQUAL] += part.equal
        for topology in _diff_part(old, new, part, stateful, counts.source):
            if topology.change == Change.EQUAL:
                counts.topologies[Change.EQUAL] += 1
            else:
                counts.add(topology)
                yield topology


def _diff_part(
    old: Side, new: Side, part: Part, stateful: Sequence[str], source: RestoreFrom
) -> Iterator[TopologyDiff]:
    if not part.slices:
        return
    # Only the names of removed topologies are printed.
    old_id_of_changed = pl.when(pl.col("new_id").is_not_null()).then("old_id")
    pairs = part.pairs.with_columns(old_kept=old_id_of_changed)
    before, after = (
        side.plans(pairs.select(pl.col(key).alias(TOPOLOGY), SLICE).drop_nulls(TOPOLOGY), part.slices)
        for side, key in ((old, "old_kept"), (new, "new_id"))
    )
    for number in range(part.slices):
        chosen = pairs.filter(pl.col(SLICE) == number)
        yield from _diff_slice(
            keyed_plans(next(before), chosen["old_kept"]),
            keyed_plans(next(after), chosen["new_id"]),
            chosen.select("old_id", "new_id", "name"),
            stateful,
            source,
        )


def _diff_slice(
    before: KeyedPlans,
    after: KeyedPlans,
    pairs: pl.DataFrame,
    stateful: Sequence[str],
    source: RestoreFrom,
) -> Iterator[TopologyDiff]:
    edges = (before.tables["stream_edges"], after.tables["stream_edges"])
    matched = match_operators(before.operators, after.operators, *edges)
    changed = changed_plans(before, after, matched)
    entries = before.operators.with_columns(has_state=_has_state(before.operators, stateful))
    listed = pl.lit(True) if source is RestoreFrom.LAST_STATE else pl.col("has_state")
    lost = _lost_operators(entries.with_columns(is_listed=listed), after, matched)
    with_state = entries.filter("has_state")
    verdicts = _verdicts(before, after, pairs["name"], with_state, lost, source)
    same_topologies = equal_but_for_numbers(before, after)
    for number, (old_id, new_id, name) in enumerate(pairs.iter_rows()):
        refused = {
            side: plans.refusals[number]
            for side, plans in (("old", before), ("new", after))
            if number in plans.refusals
        }
        if old_id is None or new_id is None:
            yield TopologyDiff(name, Change.ADDED if old_id is None else Change.REMOVED, refused)
        elif refused:
            same = len(refused) == 2 and refused["old"] == refused["new"]
            yield TopologyDiff(name, Change.EQUAL if same else Change.CHANGED, refused)
        else:
            yield _changed(name, number, number in same_topologies, verdicts[number], lost, changed)


def _changed(
    name: str,
    number: int,
    same_topology: bool,
    verdict: RestoreResult,
    lost: LostOperators,
    changed: ChangedPlans,
) -> TopologyDiff:
    """Return the difference. An unchanged topology is equal if its plan is, even if planned differently."""
    topology = TopologyDiff(
        name,
        Change.CHANGED,
        restored=verdict,
        lost=lost.lost.get(number, []),
        taken=lost.taken.get(number, []),
        # Without a savepoint, Flink compares only within tasks that have state.
        mismatched=lost.mismatched.get(number, []) if verdict.why_refused or verdict.strict else [],
        warnings=lost.warnings.get(number, []),
        operators={change: rows.get(number, []) for change, rows in changed.operators.items()},
        split=changed.split.get(number, []),
        joined=changed.joined.get(number, []),
        data_sets=changed.data_sets.get(number, []),
        totals=changed.totals.get(number, {}),
    )
    return TopologyDiff(name, Change.EQUAL) if same_topology and not topology.changes_plan else topology


def _has_state(operators: pl.DataFrame, stateful: Sequence[str]) -> pl.Expr:
    if not stateful:
        return pl.col("has_state")
    matching = re.compile("|".join(map(translate, stateful)))
    known = pl.concat([operators["name"], operators["uid"]]).drop_nulls().unique()
    chosen = [name for name in known if matching.match(name)]
    return pl.any_horizontal(pl.col("name", "uid").is_in(chosen))


@without_garbage_collection()
def _verdicts(
    old: KeyedPlans,
    new: KeyedPlans,
    names: pl.Series,
    with_state: pl.DataFrame,
    lost: LostOperators,
    source: RestoreFrom,
) -> Mapping[int, RestoreResult]:
    """Return the verdicts on topologies that both sides planned. `with_state`: operators that have state.

    If every state has an operator that it fits, Flink accepts it, unless uid hashes give an operator a second
    id: only the other jobs are restored one by one.
    """
    planned = [side.tables["topologies"] for side in (old, new)]
    both = planned[0].join(planned[1], on=TOPOLOGY, how="semi")[TOPOLOGY].to_list()
    has_second_id = new.operators.filter(pl.col("user_defined_operator_id").is_not_null())[TOPOLOGY]
    doubtful = {*lost.lost, *lost.mismatched, *has_second_id}
    before, after = _jobs(old, doubtful), _jobs(new, doubtful)
    nodes: dict[int, set[int]] = {}
    for topology, node in with_state.select(TOPOLOGY, "node").iter_rows():
        nodes.setdefault(topology, set()).add(node)
    return {
        number: restored(
            names[number],
            before[number],
            after[number],
            frozenset(nodes.get(number, ())),
            source,
            with_empty=True,
        )
        if number in doubtful
        else RestoreResult(names[number], source=source)
        for number in both
    }


def _jobs(side: KeyedPlans, chosen: Collection[int]) -> dict[int, Job]:
    tables: dict[str, Any] = {
        table: side.tables[table].filter(pl.col(TOPOLOGY).is_in(list(chosen))) for table in JOB_COLUMNS
    }
    tables["topologies"] = tables["topologies"].select(TOPOLOGY, name=pl.col(TOPOLOGY).cast(pl.String))
    return {int(name): job for name, job in jobs_to_restore(tables).items()}
