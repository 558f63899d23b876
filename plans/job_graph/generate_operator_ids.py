"""Generated and user-given operator ids, in one breadth-first walk."""

from bisect import bisect_left
from collections import deque
from itertools import pairwise
from typing import NamedTuple

import mmh3
import numpy as np
from numba import uint64

from penstock.plans.frames.compiled import compiled, is_worth_compiling
from penstock.plans.frames.counts import Flags, Halves, Ints
from penstock.plans.job_graph.stream_graph_arrays import StreamGraphArrays
from penstock.plans.job_graph.uid_hashes import UidHashes, block, end_of_hash

# The walk of generate_operator_ids, compiled: 128-bit hashes as two halves of 64 bits.


_EVEN_BYTES_COMPILED = np.uint64(0x00FF00FF00FF00FF)


def operator_ids(graph: StreamGraphArrays) -> tuple[Ints, Ints]:
    """As generate_operator_ids gives them."""
    named, of_uids = graph.uids
    largest = int(np.diff(graph.bounds).max(initial=1))
    hashes = np.zeros((len(named), 2), np.uint64)
    colliding = np.full(len(graph.bounds) - 1, -1, np.int64)
    _walk_compiled(
        graph.bounds,
        graph.sources,
        graph.in_bounds,
        graph.in_sources,
        graph.out_bounds,
        graph.out_targets,
        graph.chainable,
        named,
        of_uids,
        _topologies_with_uids(graph.bounds, named),
        2 << largest.bit_length() if named.any() else 1,
        hashes,
        colliding,
    )
    return hashes.byteswap(inplace=True).view(np.int64), colliding[colliding >= 0]


def _topologies_with_uids(bounds: Ints, named: Flags) -> Flags:
    """Whether any node of each topology has a uid."""
    return np.logical_or.reduceat(named, bounds[:-1]) if len(named) else named


@compiled
def _hash_of_number(number: int, copies: int) -> tuple[np.uint64, np.uint64]:
    """murmur3-128 of that many copies of a number of four bytes, little end first."""
    single = uint64(number)
    pair = single | (single << uint64(32))
    low = high = uint64(0)
    for _ in range(copies // 4):
        low, high = block(low, high, pair, pair)
    remaining = copies % 4
    first = pair if remaining > 1 else (single if remaining == 1 else uint64(0))
    second = single if remaining > 2 else uint64(0)
    return end_of_hash(low, high, first, second, 4 * copies)


@compiled
def _times_37_per_byte_compiled(half: np.uint64) -> np.uint64:
    """Each byte times 37 modulo 256: odd and even bytes apart, so that no carry meets a neighbour."""
    even = ((half & _EVEN_BYTES_COMPILED) * uint64(37)) & _EVEN_BYTES_COMPILED
    odd = (((half >> uint64(8)) & _EVEN_BYTES_COMPILED) * uint64(37)) & _EVEN_BYTES_COMPILED
    return even | (odd << uint64(8))


@compiled
def _walk_compiled(
    bounds: Ints,
    sources: Ints,
    in_bounds: Ints,
    in_sources: Ints,
    out_bounds: Ints,
    out_targets: Ints,
    chainable: Flags,
    named: Flags,
    of_uids: Halves,
    has_uids: Flags,
    cells: int,
    ids: Halves,
    colliding: Ints,
) -> None:
    """Writes ids, and per topology the node whose uid collides (-1: none).

    `cells`: a power of two, more than twice the nodes of any topology. Where a topology has a uid, hashes it
    has seen are in a table of that many cells, each marked with the topology it was last filled for.
    """
    count = bounds[-1]
    known, queued = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    first_unknown = in_bounds[:-1].copy()
    queue = np.empty(len(sources) + len(out_targets) + 1, np.int32)
    marks, table = np.full(cells, -1, np.int64), np.empty((cells, 2), np.uint64)
    next_source = 0
    for topology in range(len(bounds) - 1):
        begin = end = 0
        while next_source < len(sources) and sources[next_source] < bounds[topology + 1]:
            queue[end] = sources[next_source]
            queued[sources[next_source]] = True
            end += 1
            next_source += 1
        visited = 0
        while begin < end:
            node = queue[begin]
            begin += 1
            if named[node]:
                low, high = of_uids[node, 0], of_uids[node, 1]
            else:
                # Where the last visit stopped: all inputs before it have ids, so a wide node costs one pass.
                position, last = first_unknown[node], in_bounds[node + 1]
                while position < last and known[in_sources[position]]:
                    position += 1
                first_unknown[node] = position
                if position < last:
                    queued[node] = False
                    continue
                copies = 1
                for edge in range(out_bounds[node], out_bounds[node + 1]):
                    copies += chainable[edge]
                low, high = _hash_of_number(visited, copies)
                for place in range(in_bounds[node], last):
                    source = in_sources[place]
                    low = _times_37_per_byte_compiled(low) ^ ids[source, 0]
                    high = _times_37_per_byte_compiled(high) ^ ids[source, 1]
            if has_uids[topology]:
                cell = low & uint64(cells - 1)
                while marks[cell] == topology and (table[cell, 0] != low or table[cell, 1] != high):
                    cell = (cell + uint64(1)) & uint64(cells - 1)
                if marks[cell] == topology and named[node]:
                    colliding[topology] = node
                    break
                marks[cell] = topology
                table[cell, 0], table[cell, 1] = low, high
            visited += 1
            ids[node, 0], ids[node, 1] = low, high
            known[node] = True
            for edge in range(out_bounds[node], out_bounds[node + 1]):
                target = out_targets[edge]
                if not queued[target]:
                    queued[target] = True
                    queue[end] = target
                    end += 1


_EVEN_BYTES = 0x00FF00FF00FF00FF00FF00FF00FF00FF


def _times_37_per_byte(digest: int) -> int:
    """Each of 16 bytes times 37 modulo 256: odd and even bytes apart, so that no carry meets a neighbour."""
    even = (digest & _EVEN_BYTES) * 37 & _EVEN_BYTES
    odd = ((digest >> 8) & _EVEN_BYTES) * 37 & _EVEN_BYTES
    return even | odd << 8


def generate_operator_ids(graph: StreamGraphArrays) -> tuple[Ints, Ints]:
    """An id a node, as two big-endian longs, and the nodes whose uids collide, one of a topology at most.

    An id is murmur3-128 of the uid; without one, of the node's number in the walk, repeated once for every
    chainable output, then mixed with the ids of its inputs. A node waits until its inputs have ids, unless it
    has a uid. Topologies with a collision keep zeros from there on: Flink refuses them.

    Source: StreamGraphHasherV2.
    """
    count = int(graph.bounds[-1])
    if is_worth_compiling(count):
        # numba takes long to import.

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
    """The node with a colliding uid, at which the walk ends."""
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
