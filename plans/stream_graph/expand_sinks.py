"""The operators that a sink of the Sink V2 API becomes, derived from the sink's own keys.

Source: SinkTransformationTranslator.SinkExpander, GlobalCommitterTransformationTranslator.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import orjson
import pyarrow as pa

from penstock.plans.tables import TRANSFORMATIONS
from penstock.plans.tables.column_types import BOOL, INT, STR
from penstock.plans.topology.transformation_columns import RESOURCES_OF_ZERO
from penstock.plans.vocabulary import ChainingStrategy, Kind, Partitioner, StreamExchangeMode

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

OF_THE_SINK = ("parallelism", "max_parallelism", "slot_sharing_group")
"""What an operator takes of its sink unless it sets it itself."""

SINK_ITSELF: dict[str, Any] = dict.fromkeys((*OF_THE_SINK, "uid", "co_location_group", "chaining")) | {
    "kind": str(Kind.UNION),
    "inputs": [],
}
"""What a sink that was expanded has in place of its own values."""

_WRITER, _COMMITTER, _GLOBAL_COMMITTER = "Writer", "Committer", "Global Committer"
_UIDS = {
    _WRITER: ("", ""),
    _COMMITTER: ("Sink Committer: ", ""),
    _GLOBAL_COMMITTER: ("Sink ", " Global Committer"),
}
"""Name of an operator, Flink's or a step, to the text before and after the uid of the sink."""

_FROM_TRANSFORMATIONS = (
    *("kind", "name", "uid", "uid_hash", *OF_THE_SINK, "co_location_group", "buffer_timeout", "chaining"),
    *("managed_memory", "slot_scope", "min_resources", "preferred_resources", "partitioner", "exchange_mode"),
)
PART = pa.schema(
    [
        pa.field("sink_topology", STR, False),
        *(TRANSFORMATIONS.field(name).with_nullable(True) for name in _FROM_TRANSFORMATIONS),
        pa.field("id_after", INT, False),
        pa.field("ways_before", INT, False),
        pa.field("before_uid", STR, True),
        pa.field("after_uid", STR, True),
        pa.field("takes_of_sink", BOOL, False),
        pa.field("concurrent_attempts", BOOL, False),
    ]
)
"""What parts_of_sink gives. Columns of transformations hold what the part sets itself.

Its id is id_after, and ways_before times the ways into the sink, after the ids given before; it reads the
part before it. The sink's uid stands between before_uid and after_uid; both null: the part has no uid.
takes_of_sink: it takes from the sink what it does not set.
"""


def parts_of_sink(sink_topology: str) -> tuple[list[dict[str, Any]], int, int]:
    """The parts of a sink (PART) in their order, and how many ids all take: a number, and one for each way.

    All parts take their ids first, as all transformations are made first; then virtual nodes take theirs.
    """
    sink: dict[str, Any] = orjson.loads(sink_topology)
    is_global = bool(sink.get("global_committer"))
    steps = list(_before_global_committer(sink))
    last = max((place for place, part in enumerate(steps) if part["kind"] != Kind.PARTITION), default=0)
    ids, ways = len(steps) + is_global, 0  # GlobalCommitterTransform has an id and is no node
    read_by_one = True
    for part in steps if is_global else steps[: last + 1]:
        if part["kind"] != Kind.PARTITION:
            read_by_one = False
        elif read_by_one:
            ways += 1
        else:
            ids += 1
    parts = [{**part, "id_after": place, "ways_before": 0} for place, part in enumerate(steps, 1)]
    if is_global:
        of_global = {"ways_before": ways}
        parts.append(_partition(Partitioner.GLOBAL) | of_global | {"id_after": ids + 1})
        parts.append(_global_committer() | of_global | {"id_after": ids + 2})
        ids += 3  # with the virtual node of the partition
    return [{"sink_topology": sink_topology, **part} for part in parts], ids, ways


def _before_global_committer(sink: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    hashes = {
        _WRITER: sink["writer"].get("uid_hash"),
        _COMMITTER: sink.get("committer", {}).get("uid_hash"),
    }
    concurrent = bool(sink["writer"].get("supports_concurrent_execution_attempts", False))
    for step in sink.get("pre_write", ()):
        yield _step(step, hashes) | {"concurrent_attempts": concurrent and step["kind"] != Kind.PARTITION}
    yield _operator(Kind.WRITER, _WRITER, hashes) | {"concurrent_attempts": concurrent}
    if "committer" in sink:
        yield _fail_over_region()
        for step in sink.get("pre_commit", ()):
            yield _step(step, hashes)
        yield _operator(Kind.COMMITTER, _COMMITTER, hashes)
    if sink.get("post_commit") or sink.get("global_committer"):
        yield _fail_over_region()
        for step in sink.get("post_commit", ()):
            yield _step(step, hashes)


_NONE = dict.fromkeys(RESOURCES_OF_ZERO, 0)
_EMPTY: dict[str, Any] = {"managed_memory": [], "slot_scope": []}


def _partition(partitioner: str, exchange_mode: str | None = None) -> dict[str, Any]:
    return {
        **_EMPTY,
        "kind": str(Kind.PARTITION),
        "partitioner": str(partitioner),
        "exchange_mode": exchange_mode,
        "takes_of_sink": False,
        "concurrent_attempts": False,
    }


def _fail_over_region() -> dict[str, Any]:
    """In BATCH mode its input is written completely before it is read (SinkExpander.addFailOverRegion)."""
    return _partition(Partitioner.FORWARD, str(StreamExchangeMode.BATCH))


def _operator(kind: Kind, name: str, hashes: Mapping[str, str | None]) -> dict[str, Any]:
    before, after = _UIDS[name]
    return {
        **_EMPTY,
        "kind": str(kind),
        "name": name,
        "uid_hash": hashes.get(name),
        "before_uid": before,
        "after_uid": after,
        "takes_of_sink": True,
        "concurrent_attempts": False,
    }


def _global_committer() -> dict[str, Any]:
    """It has only the name and the uid of the sink."""
    own = {"parallelism": 1, "max_parallelism": 1, "chaining": str(ChainingStrategy.ALWAYS)}
    operator = _operator(Kind.GLOBAL_COMMITTER, _GLOBAL_COMMITTER, {})
    return {**operator, **own, "takes_of_sink": False}


def _step(step: Mapping[str, Any], hashes: Mapping[str, str | None]) -> dict[str, Any]:
    """A step; one with the name of a writer or committer has such a uid, too (SinkExpander.concatUid)."""
    if step["kind"] == Kind.PARTITION:
        return _partition(step["partitioner"], step.get("exchange_mode"))
    name, uid = step.get("name", ""), step.get("uid")
    before, after = _UIDS.get(name, (None, None) if uid is None else ("", f": {uid}"))
    specified = {
        key: {**_NONE, **step[key]} for key in ("min_resources", "preferred_resources") if key in step
    }
    return {
        **step,
        **specified,
        "name": name,
        "uid_hash": hashes.get(name) or step.get("uid_hash"),
        "managed_memory": list(step.get("managed_memory", {}).items()),
        "slot_scope": step.get("slot_scope", []),
        "before_uid": before,
        "after_uid": after,
        "takes_of_sink": True,
        "concurrent_attempts": False,
    }
