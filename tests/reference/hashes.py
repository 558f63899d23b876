"""Operator ids and data set ids (StreamGraphHasherV2, StreamGraphUserHashHasher, IntermediateDataSetID)."""

from collections import deque

import mmh3

from tests.reference.chainable import is_chainable
from tests.reference.refusal import FlinkRefusalError
from tests.reference.stream_graph import StreamGraph, StreamNode

_LONG = 2**64


def java_string_hash(text: str) -> int:
    """String.hashCode: 31-polynomial over UTF-16 code units, as a signed 32-bit integer."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for i in range(0, len(units), 2):
        value = (value * 31 + (units[i] | units[i + 1] << 8)) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def uid_hash(uid: str) -> bytes:
    """A lone surrogate becomes a question mark, as in Java's UTF-8 encoder."""
    return mmh3.hash_bytes(uid.encode("utf-8", "replace"), 0, True)


def data_set_id(vertex_id: bytes, edge_id: str) -> bytes:
    """Both halves of the vertex id plus the edge id's hash, and the halves change places."""
    offset = java_string_hash(edge_id)
    halves = (int.from_bytes(vertex_id[8:], "big"), int.from_bytes(vertex_id[:8], "big"))
    return b"".join(((half + offset) % _LONG).to_bytes(8, "big") for half in halves)


def operator_hashes(graph: StreamGraph) -> dict[int, bytes]:
    """Breadth-first from the sources; a node without uid waits until all its inputs have a hash."""
    hashes: dict[int, bytes] = {}
    taken: set[bytes] = set()
    waiting = deque(sorted(graph.sources))
    visited = set(waiting)
    while waiting:
        node = graph.nodes[waiting.popleft()]
        if node.uid is not None:
            value = uid_hash(node.uid)
            if value in taken:
                raise FlinkRefusalError("job_graph", "IllegalArgumentException", _collision(node.uid))
        elif all(e.source in hashes for e in node.in_edges):
            value = _generated_hash(graph, node, hashes)
        else:
            visited.discard(node.id)
            continue
        hashes[node.id] = value
        taken.add(value)
        for edge in node.out_edges:
            if edge.target not in visited:
                visited.add(edge.target)
                waiting.append(edge.target)
    return hashes


def _generated_hash(graph: StreamGraph, node: StreamNode, hashes: dict[int, bytes]) -> bytes:
    chained = sum(is_chainable(graph, e) for e in node.out_edges)
    value = mmh3.hash_bytes(len(hashes).to_bytes(4, "little") * (1 + chained), 0, True)
    for edge in node.in_edges:
        value = bytes((a * 37 & 0xFF) ^ b for a, b in zip(value, hashes[edge.source], strict=True))
    return value


def _collision(uid: str) -> str:
    return (
        f'Hash collision on user-specified ID "{uid}". Most likely cause is a non-unique ID. Please check '
        "that all IDs specified via `uid(String)` are unique."
    )
