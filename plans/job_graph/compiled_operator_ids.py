"""The walk of generate_operator_ids, compiled: 128-bit hashes as two halves of 64 bits."""

import numpy as np
from numba import uint64

from penstock.plans.frames.arrays import Flags, Halves, Ints
from penstock.plans.frames.compiled import compiled
from penstock.plans.job_graph.murmur3 import block, end_of_hash
from penstock.plans.job_graph.stream_graph_arrays import StreamGraphArrays

_EVEN_BYTES = np.uint64(0x00FF00FF00FF00FF)


def operator_ids(graph: StreamGraphArrays) -> tuple[Ints, Ints]:
    """Return the result of generate_operator_ids, compiled."""
    named, of_uids = graph.uids
    largest = int(np.diff(graph.bounds).max(initial=1))
    hashes = np.zeros((len(named), 2), np.uint64)
    colliding = np.full(len(graph.bounds) - 1, -1, np.int64)
    _walk(
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
    """Return whether any node of each topology has a uid."""
    return np.logical_or.reduceat(named, bounds[:-1]) if len(named) else named


@compiled
def _hash_of_number(number: int, copies: int) -> tuple[np.uint64, np.uint64]:
    """murmur3-128 of `copies` copies of a little-endian 4-byte number."""
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
def _times_37_per_byte(half: np.uint64) -> np.uint64:
    """Multiply each byte by 37 modulo 256; odd and even bytes separately, so that carries stay in place."""
    even = ((half & _EVEN_BYTES) * uint64(37)) & _EVEN_BYTES
    odd = (((half >> uint64(8)) & _EVEN_BYTES) * uint64(37)) & _EVEN_BYTES
    return even | (odd << uint64(8))


@compiled
def _walk(
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
    """Write ids, and per topology the node whose uid collides, or -1.

    `cells`: a power of two, more than twice the nodes of any topology. If a topology has a uid, its hashes so
    far are in a table of that many cells, each marked with the topology that last filled it.
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
                # Resume at the last visit's position: all inputs before it have ids, so a wide node costs one
                # pass.
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
                    low = _times_37_per_byte(low) ^ ids[source, 0]
                    high = _times_37_per_byte(high) ^ ids[source, 1]
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
