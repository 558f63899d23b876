"""Transformations to a StreamGraph (StreamGraphGenerator and its translators)."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tests.reference.refusal import FlinkRefusalError
from tests.reference.settings import settings_of_transformations
from tests.reference.stream_graph import StreamGraph, StreamNode, VirtualNode, add_edge, partitioner

_SOURCES = ("source", "legacy_source")
_VIRTUAL = ("union", "partition", "side_output", "select")
_INVOKABLES = {
    "source": "SourceOperatorStreamTask",
    "legacy_source": "SourceStreamTask",
    "two_input": "TwoInputStreamTask",
    "multi_input": "MultipleInputStreamTask",
}
_DEFAULT_CHAINING = {"multi_input": "HEAD_WITH_SOURCES"}
_PREFIXES = {"source": "Source: ", "legacy_source": "Source: ", "sink": "Sink: "}
_PARTITIONERS = {
    "forward": "ForwardPartitioner",
    "rebalance": "RebalancePartitioner",
    "rescale": "RescalePartitioner",
    "shuffle": "ShufflePartitioner",
    "broadcast": "BroadcastPartitioner",
    "global": "GlobalPartitioner",
    "hash": "KeyGroupStreamPartitioner",
    "custom": "CustomPartitionerWrapper",
}

_MOST_INPUTS = 63

Transformation = Mapping[str, Any]


def translate(topology: Mapping[str, Any]) -> StreamGraph:
    """Operators are translated in creation order, each right after those of its inputs that were not yet."""
    by_id = {t["id"]: t for t in topology["transformations"]}
    registered = [t for t in topology["transformations"] if t["kind"] not in (*_SOURCES, *_VIRTUAL)]
    unbounded = _reaches_legacy_source(by_id, registered)
    graph = StreamGraph(settings_of_transformations(topology, unbounded))
    virtual: dict[int, VirtualNode] = {}
    new_ids = itertools.count(max(by_id, default=0) + 1)
    translated: dict[int, list[int]] = {}
    for operator in registered:
        pending = [operator["id"]]
        while pending:
            t = by_id[pending[-1]]
            missing = [i for i in t.get("inputs", ()) if i not in translated]
            if t["id"] in translated:
                pending.pop()
            elif missing:
                pending.extend(reversed(missing))
            elif t["kind"] in _VIRTUAL:
                translated[t["id"]] = list(_virtual_nodes(graph, t, translated, virtual, new_ids))
            elif "writer" in t:
                _expand_sink(graph, t, by_id, translated, virtual, new_ids)
                translated[t["id"]] = []
            else:
                _add_operator(graph, t, by_id, translated, virtual)
                translated[t["id"]] = [] if t["kind"] == "sink" else [t["id"]]
    return graph


def _reaches_legacy_source(by_id: Mapping[int, Transformation], registered: list[Transformation]) -> bool:
    pending, seen = [t["id"] for t in registered], set()
    while pending:
        t = by_id[pending.pop()]
        if t["kind"] == "legacy_source":
            return True
        if t["id"] not in seen:
            seen.add(t["id"])
            pending.extend(t.get("inputs", ()))
    return False


def _virtual_nodes(
    graph: StreamGraph,
    t: Transformation,
    translated: Mapping[int, list[int]],
    virtual: dict[int, VirtualNode],
    new_ids: Iterable[int],
) -> Iterable[int]:
    """The ids that stand for a virtual transformation: those of its inputs, through a virtual node each."""
    upstreams = [i for parent in t["inputs"] for i in translated[parent]]
    if t["kind"] == "union":
        yield from upstreams
        return
    for upstream, new_id in zip(upstreams, new_ids, strict=False):
        if t["kind"] == "partition":
            class_name = _PARTITIONERS[t["partitioner"]]
            # A key selector and a user's partitioner are equal to themselves only.
            of_its_own = t["partitioner"] in ("hash", "custom")
            key = f"{class_name}#{t['id']}" if of_its_own else None
            mode = t.get("exchange_mode", "UNDEFINED")
            mode = "UNDEFINED" if mode == "BATCH" and not graph.settings.batch else mode
            virtual[new_id] = VirtualNode(
                "partition", upstream, partitioner=partitioner(class_name, key), exchange_mode=mode
            )
        elif t["kind"] == "side_output":
            virtual[new_id] = VirtualNode("side_output", upstream, tag=t["tag"])
        else:
            virtual[new_id] = VirtualNode("select", upstream, names=tuple(t["names"]))
        yield new_id


def _add_operator(
    graph: StreamGraph,
    t: Transformation,
    by_id: Mapping[int, Transformation],
    translated: Mapping[int, list[int]],
    virtual: Mapping[int, VirtualNode],
) -> None:
    settings, kind = graph.settings, t["kind"]
    if kind == "multi_input":
        _check_input_count(len(t["inputs"]))
    inputs = [translated[i] for i in t.get("inputs", ())]
    first = by_id[t["inputs"][0]] if kind == "one_input" or t.get("writes") else None
    keyed = first is not None and first["kind"] == "partition" and first["partitioner"] == "hash"
    node = StreamNode(
        id=t["id"],
        name=_PREFIXES.get(kind, "") + t.get("name", ""),
        parallelism=t.get("parallelism", settings.parallelism),
        max_parallelism=t.get("max_parallelism", settings.max_parallelism),
        invokable=_INVOKABLES.get(kind, "OneInputStreamTask"),
        chaining=t.get("chaining", _DEFAULT_CHAINING.get(kind, "ALWAYS")),
        parallelism_configured="parallelism" in t,
        slot_sharing_group=t.get("slot_sharing_group") or _inherited_group(graph, virtual, inputs),
        co_location_group=t.get("co_location_group"),
        source=kind == "source",
        legacy_source=kind == "legacy_source",
        yielding=kind == "async",
    )
    graph.nodes[node.id] = node
    if kind in _SOURCES:
        graph.sources.append(node.id)
    for position, ids in enumerate(inputs):
        for upstream in ids:
            type_number = position + 1 if kind in ("two_input", "multi_input") else 0
            add_edge(graph, virtual, upstream, node.id, type_number)
    if keyed and settings.batch:
        _apply_batch_execution_settings(graph, node)
    _configure(graph, node, t, keyed)


def _expand_sink(
    graph: StreamGraph,
    sink: Transformation,
    by_id: dict[int, Transformation],
    translated: dict[int, list[int]],
    virtual: dict[int, VirtualNode],
    new_ids: Iterator[int],
) -> None:
    """SinkTransformationTranslator: all parts are made, then translated one after the other."""
    made: list[dict[str, Any]] = []

    def add(part: Mapping[str, Any]) -> None:
        made.append({**part, "id": next(new_ids), "inputs": [made[-1]["id"] if made else sink["inputs"][0]]})

    inherited = {k: sink[k] for k in ("parallelism", "max_parallelism", "slot_sharing_group") if k in sink}
    for part in _parts_of_sink(sink):
        if part["kind"] == "partition":
            add(part)
            continue
        groups = [p["co_location_group"] for p in (sink, part) if "co_location_group" in p]
        own = inherited | part | {"name": f"{sink.get('name', '')}: {part.get('name', '')}"}
        own |= {"co_location_group": ": ".join(groups)} if groups else {}
        own |= {"chaining": sink["chaining"]} if "chaining" in sink else {}
        add(own)
    if sink.get("global_committer"):
        next(new_ids)
    last = max(i for i, part in enumerate(made) if part["kind"] != "partition")
    for part in made if sink.get("global_committer") else made[: last + 1]:
        _translate_part(graph, part, by_id, translated, virtual, new_ids)
    if sink.get("global_committer"):
        add({"kind": "partition", "partitioner": "global"})
        kept = {"uid": f"Sink {sink['uid']} Global Committer"} if "uid" in sink else {}
        name = f"{sink.get('name', '')}: Global Committer"
        add({"kind": "one_input", "name": name, **kept, "parallelism": 1, "max_parallelism": 1})
        for part in made[-2:]:
            _translate_part(graph, part, by_id, translated, virtual, new_ids)


def _parts_of_sink(sink: Transformation) -> Iterator[dict[str, Any]]:
    uid = sink.get("uid")
    fail_over_region = {"kind": "partition", "partitioner": "forward", "exchange_mode": "BATCH"}
    named_uids = {
        "Writer": uid,
        "Committer": f"Sink Committer: {uid}",
        "Global Committer": f"Sink {uid} Global Committer",
    }
    every_step = [step for key in ("pre_write", "pre_commit", "post_commit") for step in sink.get(key, ())]
    if uid is None and any("uid" in step for step in every_step):
        raise FlinkRefusalError(
            "stream_graph",
            "IllegalStateException",
            f"Sink {sink.get('name', '')} requires to set a uid since its customized topology has set uid "
            "for some operators.",
        )

    def steps(key: str) -> Iterator[dict[str, Any]]:
        for step in sink.get(key, ()):
            yield own_step(step)

    def own_step(step: Mapping[str, Any]) -> dict[str, Any]:
        """SinkExpander.concatUid goes by names alone."""
        name, rest = step.get("name"), {k: v for k, v in step.items() if k != "uid"}
        if step["kind"] == "partition" or name not in named_uids:
            return {**rest, "uid": f"{uid}: {step['uid']}"} if "uid" in step else rest
        of_name = {} if uid is None else {"uid": named_uids[name]}
        return {**rest, **of_name, **(_hash(sink.get(name.lower(), {})))}

    def part(kind: str, name: str, own_uid: str | None) -> dict[str, Any]:
        return {
            "kind": kind,
            "name": name,
            "writes": True,
            **({} if uid is None else {"uid": own_uid}),
            **_hash(sink[name.lower()]),
        }

    yield from steps("pre_write")
    yield part("async", "Writer", uid)
    if "committer" not in sink:
        return
    yield fail_over_region
    yield from steps("pre_commit")
    yield part("one_input", "Committer", f"Sink Committer: {uid}")
    if sink.get("post_commit") or sink.get("global_committer"):
        yield fail_over_region
        yield from steps("post_commit")


def _hash(given: Mapping[str, Any]) -> dict[str, Any]:
    return {"uid_hash": given["uid_hash"]} if "uid_hash" in given else {}


def _translate_part(
    graph: StreamGraph,
    part: dict[str, Any],
    by_id: dict[int, Transformation],
    translated: dict[int, list[int]],
    virtual: dict[int, VirtualNode],
    new_ids: Iterator[int],
) -> None:
    by_id[part["id"]] = part
    if part["kind"] == "partition":
        translated[part["id"]] = list(_virtual_nodes(graph, part, translated, virtual, new_ids))
        return
    _add_operator(graph, part, by_id, translated, virtual)
    translated[part["id"]] = [part["id"]]


def _check_input_count(inputs: int) -> None:
    """MultipleInputSelectionHandler.checkSupportedInputCount."""
    if inputs > _MOST_INPUTS:
        raise FlinkRefusalError(
            "stream_graph",
            "IllegalArgumentException",
            f"Only up to {_MOST_INPUTS} inputs are supported at once, while encountered {inputs}",
        )


def _inherited_group(graph: StreamGraph, virtual: Mapping[int, VirtualNode], inputs: list[list[int]]) -> str:
    """The group that all inputs are in, else "default"."""
    groups = set()
    for given in itertools.chain.from_iterable(inputs):
        upstream = given
        while upstream in virtual:
            upstream = virtual[upstream].upstream
        groups.add(graph.nodes[upstream].slot_sharing_group)
    return groups.pop() if len(groups) == 1 else "default"


def _apply_batch_execution_settings(graph: StreamGraph, node: StreamNode) -> None:
    """BatchExecutionUtils.applyBatchExecutionSettings of a keyed operator."""
    if node.chaining in ("ALWAYS", "HEAD_WITH_SOURCES"):
        node.chaining = "HEAD"
    if graph.settings.sort_inputs:
        node.weights["OPERATOR"] = graph.settings.sort_weight


def _configure(graph: StreamGraph, node: StreamNode, t: Transformation, keyed: bool) -> None:
    """SimpleTransformationTranslator.configure."""
    timeout = t.get("buffer_timeout", -1)
    node.buffer_timeout = timeout if timeout >= 0 else graph.settings.buffer_timeout
    node.uid, node.uid_hash = t.get("uid"), t.get("uid_hash")
    if not graph.settings.auto_uids and node.uid is None and node.uid_hash is None:
        raise FlinkRefusalError(
            "stream_graph",
            "IllegalStateException",
            "Auto generated UIDs have been disabled but no UID or hash has been assigned to operator "
            + t.get("name", ""),
        )
    weights = t.get("managed_memory", {})
    for use_case, weight in node.weights.items():
        if weights.get(use_case, weight) != weight:
            raise FlinkRefusalError(
                "stream_graph",
                "IllegalStateException",
                f"Conflict managed memory consumer weights for '{use_case}' were configured: '{weight}' and "
                f"'{weights[use_case]}'.",
            )
    node.weights |= weights
    node.slot_scope = {*t.get("slot_scope", ()), *(("STATE_BACKEND",) if keyed else ())}
