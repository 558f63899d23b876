"""Topology lines, and topologies given as Python objects, as the input of `parse_lines`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from penstock.plans.frames.arrays import runs
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.parse_lines import parse_lines
from penstock.plans.topology.topologies_of_lines import TopologyTables, topologies_of_lines

# Topologies that a program passes as objects, as lines.


def _plain(value: Any) -> Any:
    """Convert NumPy numbers and arrays, and mappings other than dicts, to plain JSON values."""
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is not JSON")


def encode(topology: Mapping[str, Any] | str | bytes) -> tuple[bytes, str | None]:
    """Return the topology as JSON, and the reason if that is impossible (else None).

    NumPy numbers and arrays are written as their values.
    """
    if isinstance(topology, bytes):
        return topology, None
    if isinstance(topology, str):
        return topology.encode("utf-8", "surrogatepass"), None
    try:
        return orjson.dumps(dict(topology), _plain), None
    except Exception as e:  # also exceptions of the mapping itself
        return b"", f"{type(topology).__name__} that is not JSON ({e})"


def lines_batch(
    values: Sequence[bytes],
    file: str | None,
    ordinals: Sequence[int],
    problems: Sequence[str | None] | None = None,
    lines: Sequence[int] | None = None,
    too_long_bytes: Sequence[int | None] | None = None,
) -> pa.RecordBatch:
    """Return LINES of one file, or of objects; values of one batch may exceed 2 GiB together."""
    n = len(values)
    return pa.RecordBatch.from_pydict(
        {
            "value": pa.array(values, pa.large_binary()),
            "source_file": pa.nulls(n, pa.string()) if file is None else pa.array([file] * n, pa.string()),
            "block_start": pa.array(np.zeros(n, np.int64)),
            "ordinal": pa.array(ordinals, pa.int64()),
            "problem": pa.array(problems, pa.string()) if problems else pa.nulls(n, pa.string()),
            "line": pa.array(lines, pa.int64()) if lines else pa.nulls(n, pa.int64()),
            "too_long_bytes": pa.array(too_long_bytes, pa.int64())
            if too_long_bytes
            else pa.nulls(n, pa.int64()),
        }
    )


# Python objects as the tables of the topology layer, through the same validation as files.


OBJECTS_A_BATCH = 1_000


def read_topology_objects(
    topologies: Iterable[Mapping[str, Any] | str | bytes], job_defaults: JobDefaults = NO_DEFAULTS
) -> TopologyTables:
    """Read dicts in the form of docs/topology-files.md, or JSON strings.

    An object that JSON cannot express is rejected as NotJson.
    """
    return topologies_of_lines(parse_lines(_batches(iter(topologies)), job_defaults=job_defaults))


def _batches(topologies: Iterator[Mapping[str, Any] | str | bytes]) -> Iterator[pa.RecordBatch]:
    ordinals = count()
    while encoded := [encode(topology) for topology in islice(topologies, OBJECTS_A_BATCH)]:
        values, problems = zip(*encoded, strict=True)
        yield lines_batch(values, None, list(islice(ordinals, len(encoded))), problems)


# Topologies as texts that came in any order, such as rows of a DataFrame.


class TopologyTexts(NamedTuple):
    """Topologies as JSON, in any order: a row for each, with key, ordinal, value and problem.

    `key` (long) is equal for topologies of one name or id, `ordinal` (long) its place in the input, or a hash
    of `value` (binary); `problem` (string): the reason why there is no text, if any.
    """

    texts: pa.Table


def read_topology_texts(topologies: TopologyTexts, job_defaults: JobDefaults = NO_DEFAULTS) -> TopologyTables:
    """Read topologies as read_topology_objects does. Of those with one name, the first by `ordinal` counts.

    Texts with the same hash are in the order of their characters, so that the result does not depend on the
    order of rows, nor on other keys.
    """
    texts = topologies.texts
    keys, ordinals = texts["key"].to_numpy(), texts["ordinal"].to_numpy()
    values = texts["value"].cast(pa.large_binary())  # together they may exceed 2 GiB
    order = np.argsort(ordinals, kind="stable")
    if len(np.unique(ordinals)) < len(ordinals):
        columns = pa.table({"ordinal": ordinals, "key": keys, "value": values})
        by = [(name, "ascending") for name in columns.column_names]
        order = pc.sort_indices(columns, sort_keys=by).to_numpy()
        ordinals = ordinals + runs(ordinals[order], keys[order]).numbers()[np.argsort(order)]
    values, problems = values.take(order), texts["problem"].take(order)

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, len(order), OBJECTS_A_BATCH):
            part = slice(start, start + OBJECTS_A_BATCH)
            pieces = (column[part].to_pylist() for column in (values, problems))
            yield lines_batch(next(pieces), None, ordinals[order[part]].tolist(), next(pieces))

    return topologies_of_lines(parse_lines(batches(), job_defaults=job_defaults))
