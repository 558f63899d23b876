"""All topologies of two sides that are not equal."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.views.diff.changed_plans import ChangedPlans, changed_plans
from penstock.engine.views.diff.keyed_plans import KeyedPlans, equal_but_for_numbers, keyed_plans
from penstock.engine.views.diff.lost_operators import LostOperators, lost_operators
from penstock.engine.views.diff.match_operators import match_operators
from penstock.engine.views.diff.rows_of_slices import SLICE
from penstock.engine.views.diff.savepoint_verdicts import Restored, RestoreFrom, restored
from penstock.engine.views.diff.side import Side
from penstock.engine.views.diff.topology_diff import Change, Counts, TopologyDiff
from penstock.plans.planners.plan_in_parts import without_garbage_collection
from penstock.plans.savepoint.restore_savepoint import JOB_COLUMNS, Job, jobs_to_restore
from penstock.plans.tables.column_types import TOPOLOGY

# Which topologies two sides share, and which of them have to be looked at.


TOPOLOGIES_AT_ONCE = 100_000
"""About how many names of a side are in memory at a time."""
OPERATORS_OF_A_SLICE = 50_000
"""About how many operators of both sides are compared at a time; a topology is never divided."""


class Part(NamedTuple):
    """Topologies to compare, by name, in slices that fit in memory.

    `pairs`: old_id, new_id, name and slice, one of the ids null where it is on one side only. `equal`: how
    many others of this part have been found equal.
    """

    pairs: pl.DataFrame
    slices: int
    equal: int


def pair_topologies(old: Side, new: Side, in_both: int = 0) -> Iterator[Part]:
    """All topologies that are not known to be equal, in parts of about TOPOLOGIES_AT_ONCE.

    Topologies are paired by name; if each side has only one, these two. They are known to be equal if their
    fingerprints are, and both sides were planned in the same way. `in_both`: how many equal topologies both
    sides have beside these.
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
    """Pairs with the number of their slice, which holds as many operators as fit; reads nothing for none."""
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
    numbered = counted.select("old_id", "new_id", "name", rows.alias(SLICE).cum_sum() // OPERATORS_OF_A_SLICE)
    # A topology larger than a slice leaves numbers out.
    return numbered.with_columns(pl.col(SLICE).rle_id().cast(pl.Int64)).collect(engine="streaming")


# The differences, slice by slice.


def diff_sides(
    old: Side,
    new: Side,
    counts: Counts,
    stateful: Sequence[str] = (),
    in_both: int = 0,
) -> Iterator[TopologyDiff]:
    """Topologies that are added, removed or changed, in slices, each by name; `counts` counts all, and its
    `source` is what the new jobs restore their state from.

    `stateful`: patterns (as of fnmatch, case counts) for names and uids of the operators that have state;
    none: keyed operators, sources and sinks have. `in_both`: how many equal topologies both sides have beside
    these. One slice is in memory at a time. Raises what the sides' plans raise.
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
    # Only the names of removed topologies are shown.
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
    lost = lost_operators(entries.with_columns(is_listed=listed), after, matched)
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
    verdict: Restored,
    lost: LostOperators,
    changed: ChangedPlans,
) -> TopologyDiff:
    """The difference; a topology that is the same, and planned alike in another way, is equal."""
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
) -> Mapping[int, Restored]:
    """The verdicts on topologies that both sides planned. `with_state`: the operators that have state.

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
            source,
            with_empty=True,
        )
        if number in doubtful
        else Restored(names[number], source=source)
        for number in both
    }


def _jobs(side: KeyedPlans, chosen: Collection[int]) -> dict[int, Job]:
    tables: dict[str, Any] = {
        table: side.tables[table].filter(pl.col(TOPOLOGY).is_in(list(chosen))) for table in JOB_COLUMNS
    }
    tables["topologies"] = tables["topologies"].select(TOPOLOGY, name=pl.col(TOPOLOGY).cast(pl.String))
    return {int(name): job for name, job in jobs_to_restore(tables).items()}
