"""Spark's Python daemon with what subtasks need already imported: workers are forked from it.

Set as `spark.python.daemon.module`. Importing pyarrow, numpy and the operators takes a new worker a third
of a second; forked, it has them.
"""

import encodings.idna  # noqa: F401 names of hosts are encoded with it
import gc
import sys
from socket import socket
from zipimport import zipimporter

import pyspark.daemon

import operators.async_io
import operators.connectors.number_sequence
import operators.process
import operators.records.map_records
import operators.task.run_task
import operators.task.sink_operators
import operators.windows  # noqa: F401 that it is loaded is the point
from operators.common.without_pandas import without_pandas

_worker = pyspark.daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """PySpark's worker, quiet where Spark has hung up: it does so once it has enough rows."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def _prepare_to_fork() -> None:
    """Spare every worker what a fork would make it do again.

    Arrow imports pandas at the first Python value unless it knows that nobody has; a function that imports
    pandas itself gets it. A worker's first task forgets what importers know, and archives are then read
    again from end to end (zipimport): 0.2 s for `pyspark.zip`, whose modules are loaded already. Objects that
    the collector leaves alone stay in pages that all workers share.
    """
    with without_pandas():
        pass
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    pyspark.daemon.worker = worker
    _prepare_to_fork()
    pyspark.daemon.manager()
