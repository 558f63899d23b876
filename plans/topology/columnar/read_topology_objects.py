"""Python objects as the tables of the topology layer, through the same validation as files."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice
from typing import Any

import pyarrow as pa

from penstock.plans.topology.columnar.lines_batch import lines_batch
from penstock.plans.topology.columnar.topologies_of_lines import topologies_of_lines
from penstock.plans.topology.columnar.topology_tables import TopologyTables
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.parse_lines import parse_lines
from penstock.plans.topology.read_topology_objects import encode

OBJECTS_A_BATCH = 1_000


def read_topology_objects(
    topologies: Iterable[Mapping[str, Any] | str | bytes], job_defaults: JobDefaults = NO_DEFAULTS
) -> TopologyTables:
    """Dicts as docs/topology-files.md describes them, or JSON strings. As joins.read_topology_objects."""
    return topologies_of_lines(parse_lines(_batches(iter(topologies)), job_defaults=job_defaults))


def _batches(topologies: Iterator[Mapping[str, Any] | str | bytes]) -> Iterator[pa.RecordBatch]:
    ordinals = count()
    while encoded := [encode(topology) for topology in islice(topologies, OBJECTS_A_BATCH)]:
        values, problems = zip(*encoded, strict=True)
        yield lines_batch(values, None, list(islice(ordinals, len(encoded))), problems)
