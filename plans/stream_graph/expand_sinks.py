"""Sinks of the Sink V2 API become the operators that Flink makes of them, for both planners.

Source: SinkTransformationTranslator.SinkExpander, GlobalCommitterTransformationTranslator; for ids,
Transformation.getNewNodeId, from which virtual nodes take theirs, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pyarrow as pa

from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.tables.column_types import BOOL, INT
from penstock.plans.vocabulary import (
    SOURCE_KINDS,
    VIRTUAL_KINDS,
    ChainingStrategy,
    Kind,
    Partitioner,
    StreamExchangeMode,
)

EXPANDED = pa.schema(
    [
        *(field for field in TRANSFORMATIONS if field.name != "sink_topology"),
        pa.field("position", INT, False),
        pa.field("transformation", INT, False),
        pa.field("concurrent_attempts", BOOL, False),
    ]
)
"""Rows of transformations after sinks were expanded. position: the order in which Flink translates them, from
1; transformation: the id that the author gave what it was made of."""

_GLOBAL_COMMITTER = "Global Committer"
_WITH_A_NODE_OF_ITS_OWN = (Kind.PARTITION, Kind.SIDE_OUTPUT, Kind.SELECT)
_EMPTY: dict[str, Any] = {"inputs": [], "managed_memory": [], "slot_scope": []}
_BLANK: dict[str, Any] = dict.fromkeys(EXPANDED.names) | _EMPTY
_OF_THE_SINK = ("parallelism", "max_parallelism", "slot_sharing_group")
_GLOBAL: dict[str, Any] = {
    **{"parallelism": 1, "max_parallelism": 1, "chaining": str(ChainingStrategy.ALWAYS)},
    # Of the sink it has the name and the uid only.
    **{"slot_sharing_group": None, "co_location_group": None},
}
_UIDS = {
    Kind.WRITER: "{}",
    Kind.COMMITTER: "Sink Committer: {}",
    Kind.GLOBAL_COMMITTER: "Sink {} Global Committer",
}

Row = Mapping[str, Any]


def expand_sinks(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows of one topology (TRANSFORMATIONS) in the order of their ids, as rows of EXPANDED.

    What a sink becomes stands in its place and has ids after those of all transformations, counted as
    Flink's counter does; the sink itself stays as a union of nothing, so that what reads it reads nothing.
    """
    sinks = [row for row in rows if row["sink_topology"] is not None]
    made = iter(sink_operators([row["kind"] for row in rows], [row["inputs"] for row in rows], sinks))
    expanded: list[dict[str, Any]] = []
    for row in rows:
        kept = {key: value for key, value in row.items() if key != "sink_topology"}
        plain = {"concurrent_attempts": True, **kept, "transformation": row["id"]}
        is_sink = row["sink_topology"] is not None
        expanded += [plain | SINK_ITSELF, *next(made)] if is_sink else [plain]
    return [{**row, "position": position} for position, row in enumerate(expanded, 1)]


SINK_ITSELF: dict[str, Any] = dict.fromkeys((*_OF_THE_SINK, "uid", "co_location_group", "chaining")) | {
    "kind": str(Kind.UNION),
    "inputs": [],
}
"""What a sink that was expanded has in place of its own values."""


def sink_operators(
    kinds: Sequence[str], inputs: Sequence[Sequence[int]], sinks: Sequence[Row]
) -> Iterator[list[dict[str, Any]]]:
    """What each of the `sinks` of a topology becomes, without position.

    In: kind and inputs of all its transformations, whose ids are 1, 2, …; the rows of those sinks.
    """
    ways = _count_ways(kinds, inputs)
    drawn = _drawn_before(kinds, inputs, ways)
    counter, row = len(kinds), 0
    for sink in sinks:
        while row < sink["id"]:
            row += 1
            counter += drawn.get(row, 0)
        made = _Expansion(sink, counter, ways[sink["inputs"][0]])
        yield list(made.rows())
        counter = made.counter


def _count_ways(kinds: Sequence[str], inputs: Sequence[Sequence[int]]) -> list[int]:
    """How many stream nodes each transformation stands for, by its id; a sink stands for none."""
    ways = [0]
    for kind, reads in zip(kinds, inputs, strict=True):
        if kind in VIRTUAL_KINDS:
            ways.append(sum(ways[read] for read in reads))
        else:
            ways.append(0 if kind == Kind.SINK else 1)
    return ways


def _drawn_before(
    kinds: Sequence[str], inputs: Sequence[Sequence[int]], ways: Sequence[int]
) -> dict[int, int]:
    """Id of an operator to how many virtual nodes are made just before it: those it is the first to reach."""
    if not any(kind in _WITH_A_NODE_OF_ITS_OWN for kind in kinds):
        return {}
    first: dict[int, int] = {}
    drawn: dict[int, int] = {}
    for id in range(len(kinds), 0, -1):
        kind = kinds[id - 1]
        reader = first.get(id) if kind in VIRTUAL_KINDS else id
        if reader is None or kind in SOURCE_KINDS:
            continue
        if kind in _WITH_A_NODE_OF_ITS_OWN:
            drawn[reader] = drawn.get(reader, 0) + ways[id]
        for read in inputs[id - 1]:
            first[read] = min(first.get(read, reader), reader)
    return drawn


