"""All topologies of two sides that are not equal."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any

import polars as pl

from penstock.engine.diff.changed_plans import ChangedPlans, changed_plans
from penstock.engine.diff.keyed_plans import KeyedPlans, keyed_plans
from penstock.engine.diff.lost_operators import LostOperators, lost_operators
from penstock.engine.diff.match_operators import match_operators
from penstock.engine.diff.pair_topologies import Part, pair_topologies
from penstock.engine.diff.rows_of_slices import SLICE
from penstock.engine.diff.savepoint_verdicts import Restored, restored
from penstock.engine.diff.side import Side
from penstock.engine.diff.topology_diff import Change, Counts, TopologyDiff
from penstock.plans.columnar.plan_in_parts import without_garbage_collection
from penstock.plans.savepoint.restore_savepoint import JOB_COLUMNS, Job, jobs_to_restore
from penstock.plans.tables.column_types import TOPOLOGY


def diff_sides(
    old: Side, new: Side, counts: Counts, stateful: Sequence[str] = (), in_both: int = 0
) -> Iterator[TopologyDiff]:
    """Topologies that are added, removed or changed, in slices, each by name; `counts` counts all.

    `stateful`: patterns (as of fnmatch, case counts) for names and uids of the operators that have state;
    none: keyed operators, sources and sinks have. `in_both`: how many equal topologies both sides have beside
    these. One slice is in memory at a time. Raises what the sides' plans raise.
    """
    counts.topologies[Change.EQUAL] += in_both
    for part in pair_topologies(old, new, in_both):
        counts.topologies[Change.EQUAL] += part.equal
        for one in _diff_part(old, new, part, stateful):
            if one.change == Change.EQUAL:
                counts.topologies[Change.EQUAL] += 1
            else:
                counts.add(one)
                yield one


def _diff_part(old: Side, new: Side, part: Part, stateful: Sequence[str]) -> Iterator[TopologyDiff]:
    if not part.slices:
        return
    # Of those that are removed, nothing but the name is said.
    kept = pl.when(pl.col("new_id").is_not_null()).then("old_id")
    pairs = part.pairs.with_columns(old_kept=kept)
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
        )


def _diff_slice(
    before: KeyedPlans, after: KeyedPlans, pairs: pl.DataFrame, stateful: Sequence[str]
) -> Iterator[TopologyDiff]:
    matched = match_operators(before.operators, after.operators)
    changed = changed_plans(before, after, matched)
    with_state = _with_state(before.operators, stateful)
    lost = lost_operators(with_state, after, matched)
    verdicts = _verdicts(before, after, pairs["name"], with_state, lost)
    fingerprints = [
        dict(side.tables["topologies"].select(TOPOLOGY, "fingerprint").iter_rows())
        for side in (before, after)
    ]
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
            same = fingerprints[0][number] == fingerprints[1][number]
            yield _changed(name, number, same, verdicts[number], lost, changed)


def _changed(
    name: str,
    number: int,
    same_topology: bool,
    verdict: Restored,
    lost: LostOperators,
    changed: ChangedPlans,
) -> TopologyDiff:
    """The difference; a topology that is the same, and planned alike in another way, is equal."""
    found = TopologyDiff(
        name,
        Change.CHANGED,
        restored=verdict,
        lost=lost.lost.get(number, []),
        taken=lost.taken.get(number, []),
        mismatched=lost.mismatched.get(number, []),
        operators={change: rows.get(number, []) for change, rows in changed.operators.items()},
        split=changed.split.get(number, []),
        joined=changed.joined.get(number, []),
        data_sets=changed.data_sets.get(number, []),
        totals=changed.totals.get(number, {}),
    )
    return TopologyDiff(name, Change.EQUAL) if same_topology and not found.changes_plan else found


def _with_state(operators: pl.DataFrame, stateful: Sequence[str]) -> pl.DataFrame:
    if not stateful:
        return operators.filter("has_state")
    matching = re.compile("|".join(map(translate, stateful)))
    known = pl.concat([operators["name"], operators["uid"]]).drop_nulls().unique()
    chosen = [name for name in known if matching.match(name)]
    return operators.filter(pl.any_horizontal(pl.col("name", "uid").is_in(chosen)))


@without_garbage_collection()
def _verdicts(
    old: KeyedPlans, new: KeyedPlans, names: pl.Series, with_state: pl.DataFrame, lost: LostOperators
) -> Mapping[int, Restored]:
    """Of topologies that both sides planned. `with_state`: the operators that have state.

    Where every state has an operator that it fits, Flink has nothing to say, unless uid hashes give an
    operator a second id: only the other jobs are restored one by one.
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
        )
        if number in doubtful
        else Restored(names[number])
        for number in both
    }


def _jobs(side: KeyedPlans, chosen: Collection[int]) -> dict[int, Job]:
    tables: dict[str, Any] = {
        table: side.tables[table].filter(pl.col(TOPOLOGY).is_in(list(chosen))) for table in JOB_COLUMNS
    }
    tables["topologies"] = tables["topologies"].select(TOPOLOGY, name=pl.col(TOPOLOGY).cast(pl.String))
    return {int(name): job for name, job in jobs_to_restore(tables).items()}
