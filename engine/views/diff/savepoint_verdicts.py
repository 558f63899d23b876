"""Check whether the state of old topologies can be restored in new ones."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.engine.views.diff.keyed_plans import TOTALS, Totals
from penstock.plans.errors import InputError, WorseVerdictError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.layers import PlanOptions
from penstock.plans.printable import MOST_OF_A_NAME, limited
from penstock.plans.restore_savepoint import (
    JOB_COLUMNS,
    Failure,
    Job,
    SavepointState,
    jobs_to_restore,
    restore_last_state,
    restore_savepoint,
    take_last_state,
    take_savepoint,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.find_topology_files import find_topology_files
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.parse_block import LineBlock
from penstock.plans.topology.parse_lines import lines_of
from penstock.plans.topology.read_topology_files import blocks_of_files
from penstock.plans.topology.validate_topology import reason_of_json
from penstock.plans.vocabulary import Layer

# Files of pairs: an old and a new topology, and the operators that have state.


BYTES_OF_A_PART = 1 << 23
_SHOWN = 5


class Pair(NamedTuple):
    """Two topologies as in topology files. `stateful`: ids of operators; None: all have state."""

    name: str
    old: dict[str, Any]
    new: dict[str, Any]
    stateful: frozenset[int] | None


def read_pairs(path: str) -> Iterator[list[Pair]]:
    """Read the pairs of JSON lines in a file (.gz, - for standard input), directory or glob, in parts.

    A part is about BYTES_OF_A_PART of lines. Raises InputError for the errors of find_topology_files, for a
    file without a pair, and for all lines of a part that are not pairs.
    """
    part: list[Pair] = []
    wrong: list[str] = []
    size, pairs_read = 0, 0
    for place, line in _lines(path):
        pair = _pair_of(line)
        size += len(line)
        pairs_read += 1
        if isinstance(pair, Pair):
            part.append(pair)
        else:
            wrong.append(f"{place}: {pair}")
        if size >= BYTES_OF_A_PART:
            _require_pairs(wrong)
            yield part
            part, size = [], 0
    _require_pairs(wrong)
    if part:
        yield part
    if not pairs_read:
        raise InputError(f"no pairs in {path}", 'a line is {"name": …, "old": {…}, "new": {…}}')


def _lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the place and content of each line that is not blank."""
    for block in blocks_of_files(find_topology_files([path]), MAX_LINE_BYTES):
        if isinstance(block, LineBlock):
            data, file, first = block
            for number, line in enumerate(data.split(b"\n")[:-1], first + 1):
                if line.strip():
                    yield f"line {number} of {file}", line
            continue
        for held in lines_of([block]):
            place = f"line {(held.line if held.line is not None else held.ordinal or 0) + 1}"
            place = f"{place} of {held.source_file}"
            if held.problem is not None or held.too_long_bytes is not None:
                raise InputError(f"{place}: {held.problem or 'it is too long'}", "split or repair the file")
            if held.value.strip():
                yield place, held.value


def _pair_of(line: bytes) -> Pair | str:
    """Parse the pair in a line, or return a sentence about its error."""
    try:
        record = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return f"not JSON: {reason_of_json(line, error)}"
    if not isinstance(record, dict):
        return f"must be an object with old and new, got {type(record).__name__}"
    for key in ("old", "new"):
        if not isinstance(record.get(key), dict):
            kind = "a value of another kind" if key in record else "nothing"
            return f"{key} must be a topology, got {kind}"
    name, stateful = record.get("name", ""), record.get("stateful")
    if not isinstance(name, str):
        return "name must be text"
    if stateful is None:
        return Pair(name, record["old"], record["new"], None)
    if not isinstance(stateful, list) or any(type(node) is not int for node in stateful):
        return "stateful, if given, must be a list of ids of transformations"
    return Pair(name, record["old"], record["new"], frozenset(stateful))


def _require_pairs(wrong: list[str]) -> None:
    if wrong:
        more = f"\n  and {len(wrong) - _SHOWN:,} more" if len(wrong) > _SHOWN else ""
        raise InputError(
            "not pairs of topologies:\n  " + "\n  ".join(wrong[:_SHOWN]) + more,
            'a line is {"name": …, "old": {…}, "new": {…}, "stateful": [ids]}; stateful is optional',
        )


class RestoreFrom(StrEnum):
    """Values of --from, the source of the new job's state."""

    SAVEPOINT = "savepoint"
    LAST_STATE = "last-state"


class Verdict(StrEnum):
    """The fate of the state, best first."""

    RESTORES = "restores"
    RESTORES_WITH_WARNINGS = "restores-with-warnings"
    ALLOW_NON_RESTORED = "allow-non-restored"
    REFUSED = "refused"
    NOT_PLANNED = "not-planned"

    @property
    def rank(self) -> int:
        """Return 0 for the best verdict, larger numbers for worse ones."""
        return list(Verdict).index(self)


