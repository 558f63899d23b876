"""Compute SHA-256 over a topology's canonical text, equal for equal topologies in whichever form they were
given.

The canonical text of a `transformations` topology is one header line, then one line per transformation in id
order, each ending in a newline. The digest covers the header and the hex digests of blocks of BLOCK lines, so
that no topology is ever one string. A header is
`transformations|name|parallelism|max_parallelism|chaining|config`. A transformation's line is its
TRANSFORMATIONS columns after topology_id, in order, joined by `|` (sink_topology and details only if set). A
string is written as its length in UTF-8 bytes, a colon and the string; an integer in decimal; a boolean as
true or false; null, an empty list and an empty map as the empty text. Lists are joined by commas
(slot_scope sorted), managed_memory is `USE_CASE=weight` sorted by use case, config `key=value` sorted by key
(both as strings above), without keys that begin with CAPTURE_NOTES. Resources are nano-cores and three byte
counts, joined by commas.

A `stream_graph` topology is its header (beginning with `stream_graph`), then the graph as JSON with sorted
keys. Defaults are written out: an absent key and its default are the same topology.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

CAPTURE_NOTES = "penstock.capture."
"""Prefix of `config` keys that record how a topology was captured; they are not part of the topology."""

STREAM_STATE = f"{CAPTURE_NOTES}stream-state"
"""The folder of the state, if the topology is that of a stream of Spark (`penstock.foreach_batch`)."""

BLOCK = 4096
"""Transformations per digest: ids 1..BLOCK, BLOCK+1..2*BLOCK, …"""

_Ints = npt.NDArray[np.int64]


def _text(value: str) -> str:
    return f"{len(value.encode())}:{value}"


def header(topology: Mapping[str, Any], form: str) -> bytes:
    """Return the first line of a valid topology's canonical text."""
    return header_text(
        form,
        topology["name"],
        topology.get("parallelism", 1),
        topology.get("max_parallelism"),
        topology.get("chaining", True),
        config_text(topology.get("config", {})),
    )


def config_text(config: Mapping[str, str]) -> str:
    """Return the text of a configuration in a header, without the notes of `penstock capture`."""
    kept = ((k, v) for k, v in config.items() if not k.startswith(CAPTURE_NOTES))
    return ",".join(sorted(f"{_text(k)}={_text(v)}" for k, v in kept))


def header_text(
    form: str, name: str, parallelism: int, max_parallelism: int | None, chaining: bool, config: str
) -> bytes:
    """Return the header of values with defaults filled in; `config` is a result of config_text."""
    limit = "" if max_parallelism is None else max_parallelism
    switch = "true" if chaining else "false"
    return f"{form}|{_text(name)}|{parallelism}|{limit}|{switch}|{config}\n".encode()


def transformations_fingerprints(
    headers: Sequence[bytes], rows: pa.StringArray | pa.LargeStringArray, starts: _Ints, lengths: _Ints
) -> list[str]:
    """Return hex digests of topologies with canonical `rows`, which begin at `starts` and have `lengths` rows
    each.
    """
    first, end, bounds = block_bounds(starts, lengths)
    digests = text_digests(rows, bounds)
    bounds_of_topologies = zip(headers, first.tolist(), end.tolist(), strict=True)
    return [fingerprint(header, digests[start:stop]) for header, start, stop in bounds_of_topologies]


def block_bounds(starts: _Ints, lengths: _Ints) -> tuple[_Ints, _Ints, _Ints]:
    """Return each topology's first block and end of blocks, then the start of each block and the end of all
    rows.

    Topologies have `lengths` rows from `starts` on and follow each other without gaps.
    """
    counts = -(-lengths // BLOCK)
    end = np.cumsum(counts)
    first = end - counts
    within = np.arange(counts.sum()) - np.repeat(first, counts)
    return first, end, np.append(np.repeat(starts, counts) + within * BLOCK, lengths.sum())


def text_digests(rows: pa.StringArray | pa.LargeStringArray, bounds: _Ints) -> list[str]:
    """Return the hex digests of the texts between neighbouring bounds."""
    _, offsets_buffer, data_buffer = rows.buffers()
    data = memoryview(data_buffer if data_buffer is not None else b"")
    width = np.dtype(np.int64 if pa.types.is_large_string(rows.type) else np.int32)
    offsets = np.frombuffer(offsets_buffer, width, len(rows) + 1, rows.offset * width.itemsize)
    return [sha256(data[low:high]).hexdigest() for low, high in pairwise(offsets[bounds].tolist())]


def fingerprint(first: bytes, digests: Sequence[str]) -> str:
    """Return the hex digest of a topology from its header and the digests of its blocks."""
    return sha256(first + "".join(digests).encode()).hexdigest()


def stream_graph_fingerprint(first: bytes, graph: Mapping[str, Any]) -> str:
    """Return the hex digest of a header followed by the stream graph."""
    return sha256(first + orjson.dumps(graph, option=orjson.OPT_SORT_KEYS)).hexdigest()
