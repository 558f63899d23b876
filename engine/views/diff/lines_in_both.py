"""Topology lines that the files of both sides hold: their topologies are equal, so they are not read."""

import os
from collections.abc import Iterator, Sequence
from itertools import compress
from secrets import randbits
from typing import Any, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray
from xxhash import xxh3_128_digest

from penstock.engine.planning.foresee_memory import require_memory_to_read_on
from penstock.plans.planners.plan_as_read import ROWS_AT_A_TIME
from penstock.plans.topology.columnar.parse_block import LineBlock
from penstock.plans.topology.columnar.read_topology_files import blocks_of_files, parsed_blocks
from penstock.plans.topology.columnar.topologies_of_lines import topologies_in_parts
from penstock.plans.topology.columnar.topology_tables import TopologyTables, topology_id
from penstock.plans.topology.input_errors import MAX_LINE_BYTES, no_topologies
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.vocabulary import TopologyForm

_DIGESTS = np.dtype("S16")
_SEED = randbits(64)
"""Drawn by each process, so that nobody can make two lines with one digest."""
_MOST_OF_A_NAME = 1_000


class LinesInBoth(NamedTuple):
    """Digests of the lines, sorted, and the ids of their topologies: 24 bytes for each line."""

    digests: NDArray[np.bytes_]
    ids: NDArray[np.int64]


NO_LINES = LinesInBoth(np.empty(0, _DIGESTS), np.empty(0, np.int64))


def lines_in_both(old: Sequence[str], new: Sequence[str]) -> LinesInBoth:
    """The lines that are once in the files `old` and once in the files `new`, and are topologies with a name.

    Documents that are not JSON lines share none, nor do files that can be read only once, such as pipes.
    Raises InputError, OSError, and NotEnoughMemoryError before memory runs out.
    """
    if not all(map(os.path.isfile, (*old, *new))):
        return NO_LINES
    shared = np.intersect1d(_once(_digests(old)), _once(_digests(new)), assume_unique=True)
    if not len(shared):
        return NO_LINES
    ids, named = np.empty(len(shared), np.int64), np.zeros(len(shared), bool)
    for lines in _lines(old):
        places, in_shared = _places(_digests_of(lines), shared)
        for place, line in zip(places[in_shared].tolist(), compress(lines, in_shared.tolist()), strict=True):
            if (name := _name(line)) is not None:
                ids[place], named[place] = topology_id(name), True
    ids = ids[named]
    if len(np.unique(ids)) < len(ids):
        return NO_LINES
    return LinesInBoth(shared[named], ids)


def parts_without(
    source: str, files: Sequence[str], shared: LinesInBoth, job_defaults: JobDefaults
) -> Iterator[TopologyTables]:
    """The topologies of the files of a source in parts, without the lines in both, which keep their numbers.

    Same errors as parts_in_process.
    """
    blocks = (_without(block, shared) for block in _blocks(files))
    inputs = 0
    for part in topologies_in_parts(parsed_blocks(blocks, MAX_LINE_BYTES, job_defaults), ROWS_AT_A_TIME):
        inputs += part.inputs
        if not inputs and not len(shared.ids):
            raise no_topologies([source])
        yield part


def _blocks(files: Sequence[str]) -> Iterator[Any]:
    return blocks_of_files(files, MAX_LINE_BYTES, require_memory_to_read_on)


def _without(block: Any, shared: LinesInBoth) -> Any:
    if not isinstance(block, LineBlock) or not len(shared.ids):
        return block
    lines = block.data.split(b"\n")
    _, in_shared = _places(_digests_of(lines), shared.digests)
    return block._replace(
        data=b"\n".join(
            b"" if in_both else line for line, in_both in zip(lines, in_shared.tolist(), strict=True)
        )
    )


def _lines(files: Sequence[str]) -> Iterator[list[bytes]]:
    """The lines that are not empty, block by block."""
    for block in _blocks(files):
        if isinstance(block, LineBlock):
            yield [line for line in block.data.split(b"\n") if line]


def _digests(files: Sequence[str]) -> NDArray[np.bytes_]:
    return np.concatenate([NO_LINES.digests, *map(_digests_of, _lines(files))])


def _digests_of(lines: Sequence[bytes]) -> NDArray[np.bytes_]:
    digests = b"".join([xxh3_128_digest(line, _SEED) for line in lines])
    return np.frombuffer(digests, _DIGESTS)


def _once(digests: NDArray[np.bytes_]) -> NDArray[np.bytes_]:
    distinct, times = np.unique(digests, return_counts=True)
    once: NDArray[np.bytes_] = distinct[times == 1]
    return once


def _places(
    digests: NDArray[np.bytes_], known: NDArray[np.bytes_]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Where each of them is, or would be, among the sorted `known`, and whether it is there."""
    places = np.searchsorted(known, digests).clip(max=len(known) - 1)
    return places, known[places] == digests


def _name(line: bytes) -> str | None:
    """The name of the topology in a line; None where it has none, or needs a closer look."""
    try:
        topology = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(topology) is not dict or topology.keys().isdisjoint(TopologyForm):
        return None
    name = topology.get("name")
    return name if type(name) is str and 0 < len(name) <= _MOST_OF_A_NAME else None