VERDICT_WORDS = {
    Verdict.RESTORES: "restored",
    Verdict.RESTORES_WITH_WARNINGS: "restored with warnings",
    Verdict.ALLOW_NON_RESTORED: "restored only with --allow-non-restored-state",
    Verdict.REFUSED: "refused",
    Verdict.NOT_PLANNED: "not planned",
}


class RestoreResult(NamedTuple):
    """Flink's answer to a pair.

    `unplanned`: the reason if it does not plan one of the two topologies, checking the old one first.
    Otherwise `strict` and `allow_non_restored` are its errors without and with --allow-non-restored-state, or
    `last_state` its error if it restores without a savepoint; None: it restores.
    """

    name: str
    unplanned: Failure | None = None
    strict: Failure | None = None
    allow_non_restored: Failure | None = None
    last_state: Failure | None = None
    source: RestoreFrom = RestoreFrom.SAVEPOINT

    @property
    def verdict(self) -> Verdict:
        """Return the verdict."""
        if self.unplanned is not None:
            return Verdict.NOT_PLANNED
        if self.why_refused is not None:
            return Verdict.REFUSED
        return Verdict.RESTORES if self.strict is None else Verdict.ALLOW_NON_RESTORED

    @property
    def why_refused(self) -> Failure | None:
        """Return the error that no option avoids."""
        return self.last_state if self.source is RestoreFrom.LAST_STATE else self.allow_non_restored

    def as_json(self) -> dict[str, Any]:
        """Return the verdict as JSON (see docs/savepoints.md)."""
        if self.unplanned is not None:
            return {"name": self.name, **self.unplanned._asdict()}
        return {"name": self.name} | self.answers()

    def answers(self) -> dict[str, Any]:
        """Return Flink's answers by key, "ok" or its error and message."""
        errors = {"strict": self.strict, "allow_non_restored": self.allow_non_restored}
        if self.source is RestoreFrom.LAST_STATE:
            errors = {"last_state": self.last_state}
        return {key: "ok" if why is None else why._asdict() for key, why in errors.items()}


def savepoint_verdicts(
    pairs: Sequence[Pair],
    job_defaults: JobDefaults = NO_DEFAULTS,
    source: RestoreFrom = RestoreFrom.SAVEPOINT,
) -> Iterator[RestoreResult]:
    """Yield Flink's answer to each pair, in order; both topologies are planned with `job_defaults`.

    Raises NotEnoughMemoryError before memory runs out.
    """
    topologies = [
        {**topology, "name": f"{side} {number}"}
        for number, pair in enumerate(pairs)
        for side, topology in (("old", pair.old), ("new", pair.new))
    ]
    options = PlanOptions(Layer.EXECUTION_GRAPH, job_defaults=job_defaults)
    planned = plan_in_process(topologies, options).tables
    jobs = jobs_to_restore(
        {name: from_arrow(planned[name].select(JOB_COLUMNS[name])) for name in JOB_COLUMNS}
    )
    nodes_of = _nodes_by_transformation(planned)
    rejected = from_arrow(planned["rejected"].select(["name", "error", "message"]))
    refusals = {name: Failure(error, message) for name, error, message in rejected.iter_rows()}
    for number, pair in enumerate(pairs):
        old, new = f"old {number}", f"new {number}"
        if (refusal := refusals.get(old) or refusals.get(new)) is not None:
            yield RestoreResult(pair.name, refusal, source=source)
            continue
        stateful = pair.stateful
        if stateful is not None:
            stateful = frozenset(
                node for transformation in stateful for node in nodes_of.get((old, transformation), ())
            )
        yield restored(pair.name, jobs[old], jobs[new], stateful, source)


def _nodes_by_transformation(planned: Mapping[str, pa.Table]) -> dict[tuple[str, int], list[int]]:
    """Map (topology's name, transformation) to its stream nodes, several for a sink."""
    names = dict(from_arrow(planned["topologies"].select([TOPOLOGY, "name"])).iter_rows())
    nodes_of: dict[tuple[str, int], list[int]] = {}
    nodes = from_arrow(planned["stream_nodes"].select([TOPOLOGY, "id", "transformation"]))
    for topology, node, transformation in nodes.iter_rows():
        made_from = node if transformation is None else transformation
        nodes_of.setdefault((names[topology], made_from), []).append(node)
    return nodes_of


