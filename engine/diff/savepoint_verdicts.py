"""Whether the state of old topologies can be restored in new ones."""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.engine.diff.read_pairs import Pair
from penstock.engine.planning.plan_in_process import plan_in_process
from penstock.plans.columnar.frames import from_arrow
from penstock.plans.savepoint.restore_savepoint import (
    JOB_COLUMNS,
    Failure,
    Job,
    jobs_to_restore,
    restore_savepoint,
    take_savepoint,
)
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.vocabulary import Layer


class Verdict(StrEnum):
    """What becomes of a savepoint, best first."""

    RESTORES = "restores"
    ALLOW_NON_RESTORED = "allow-non-restored"
    REFUSED = "refused"
    NOT_PLANNED = "not-planned"

    @property
    def rank(self) -> int:
        """0 for the best."""
        return list(Verdict).index(self)


VERDICT_WORDS = {
    Verdict.RESTORES: "restored",
    Verdict.ALLOW_NON_RESTORED: "restored only with --allow-non-restored-state",
    Verdict.REFUSED: "refused",
    Verdict.NOT_PLANNED: "not planned",
}


class Restored(NamedTuple):
    """What Flink says to a pair.

    `unplanned`: why it plans one of the two topologies not, the old one first. Else `strict` and
    `allow_non_restored` say why it does not restore without and with --allow-non-restored-state; None: it
    does.
    """

    name: str
    unplanned: Failure | None = None
    strict: Failure | None = None
    allow_non_restored: Failure | None = None

    @property
    def verdict(self) -> Verdict:
        """All of it in one word."""
        if self.unplanned is not None:
            return Verdict.NOT_PLANNED
        if self.allow_non_restored is not None:
            return Verdict.REFUSED
        return Verdict.RESTORES if self.strict is None else Verdict.ALLOW_NON_RESTORED

    def as_json(self) -> dict[str, Any]:
        """In the form of docs/savepoints.md."""
        if self.unplanned is not None:
            return {"name": self.name, **self.unplanned._asdict()}
        said = {"strict": self.strict, "allow_non_restored": self.allow_non_restored}
        return {"name": self.name} | {
            key: "ok" if why is None else why._asdict() for key, why in said.items()
        }


def savepoint_verdicts(pairs: Sequence[Pair], job_defaults: JobDefaults = NO_DEFAULTS) -> Iterator[Restored]:
    """What Flink says to each pair, in order; both topologies are planned with `job_defaults`.

    Raises NotEnoughMemoryError before memory runs out.
    """
    given = [
        {**topology, "name": f"{side} {number}"}
        for number, pair in enumerate(pairs)
        for side, topology in (("old", pair.old), ("new", pair.new))
    ]
    planned = plan_in_process(given, until=Layer.EXECUTION_GRAPH, job_defaults=job_defaults).tables
    jobs = jobs_to_restore(
        {name: from_arrow(planned[name].select(JOB_COLUMNS[name])) for name in JOB_COLUMNS}
    )
    made = _nodes_by_transformation(planned)
    rejected = from_arrow(planned["rejected"].select(["name", "error", "message"]))
    refusals = {name: Failure(error, message) for name, error, message in rejected.iter_rows()}
    for number, pair in enumerate(pairs):
        old, new = f"old {number}", f"new {number}"
        if (refusal := refusals.get(old) or refusals.get(new)) is not None:
            yield Restored(pair.name, refusal)
            continue
        stateful = pair.stateful
        if stateful is not None:
            stateful = frozenset(node for one in stateful for node in made.get((old, one), ()))
        yield restored(pair.name, jobs[old], jobs[new], stateful)


def _nodes_by_transformation(planned: Mapping[str, pa.Table]) -> dict[tuple[str, int], list[int]]:
    """(topology's name, transformation) to the stream nodes that it was made into: of a sink, several."""
    names = dict(from_arrow(planned["topologies"].select([TOPOLOGY, "name"])).iter_rows())
    found: dict[tuple[str, int], list[int]] = {}
    nodes = from_arrow(planned["stream_nodes"].select([TOPOLOGY, "id", "transformation"]))
    for topology, node, transformation in nodes.iter_rows():
        one = node if transformation is None else transformation
        found.setdefault((names[topology], one), []).append(node)
    return found


def restored(name: str, old: Job, new: Job, stateful: frozenset[int] | None = None) -> Restored:
    """What Flink says when the state of `old` is restored in `new`; for `stateful` see take_savepoint."""
    states = take_savepoint(old, stateful)
    strict = restore_savepoint(states, new, allow_non_restored_state=False)
    if strict is None:  # where no state is skipped, the option changes nothing
        return Restored(name)
    return Restored(name, None, strict, restore_savepoint(states, new, allow_non_restored_state=True))
