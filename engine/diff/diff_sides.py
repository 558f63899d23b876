"""All topologies of two sides that are not equal."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import translate
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.diff.changed_plans import ChangedPlans, changed_plans
from penstock.engine.diff.keyed_plans import KeyedPlans, keyed_plans
from penstock.engine.diff.lost_operators import LostOperators, lost_operators
from penstock.engine.diff.rows_of_slices import SLICE
from penstock.engine.diff.savepoint_verdicts import Restored, restored
from penstock.engine.diff.side import Side
from penstock.engine.diff.topology_diff import Change, Counts, TopologyDiff
from penstock.plans.columnar.plan_in_parts import without_garbage_collection
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
        for topology in _diff_part(old, new, part, stateful):
            if topology.change == Change.EQUAL:
                counts.topologies[Change.EQUAL] += 1
            else:
                counts.add(topology)
                yield topology


def _diff_part(old: Side, new: Side, part: Part, stateful: Sequence[str]) -> Iterator[TopologyDiff]:
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
    topology = TopologyDiff(
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
    return TopologyDiff(name, Change.EQUAL) if same_topology and not topology.changes_plan else topology


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


# Which operator of the new topology is which of the old one.


_OCCURRENCE = "occurrence"


def match_operators(old: pl.DataFrame, new: pl.DataFrame) -> pl.DataFrame:
    """(topology_id, old_node, new_node) of operators that are the same; each is in one row at most.

    `old` and `new` have topology_id, node, name, uid, operator_id and user_defined_operator_id; a topology
    and its older one share topology_id. What counts, in this order: the uid; a uid hash of the new one; name
    and operator id; the name, the first with the first of that name; the operator id alone (a renamed one).
    """
    matches: list[pl.DataFrame] = []
    for old_keys, right in (
        (("uid",), ("uid",)),
        (("operator_id",), ("user_defined_operator_id",)),
        (("name", "operator_id"), ("name", "operator_id")),
        (("name", _OCCURRENCE), ("name", _OCCURRENCE)),
        (("operator_id",), ("operator_id",)),
    ):
        old, new = _numbered(old), _numbered(new)
        matched = _once(old, old_keys).join(
            _once(new, right),
            left_on=[TOPOLOGY, *old_keys],
            right_on=[TOPOLOGY, *right],
            how="inner",
        )
        matched = matched.select(TOPOLOGY, old_node="node", new_node="node_right")
        matches.append(matched)
        old = old.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "old_node"], how="anti")
        new = new.join(matched, left_on=[TOPOLOGY, "node"], right_on=[TOPOLOGY, "new_node"], how="anti")
    return pl.concat(matches)


def _numbered(operators: pl.DataFrame) -> pl.DataFrame:
    """Operators numbered among those of the same name."""
    return operators.sort(TOPOLOGY, "node").with_columns(
        pl.int_range(pl.len()).over(TOPOLOGY, "name").alias(_OCCURRENCE)
    )


def _once(operators: pl.DataFrame, key: tuple[str, ...]) -> pl.DataFrame:
    """The first operator of each key; operators whose key is null are dropped."""
    keyed = operators.drop_nulls(key).unique([TOPOLOGY, *key], keep="first", maintain_order=True)
    return keyed.select(TOPOLOGY, *key, "node")
