"""Spark's Python daemon with the modules of subtasks already imported; workers are forked from it.

Set as `spark.python.daemon.module`. A new worker takes a third of a second to import pyarrow, numpy and the
operators; a forked worker has them.
"""

import encodings.idna  # noqa: F401 names of hosts are encoded with it
import gc
import sys
from socket import socket
from zipimport import zipimporter

import pyspark.daemon

import penstock.operators.connectors.source
import penstock.operators.process.keyed_process_operators
import penstock.operators.records.map_records
import penstock.operators.task.run_task
import penstock.operators.task.sink_operators
import penstock.operators.windows.window_operator  # noqa: F401 that it is loaded is the point
from penstock.operators.common.without_pandas import without_pandas

_worker = pyspark.daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """Run PySpark's worker, but end quietly if Spark hangs up, as it does once it has enough rows."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


def _prepare_to_fork() -> None:
    """Do work once, before the fork, that every worker would otherwise repeat.

    Arrow imports pandas at the first Python value unless it has recorded that pandas was not imported; a
    function that imports pandas itself gets it. A worker's first task clears the caches of importers, so
    archives are read again from end to end (zipimport): 0.2 s for `pyspark.zip`, whose modules are loaded
    already. Objects that the collector ignores stay in pages that all workers share.
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