def restored(
    name: str,
    old: Job,
    new: Job,
    stateful: frozenset[int] | None = None,
    source: RestoreFrom = RestoreFrom.SAVEPOINT,
    *,
    with_empty: bool = False,
) -> RestoreResult:
    """Return Flink's answer when the state of `old` is restored in `new`; for `stateful` see take_savepoint.

    `with_empty`: the savepoint also has entries of operators without state, like Flink's savepoints.
    """
    if source is RestoreFrom.LAST_STATE:
        last_state = restore_last_state(take_last_state(old, stateful), new)
        return RestoreResult(name, last_state=last_state, source=source)
    return restored_states(name, take_savepoint(old, stateful, with_empty=with_empty), new)


def restored_states(name: str, states: Sequence[SavepointState], new: Job) -> RestoreResult:
    """Return Flink's answer when the entries of a savepoint are restored in `new`."""
    strict = restore_savepoint(states, new, allow_non_restored_state=False)
    if strict is None:  # if no state is skipped, the option changes nothing
        return RestoreResult(name)
    return RestoreResult(name, None, strict, restore_savepoint(states, new, allow_non_restored_state=True))


# `penstock diff --require`: accepted verdicts, and the error for worse ones.


KEEP_ALL_IDS = (
    "give every operator the uid, or the uid hash, that it had; or stop the job with a savepoint, and start "
    "from it with allowNonRestoredState"
)
KEEP_IDS = "give operators with state the uid, or the uid hash, that they had; keep their max parallelism"


class RequiredVerdict(StrEnum):
    """Values of --require."""

    RESTORES = Verdict.RESTORES.value
    RESTORES_WITH_WARNINGS = Verdict.RESTORES_WITH_WARNINGS.value
    ALLOW_NON_RESTORED = Verdict.ALLOW_NON_RESTORED.value
    REFUSED = Verdict.REFUSED.value


class WorseVerdict:
    """Counts verdicts that are worse than required, and keeps the first names."""

    def __init__(self, required: RequiredVerdict | None) -> None:
        self._required = required
        self._number = 0
        self._shown: list[str] = []
        self._unnamed = 0
        self._line_of_unnamed = ""
        self._hint = "Flink or Penstock refuse topologies that are not planned: see the reasons in the output"

    def add(self, name: str, verdict: Verdict | None, hint: str = KEEP_IDS) -> None:
        """Add a verdict; None is never worse. `hint`: a remedy for this verdict."""
        if self._required is None or verdict is None:
            return
        if verdict.rank <= Verdict(self._required.value).rank:
            return
        self._number += 1
        if verdict != Verdict.NOT_PLANNED:
            self._hint = hint
        if len(self._shown) < _SHOWN:
            self._shown.append(f"\n  {limited(name, MOST_OF_A_NAME)!r}: {VERDICT_WORDS[verdict]}")

    def add_unnamed(self, source: str, number: int) -> None:
        """Add refused inputs of the new side that no name pairs, as not planned."""
        if self._required is None or number <= 0:
            return
        inputs = "1 more refused input" if number == 1 else f"{number:,} more refused inputs"
        self._unnamed = number
        self._line_of_unnamed = (
            f"\n  {source}: {inputs} without a readable name, or with another input's name"
        )

    def raise_if_any(self, out_of: int, named: str) -> None:
        """Raise WorseVerdictError if any of `out_of` named verdicts was worse; `named` is their noun."""
        number = self._number + self._unnamed
        if not number:
            return
        more = f"\n  and {self._number - _SHOWN:,} more" if self._number > _SHOWN else ""
        raise WorseVerdictError(
            f"{number:,} of {out_of + self._unnamed:,} {named} {'is' if number == 1 else 'are'} worse than "
            f"--require {self._required}:{''.join(self._shown)}{more}{self._line_of_unnamed}",
            self._hint,
        )


# Differences between a topology of one side and the other side's.


class Change(StrEnum):
    """Ways in which a topology can differ."""

    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"
    EQUAL = "equal"


