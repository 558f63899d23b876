"""What to say when memory runs out after all, whoever notices it."""

import errno
import re
import sys

from plans.errors import PenstockError

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


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error`, or what it was raised from, says that memory ran out: in Python, Rust, C++ or Java.

    PenstockErrors have been told apart by whoever raised them.
    """
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, PenstockError):
            return False
        if isinstance(found, MemoryError) or (isinstance(found, OSError) and found.errno == errno.ENOMEM):
            return True
        of_library = type(found).__module__.partition(".")[0] in _OF_LIBRARIES
        if (of_library or isinstance(found, RuntimeError)) and _SIGNS.search(str(found)):
            return True
        seen.add(id(found))
        found = found.__cause__ or found.__context__
    return False


def describe_memory_error(error: BaseException) -> str:
    """One message for all of them."""
    text = str(error)
    if "py4j" in sys.modules and type(error).__module__.startswith(("py4j", "pyspark")):
        from engine.describe_spark_error import describe_spark_error

        text = describe_spark_error(error)
    first = next(iter(text.strip().splitlines()), "")[:300]
    return f"not enough memory: {first or type(error).__name__}\n  hint: {HINT}"
