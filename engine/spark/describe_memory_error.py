"""Describe errors of memory that runs out in spite of all checks, in any library."""

import errno
import re
import sys
from contextlib import suppress
from subprocess import TimeoutExpired

from penstock.plans.errors import PenstockError

HINT = (
    "give it more memory (Spark's JVM: --conf spark.driver.memory=8g); plans take less in smaller parts, or "
    "with --until job_graph"
)

_SIGNS = re.compile(
    r"\bjava\.lang\.OutOfMemoryError|\bSparkOutOfMemoryError|\b\w*MemoryError\b|Cannot allocate memory"
    r"|[Uu]nable to allocate|memory allocation of \d+ bytes failed|malloc of size|capacity overflow"
    r"|can't start new thread",
)
_OF_LIBRARIES = (
    "polars",
    "pyarrow",
    "pyspark",
    "py4j",
    "pyo3_runtime",
    "numba",
    "llvmlite",
    "_internal",
    "deltalake",
)


_EXIT_CODES_OF_JVM = (52, -9, 137)
"""SparkExitCode.OOM; SIGKILL, which the kernel sends when memory is used up."""

_SECONDS_TO_END = 5


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether `error`, or a cause of it, means that memory ran out: in Python, Rust, C++ or Java.

    If Spark's JVM has run out of memory and ended, every error is a consequence of it. A PenstockError is
    never one: it names its own cause.
    """
    if jvm_ran_out_of_memory(error):
        return True
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        if isinstance(cause, PenstockError):
            return False
        if isinstance(cause, MemoryError) or (isinstance(cause, OSError) and cause.errno == errno.ENOMEM):
            return True
        from_library = type(cause).__module__.partition(".")[0] in _OF_LIBRARIES
        if (from_library or isinstance(cause, RuntimeError)) and _SIGNS.search(_text(cause)):
            return True
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
    return False


def mentions_out_of_memory(text: str) -> bool:
    """Return whether a log line reports that memory ran out."""
    return _SIGNS.search(text) is not None


def describe_memory_error(error: BaseException) -> str:
    """Return the message for an error of memory from any library."""
    if jvm_ran_out_of_memory(error):
        return f"not enough memory: Spark's JVM has ended\n  hint: {HINT}"
    text = _text(error)
    if "py4j" in sys.modules and type(error).__module__.startswith(("py4j", "pyspark")):
        from penstock.engine.spark.describe_spark_error import describe_spark_error

        text = describe_spark_error(error)
    first = next(iter(text.strip().splitlines()), "")[:300]
    return f"not enough memory: {first or type(error).__name__}\n  hint: {HINT}"


def jvm_ran_out_of_memory(error: BaseException) -> bool:
    """Return whether Spark's JVM has ended with an exit code for lack of memory."""
    if "pyspark" not in sys.modules:
        return False
    from py4j.protocol import Py4JError
    from pyspark import SparkContext

    process = getattr(SparkContext._gateway, "proc", None)
    if process is None:
        return False
    if isinstance(error, Py4JError | ConnectionError):  # it may be about to end
        with suppress(TimeoutExpired):
            process.wait(_SECONDS_TO_END if _is_cut_off(error) else 0)
    return process.poll() in _EXIT_CODES_OF_JVM


def _is_cut_off(error: BaseException) -> bool:
    """Return whether the JVM no longer answers."""
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError)


def _text(error: BaseException) -> str:
    """Return its message, or "" if the JVM, which an error of Java calls for it, has ended."""
    try:
        return str(error)
    except Exception:
        return ""
