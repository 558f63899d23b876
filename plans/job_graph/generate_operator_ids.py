"""Generated and user-given operator ids, in one breadth-first walk."""

from bisect import bisect_left
from collections import deque

import mmh3

from plans.job_graph.stream_graph_arrays import StreamGraphArrays

_EVEN_BYTES = 0x00FF00FF00FF00FF00FF00FF00FF00FF


def _times_37_per_byte(digest: int) -> int:
    """Each of 16 bytes times 37 modulo 256: odd and even bytes apart, so that no carry meets a neighbour."""
    even = (digest & _EVEN_BYTES) * 37 & _EVEN_BYTES
    odd = ((digest >> 8) & _EVEN_BYTES) * 37 & _EVEN_BYTES
    return even | odd << 8


def generate_operator_ids(graph: StreamGraphArrays) -> tuple[bytes, dict[int, str]]:
    """16 bytes a node, and the colliding uid of every topology (by position) that has one.

    An id is murmur3-128 of the uid; without one, of the node's number in the walk, repeated once for every
    chainable output, then mixed with the ids of its inputs. A node waits until its inputs have ids, unless it
    has a uid. Topologies with a collision keep zeros from there on: Flink refuses them.

    Source: StreamGraphHasherV2.
    """
    ids = [0] * len(graph.node_ids)
    known = bytearray(len(graph.node_ids))
    collisions: dict[int, str] = {}
    for topology in range(len(graph.topologies)):
        colliding = _walk(graph, graph.bounds[topology], graph.bounds[topology + 1], ids, known)
        if colliding is not None:
            collisions[topology] = colliding
    return b"".join([digest.to_bytes(16, "little") for digest in ids]), collisions


def _walk(graph: StreamGraphArrays, start: int, end: int, ids: list[int], known: bytearray) -> str | None:
    in_bounds, in_sources = graph.in_bounds, graph.in_sources
    out_bounds, out_targets, chainable, uids = (
        graph.out_bounds,
        graph.out_targets,
        graph.chainable,
        graph.uids,
    )
    digest_of, from_bytes = mmh3.mmh3_x64_128_digest, int.from_bytes
    queued = bytearray(end - start)
    queue: deque[int] = deque()
    first_unknown: dict[int, int] = {}
    seen: set[int] = set()
    for node in graph.sources[bisect_left(graph.sources, start) : bisect_left(graph.sources, end)]:
        queue.append(node)
        queued[node - start] = 1
    while queue:
        node = queue.popleft()
        uid = uids[node]
        outputs = range(out_bounds[node], out_bounds[node + 1])
        if uid is not None:
            digest = from_bytes(digest_of(uid.encode("utf-8", "replace"), 0), "little")
            if digest in seen:
                return uid
        else:
            # Where the last visit stopped: all inputs before it have ids, so a wide node costs one pass.
            position, last = first_unknown.get(node, in_bounds[node]), in_bounds[node + 1]
            while position < last and known[in_sources[position]]:
                position += 1
            if position < last:
                first_unknown[node] = position
                queued[node - start] = 0
                continue
            copies = 1
            for edge in outputs:
                copies += chainable[edge]
            digest = from_bytes(digest_of(len(seen).to_bytes(4, "little") * copies, 0), "little")
            for position in range(in_bounds[node], last):
                digest = _times_37_per_byte(digest) ^ ids[in_sources[position]]
        seen.add(digest)
        ids[node] = digest
        known[node] = 1
        for edge in outputs:
            target = out_targets[edge]
            if not queued[target - start]:
                queued[target - start] = 1
                queue.append(target)
    return None