@dataclass(frozen=True)
class TopologyDiff:
    """One topology that differs.

    `refused`: side ("old", "new") to the reason why Flink or Penstock refused it there. `restored`: Flink's
    answer to the state of the old topology; None if there is no old one, or the new one was refused. `lost`,
    `taken`, `mismatched` and `warnings` as in LostOperators, `operators` and all after as in ChangedPlans.
    """

    name: str
    change: Change
    refused: Mapping[str, Failure] = field(default_factory=dict)
    restored: RestoreResult | None = None
    lost: list[dict[str, Any]] = field(default_factory=list)
    taken: list[dict[str, Any]] = field(default_factory=list)
    mismatched: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[dict[str, Any]] = field(default_factory=list)
    operators: Mapping[str, list[dict[str, Any]]] = field(default_factory=dict)
    split: list[dict[str, Any]] = field(default_factory=list)
    joined: list[dict[str, Any]] = field(default_factory=list)
    data_sets: list[dict[str, Any]] = field(default_factory=list)
    totals: Totals = field(default_factory=dict)

    @property
    def verdict(self) -> Verdict | None:
        """Return the fate of the state; None if there is nothing to restore."""
        if "new" in self.refused and "old" not in self.refused:
            return Verdict.NOT_PLANNED
        if self.restored is None:
            return None
        verdict = self.restored.verdict
        warned = self.taken or any(row["has_state"] for row in self.warnings)
        return Verdict.RESTORES_WITH_WARNINGS if warned and verdict is Verdict.RESTORES else verdict

    @property
    def hint(self) -> str:
        """Return a remedy for the verdict."""
        if self.verdict is Verdict.REFUSED and self.restored and self.restored.last_state:
            return KEEP_ALL_IDS
        if any(row.get("suggestion") for row in (*self.lost, *self.mismatched)):
            return KEEP_IDS
        if self.verdict is Verdict.RESTORES_WITH_WARNINGS:
            return "keep their keys and kind; or give them new uids, which starts them without state"
        return "no id or setting keeps all of this state: see the operators in the output"

    def as_json(self) -> dict[str, Any]:
        """Return the difference in the form of docs/comparing.md."""
        result: dict[str, Any] = {"name": self.name, "change": self.change, "verdict": self.verdict}
        if self.refused:
            result["refused"] = {side: why._asdict() for side, why in self.refused.items()}
        if self.restored is not None:
            result |= self.restored.answers()
            result |= {"lost": self.lost, "taken": self.taken, "mismatched": self.mismatched}
            result |= {"warnings": self.warnings}
            result |= {"operators": dict(self.operators)}
            result |= {"chains": {"split": self.split, "joined": self.joined}, "data_sets": self.data_sets}
            result |= {name: _old_and_new(self.totals.get(name)) for name in TOTALS}
        return result

    @property
    def changes_plan(self) -> bool:
        """Return whether any compared part of the plan differs."""
        changes = (*self.operators.values(), self.split, self.joined, self.data_sets)
        return any(changes) or bool(self.totals)


@dataclass
class Counts:
    """Counts of topologies by change, of verdicts, and of changes in topologies by kind.

    `source`: the source of the new jobs' state.
    """

    source: RestoreFrom = RestoreFrom.SAVEPOINT
    topologies: Counter[Change] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[Verdict] = field(default_factory=Counter)
    operators: Counter[str] = field(default_factory=Counter)
    lost: int = 0
    taken: int = 0
    mismatched: int = 0
    warned: int = 0
    chains: Counter[str] = field(default_factory=Counter)
    data_sets: Counter[str] = field(default_factory=Counter)
    totals: Totals = field(default_factory=dict)

    def add(self, topology: TopologyDiff) -> None:
        """Count another topology that differs."""
        self.topologies[topology.change] += 1
        self.refused.update(list(topology.refused))
        if topology.verdict is not None:
            self.verdicts[topology.verdict] += 1
        self.operators.update({change: len(rows) for change, rows in topology.operators.items()})
        self.lost += sum(row["has_state"] for row in topology.lost)
        self.taken += len(topology.taken)
        self.mismatched += sum(row["has_state"] for row in topology.mismatched)
        self.warned += sum(row["has_state"] for row in topology.warnings)
        self.chains.update({"split": len(topology.split), "joined": len(topology.joined)})
        self.data_sets.update(row["change"] for row in topology.data_sets)
        self.data_sets.update(
            "other_type" for row in topology.data_sets if row["change"] == "changed" and "type" in row
        )
        for name, (old, new) in topology.totals.items():
            before = self.totals.get(name, (0, 0))
            self.totals[name] = (before[0] + old, before[1] + new)

    def as_json(self) -> dict[str, Any]:
        """Return the counts in the form of docs/comparing.md."""
        return {
            "topologies": {change.value: self.topologies[change] for change in Change},
            "refused": {side: self.refused[side] for side in ("old", "new")},
            "verdicts": {verdict.value: self.verdicts[verdict] for verdict in Verdict},
            "state": {
                **{"lost": self.lost, "taken": self.taken, "mismatched": self.mismatched},
                "warnings": self.warned,
            },
            "operators": dict(self.operators),
            "chains": dict(self.chains),
            "data_sets": dict(self.data_sets),
            **{name: _old_and_new(self.totals.get(name, (0, 0))) for name in TOTALS},
        }


def _old_and_new(values: tuple[int, int] | None) -> dict[str, int] | None:
    return None if values is None else dict(zip(("old", "new"), values, strict=True))
