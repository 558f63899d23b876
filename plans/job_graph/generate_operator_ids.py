"""Generated and user-given operator ids, in one breadth-first walk."""

from bisect import bisect_left
from collections import deque
from itertools import pairwise
from typing import NamedTuple

import mmh3
import numpy as np

from penstock.plans.frames.arrays import Ints
from penstock.plans.frames.compiled import is_worth_compiling
from penstock.plans.job_graph.stream_graph_arrays import StreamGraphArrays
from penstock.plans.job_graph.uid_hashes import UidHashes

_EVEN_BYTES = 0x00FF00FF00FF00FF00FF00FF00FF00FF


def _times_37_per_byte(digest: int) -> int:
    """Multiply each of 16 bytes by 37 modulo 256; odd and even bytes separately, so that carries stay in
    place.
    """
    even = (digest & _EVEN_BYTES) * 37 & _EVEN_BYTES
    odd = ((digest >> 8) & _EVEN_BYTES) * 37 & _EVEN_BYTES
    return even | odd << 8


def generate_operator_ids(graph: StreamGraphArrays) -> tuple[Ints, Ints]:
    """Return one id per node, as two big-endian longs, and the nodes with colliding uids (at most one per
    topology).

    An id is murmur3-128 of the uid; without one, of the node's number in the walk, repeated once for every
    chainable output, then mixed with the ids of its inputs. A node waits until its inputs have ids, unless it
    has a uid. Topologies with a collision have zeros from there on: Flink refuses them.

    Source: StreamGraphHasherV2.
    """
    count = int(graph.bounds[-1])
    if is_worth_compiling(count):
        # numba takes long to import.
        from penstock.plans.job_graph.compiled_operator_ids import operator_ids

        return operator_ids(graph)
    lists = _Lists(
        graph.sources.tolist(),
        graph.in_bounds.tolist(),
        graph.in_sources.tolist(),
        graph.out_bounds.tolist(),
        graph.out_targets.tolist(),
        graph.chainable.tolist(),
        _digests(graph.uids),
    )
    ids = [0] * count
    known = bytearray(count)
    walked = [_walk(lists, start, end, ids, known) for start, end in pairwise(graph.bounds.tolist())]
    halves = np.frombuffer(b"".join([digest.to_bytes(16, "little") for digest in ids]), ">i8")
    colliding = np.array([node for node in walked if node is not None], np.int64)
    return halves.astype(np.int64).reshape(-1, 2), colliding


class _Lists(NamedTuple):
    """StreamGraphArrays as lists."""

    sources: list[int]
    in_bounds: list[int]
    in_sources: list[int]
    out_bounds: list[int]
    out_targets: list[int]
    chainable: list[bool]
    of_uids: list[int | None]


def _digests(uids: UidHashes) -> list[int | None]:
    if not len(uids.halves):
        return [None] * len(uids.named)
    halves = zip(uids.named.tolist(), *uids.halves.T.tolist(), strict=True)
    return [upper << 64 | lower if named else None for named, lower, upper in halves]


def _walk(graph: _Lists, start: int, end: int, ids: list[int], known: bytearray) -> int | None:
    """Walk one topology; return the node with a colliding uid, at which the walk ends."""
    sources, in_bounds, in_sources, out_bounds, out_targets, chainable, of_uids = graph
    digest_of, from_bytes = mmh3.mmh3_x64_128_digest, int.from_bytes
    queued = bytearray(end - start)
    queue: deque[int] = deque()
    first_unknown: dict[int, int] = {}
    seen: set[int] = set()
    for node in sources[bisect_left(sources, start) : bisect_left(sources, end)]:
        queue.append(node)
        queued[node - start] = 1
    while queue:
        node = queue.popleft()
        of_uid = of_uids[node]
        outputs = range(out_bounds[node], out_bounds[node + 1])
        if of_uid is not None:
            digest = of_uid
            if digest in seen:
                return node
        else:
            # Resume at the last visit's position: all inputs before it have ids, so a wide node costs one
            # pass.
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
