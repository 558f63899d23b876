"""Spark's Python daemon with what subtasks need already imported: workers are forked from it.

Set as `spark.python.daemon.module`. Importing pyarrow, numpy and the operators takes a new worker a third
of a second; forked, it has them.
"""

from socket import socket

import pyspark.daemon

import operators.async_io
import operators.process
import operators.records.map_records
import operators.task.run_task
import operators.windows  # noqa: F401 that it is loaded is the point

_worker = pyspark.daemon.worker


def worker(sock: socket, authenticated: bool) -> int:
    """PySpark's worker, quiet where Spark has hung up: it does so once it has enough rows."""
    try:
        return _worker(sock, authenticated)
    except BrokenPipeError:
        return 1


if __name__ == "__main__":
    pyspark.daemon.worker = worker
    pyspark.daemon.manager()
