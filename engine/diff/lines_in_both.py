"""Topology lines that the files of both sides hold: their topologies are equal, so they are not read."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from engine.planning.foresee_memory import require_memory_to_read_on
from plans.columnar.plan_as_read import ROWS_AT_A_TIME
from plans.topology.columnar.parse_block import Block
from plans.topology.columnar.read_topology_files import blocks_of_files, parsed_blocks
from plans.topology.columnar.topologies_of_lines import topologies_in_parts
from plans.topology.columnar.topology_id import topology_id
from plans.topology.columnar.topology_tables import TopologyTables
from plans.topology.input_errors import no_topologies
from plans.topology.job_defaults import JobDefaults
from plans.topology.line_too_long import MAX_LINE_BYTES
from plans.vocabulary import TopologyForm

_DIGEST_BYTES = 16
_MOST_OF_A_NAME = 1_000


class LinesInBoth(NamedTuple):
    """Digests of the lines, and the ids of their topologies, which are as many."""

    digests: frozenset[bytes] = frozenset()
    ids: frozenset[int] = frozenset()


NO_LINES = LinesInBoth()


def lines_in_both(old: Sequence[str], new: Sequence[str]) -> LinesInBoth:
    """The lines that are once in the files `old` and once in the files `new`, and are topologies with a name.

    Documents that are not JSON lines share none, nor do files that can be read only once, such as pipes.
    Raises InputError, OSError, and NotEnoughMemoryError before memory runs out.
    """
    if not all(map(os.path.isfile, (*old, *new))):
        return NO_LINES
    before, after = (Counter(digest for digest, _ in _lines(files)) for files in (old, new))
    shared = {digest for digest, times in before.items() if times == 1 and after[digest] == 1}
    ids = {
        digest: topology_id(name)
        for digest, line in (_lines(old) if shared else ())
        if digest in shared and (name := _name(line)) is not None
    }
    if len(set(ids.values())) < len(ids):
        return NO_LINES
    return LinesInBoth(frozenset(ids), frozenset(ids.values()))


def parts_without(
    files: Sequence[str], shared: LinesInBoth, job_defaults: JobDefaults
) -> Iterator[TopologyTables]:
    """The topologies of `files` in parts, without the lines in both, which keep their numbers.

    Same errors as parts_in_process.
    """
    blocks = (_without(block, shared) for block in _blocks(files))
    inputs = 0
    for part in topologies_in_parts(parsed_blocks(blocks, MAX_LINE_BYTES, job_defaults), ROWS_AT_A_TIME):
        inputs += part.inputs
        if not inputs and not shared.ids:
            raise no_topologies(files)
        yield part


def _blocks(files: Sequence[str]) -> Iterator[Any]:
    return blocks_of_files(files, MAX_LINE_BYTES, require_memory_to_read_on)


def _without(block: Any, shared: LinesInBoth) -> Any:
    if not isinstance(block, Block) or not shared.ids:
        return block
    lines = block.data.split(b"\n")
    kept = [b"" if line and _digest(line) in shared.digests else line for line in lines]
    return block._replace(data=b"\n".join(kept))


def _lines(files: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    """Digest and text of each line that is not empty."""
    for block in _blocks(files):
        if isinstance(block, Block):
            yield from ((_digest(line), line) for line in block.data.split(b"\n") if line)


def _digest(line: bytes) -> bytes:
    return blake2b(line, digest_size=_DIGEST_BYTES).digest()


def _name(line: bytes) -> str | None:
    """The name of the topology in a line; None where it has none, or needs a closer look."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    if type(found) is not dict or found.keys().isdisjoint(TopologyForm):
        return None
    name = found.get("name")
    return name if type(name) is str and 0 < len(name) <= _MOST_OF_A_NAME else None
