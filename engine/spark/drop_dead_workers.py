"""Make Spark forget the Python workers of a daemon that has died.

If the system kills the daemon and its workers, for example for lack of memory, Spark still hands out workers
that were idle. It finds each of them dead, tells the daemon to end it, and fails the task because the daemon
is dead, too ("Stream closed"). Only after a minute without tasks does it forget them by itself.

Source: org.apache.spark.api.python.PythonWorkerFactory, `create` and `stopWorker`.
"""

from typing import Any

from pyspark.sql import SparkSession


def drop_dead_workers(spark: SparkSession) -> None:
    """Let the next tasks start a new daemon if the daemon of this process's Spark is dead.

    `spark` runs its tasks in the JVM of this process (a local master); other executors forget by themselves.
    """
    jvm: Any = spark._jvm
    environment = jvm.org.apache.spark.SparkEnv.get()
    if environment is None:  # Spark has ended
        return
    factories = _private(environment, "pythonWorkers").values().iterator()
    while factories.hasNext():
        factory = factories.next()
        daemon = _private(factory, "daemon")
        if daemon is not None and not daemon.isAlive():
            factory.stop()


def _private(owner: Any, name: str) -> Any:
    field = owner.getClass().getDeclaredField(name)
    field.setAccessible(True)
    return field.get(owner)
