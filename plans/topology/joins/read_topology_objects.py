"""Python objects as the tables of the topology layer, through the same validation as files."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from plans.topology.joins.topologies_of_lines import parsed_lines, topologies_of_lines
from plans.topology.joins.topology_tables import TopologyTables
from plans.topology.read_topology_objects import encode


def read_topology_objects(
    spark: SparkSession, topologies: Iterable[Mapping[str, Any] | str | bytes]
) -> TopologyTables:
    """Dicts as docs/topology-files.md describes them, or JSON strings of them.

    As `read_topology_files`, but source_file and source_line are null, and no topology at all is no error. An
    object that JSON cannot say is rejected as NotJson. Raises no InputError.
    """
    encoded = [encode(topology) for topology in topologies]
    count = len(encoded)
    table = pa.table(
        {
            "value": pa.array([value for value, _ in encoded], pa.binary()),
            "source_file": pa.nulls(count, pa.string()),
            "block_start": pa.array([0] * count, pa.int64()),
            "ordinal": pa.array(range(count), pa.int64()),
            "problem": pa.array([problem for _, problem in encoded], pa.string()),
        }
    )
    return topologies_of_lines(parsed_lines(spark.createDataFrame(table)), _run)


def _run(job: Callable[[], None]) -> None:
    job()