class _Expansion:
    """What one sink becomes. `counter`: the last id that was given."""

    def __init__(self, sink: Row, counter: int, ways: int) -> None:
        self.sink, self.counter, self.ways = sink, counter, ways
        self.given: dict[str, Any] = orjson.loads(sink["sink_topology"])
        self.read: int = sink["inputs"][0]

    def rows(self) -> Iterator[dict[str, Any]]:
        """All ids are given first, as all transformations are made first; then virtual nodes take theirs."""
        given, made = self.given, list[dict[str, Any]]()
        made += map(self._step, given.get("pre_write", ()))
        made.append(self._operator(Kind.WRITER, "Writer", given["writer"]))
        if "committer" in given:
            made.append(self._fail_over_region())
            made += map(self._step, given.get("pre_commit", ()))
            made.append(self._operator(Kind.COMMITTER, "Committer", given["committer"]))
        if given.get("post_commit") or given.get("global_committer"):
            made.append(self._fail_over_region())
            made += map(self._step, given.get("post_commit", ()))
        if given.get("global_committer"):
            self.counter += 1  # that of GlobalCommitterTransform, which is no node
        last = max((place for place, row in enumerate(made) if row["kind"] != Kind.PARTITION), default=0)
        read = made if given.get("global_committer") else made[: last + 1]
        ways = self.ways
        for row in read:
            if row["kind"] == Kind.PARTITION:
                self.counter += ways
            else:
                ways = 1
        yield from made
        if given.get("global_committer"):
            partition = self._new(Kind.PARTITION, partitioner=str(Partitioner.GLOBAL))
            yield partition
            yield self._operator(Kind.GLOBAL_COMMITTER, _GLOBAL_COMMITTER, {}) | _GLOBAL
            self.counter += 1  # the virtual node of the partition

    def _new(self, kind: str, **keys: Any) -> dict[str, Any]:
        """A row with the next id, which reads the row before it."""
        self.counter += 1
        row = _BLANK | {
            "topology_id": self.sink["topology_id"],
            "id": self.counter,
            "kind": str(kind),
            "name": "",
            "inputs": [self.read],
            "transformation": self.sink["id"],
            "concurrent_attempts": False,
            **keys,
        }
        self.read = self.counter
        return row

    def _fail_over_region(self) -> dict[str, Any]:
        """In BATCH mode all that it reads is written before it is read (SinkExpander.addFailOverRegion)."""
        forward, batch = str(Partitioner.FORWARD), str(StreamExchangeMode.BATCH)
        return self._new(Kind.PARTITION, partitioner=forward, exchange_mode=batch)

    def _operator(self, kind: Kind, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        sink, uid = self.sink, self.sink["uid"]
        return self._new(
            kind,
            **{key: sink[key] for key in (*_OF_THE_SINK, "co_location_group", "chaining")},
            name=f"{sink['name']}: {name}",
            uid=None if uid is None else _UIDS[kind].format(uid),
            uid_hash=given.get("uid_hash"),
            concurrent_attempts=self._concurrent(kind),
        )

    def _concurrent(self, kind: str) -> bool:
        """Writers and what is before them, where the sink supports it."""
        return kind == Kind.WRITER and self._supports_concurrent_attempts

    @property
    def _supports_concurrent_attempts(self) -> bool:
        return bool(self.given["writer"].get("supports_concurrent_execution_attempts", False))

    def _step(self, step: Mapping[str, Any]) -> dict[str, Any]:
        keys = dict(step)
        kind = keys.pop("kind")
        if kind == Kind.PARTITION:
            return self._new(kind, **keys)
        sink = self.sink
        keys |= {key: sink[key] for key in _OF_THE_SINK if keys.get(key) is None}
        group, uid = keys.get("co_location_group"), keys.get("uid")
        if sink["co_location_group"] is not None:
            keys["co_location_group"] = ": ".join(filter(None, (sink["co_location_group"], group)))
        if uid is not None and sink["uid"] is not None:
            keys["uid"] = f"{sink['uid']}: {uid}"
        keys["name"] = f"{sink['name']}: {step.get('name', '')}"
        keys["chaining"] = sink["chaining"] or step.get("chaining")
        keys["managed_memory"] = list(step.get("managed_memory", {}).items())
        before_writer = step in self.given.get("pre_write", ())
        return self._new(
            kind, **keys, concurrent_attempts=before_writer and self._supports_concurrent_attempts
        )
