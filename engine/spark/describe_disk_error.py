"""The message for a disk that refuses what Spark writes: its local files, or those of a store."""

import os
import re
from collections.abc import Mapping
from typing import Any

from penstock.engine.machine.machine_error import hint_of, refusal_in_text
from penstock.engine.spark.local_folders import HINT, said_of_local_folders
from penstock.operators.task.keep_rows import CANNOT_KEEP
from penstock.plans.errors import MachineError, PenstockError

CANNOT_WRITE_TO_STORE = "cannot write to the store"
"""In front of what a worker says that writes files of a store: reading Spark's blocks is in its stack too."""

_IN_LOCAL_FOLDERS = re.compile(
    r"\bat org\.apache\.spark\.(?:storage|shuffle|io|memory|util\.collection)\."
    r"|/(?:blockmgr|spark)-[0-9a-f]{8}-[0-9a-f-]{27}|Failed to create (?:a temp directory|local dir)"
)
_IN_KEPT = re.compile(rf"{CANNOT_KEEP} (?P<path>[^\n]+?): ")
_IN_FILE = re.compile(r"(?:-> |Exception: |Error: |\bfile:)(?P<path>/[^\n:]+?)(?:: | \()")


def disk_error_of_spark(
    error: BaseException, settings: Mapping[str, str] | None = None, store: str | None = None
) -> MachineError | None:
    """`error`, of Spark, as a refusal of the machine that names the place; None if it is something else.

    `settings`: Spark's, default: those of the session. `store`: what was being written, which Spark may have
    been planning at that moment.
    """
    text = _all_of(error)
    number = refusal_in_text(text)
    if number is None:
        return None
    kept = _IN_KEPT.search(text)
    if kept is not None:
        return MachineError(f"writing {kept['path']}: {os.strerror(number)}", hint_of(number))
    if store is not None and CANNOT_WRITE_TO_STORE in text:
        return MachineError(f"writing {store}: {os.strerror(number)}", hint_of(number))
    if _IN_LOCAL_FOLDERS.search(text) or (store is None and not _IN_FILE.search(text)):
        folders = said_of_local_folders(_settings() if settings is None else settings)
        return MachineError(f"writing Spark's local files to {folders}: {os.strerror(number)}", HINT)
    where = store or next(found["path"] for found in _IN_FILE.finditer(text))
    return MachineError(f"writing {where}: {os.strerror(number)}", hint_of(number))


def _all_of(error: BaseException) -> str:
    """What `error` and all that led to it say, with Java's stacks: they tell who wrote."""
    texts, seen = [], set[int]()
    found: BaseException | None = error
    while found is not None and id(found) not in seen and not isinstance(found, PenstockError):
        seen.add(id(found))
        texts.append(_text_of(found))
        found = found.__cause__ or found.__context__
    return "\n".join(texts)


def _text_of(error: BaseException) -> str:
    java: Any = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    try:
        if java is not None:
            from pyspark import SparkContext

            jvm: Any = SparkContext._jvm
            return str(jvm.org.apache.spark.util.Utils.exceptionString(java))
        return str(error)
    except Exception:  # the JVM may have ended
        return ""


def _settings() -> dict[str, str]:
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    return {} if context is None else dict(context.getConf().getAll())
