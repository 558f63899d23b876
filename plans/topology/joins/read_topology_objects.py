"""Python objects as the tables of the topology layer, through the same validation as files."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from penstock.plans.topology.columnar.lines_batch import lines_batch
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.topology.joins.topologies_of_lines import parsed_lines, topologies_of_lines
from penstock.plans.topology.joins.topology_tables import TopologyTables
from penstock.plans.topology.read_topology_objects import encode


def read_topology_objects(
    spark: SparkSession,
    topologies: Iterable[Mapping[str, Any] | str | bytes],
    job_defaults: JobDefaults = NO_DEFAULTS,
) -> TopologyTables:
    """Dicts as docs/topology-files.md describes them, or JSON strings of them.

    As `read_topology_files`, but source_file and source_line are null, and no topology at all is no error. An
    object that JSON cannot say is rejected as NotJson. Raises no InputError.
    """
    encoded = [encode(topology) for topology in topologies]
    values, problems = zip(*encoded, strict=True) if encoded else ((), ())
    lines = lines_batch(values, None, range(len(encoded)), problems)
    frame = spark.createDataFrame(pa.Table.from_batches([lines]))
    return topologies_of_lines(parsed_lines(frame, job_defaults=job_defaults), _run)


def _run(job: Callable[[], None]) -> None:
    job()
