"""What delta-rs, Arrow, polars and the system raise at a store, as errors that a user can read."""

import errno
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
from deltalake.exceptions import DeltaError

from penstock.engine.machine.machine_error import machine_error_in_text
from penstock.engine.store.is_local import FILE_SYSTEMS
from penstock.plans.errors import PenstockError, StoreError

_UNKNOWN_SCHEME = re.compile(
    r"""(?:Unknown scheme: |No FileSystem for scheme[: ]"?)([A-Za-z0-9+.-]*[A-Za-z0-9+-])"""
)


@contextmanager
def store_errors(store: str, doing: str) -> Iterator[None]:
    """Raise MachineError where the machine refuses, StoreError for other errors of what lies below a store.

    `doing`: "reading" or "writing". Errors of Penstock come through as they are, and so do others of Spark
    while it writes.
    """
    try:
        yield
    except PenstockError:
        raise
    except BaseException as error:
        of_spark = _is_from_spark(error)
        if not (of_spark or _is_from_below(error)) or (doing == "reading" and _comes_from_output(error)):
            raise
        if scheme := _UNKNOWN_SCHEME.search(str(error)):
            raise StoreError(
                f"{doing} {store}: found the URI scheme {scheme[1]!r}; allowed: a path of this machine, "
                f"file:///PATH, or SCHEME://HOST/PATH of {FILE_SYSTEMS}"
            ) from error
        refused = _refused_to_spark(error, store) if of_spark else None
        refused = refused or machine_error_in_text(error, f"{doing} {store}")
        if refused is not None:
            raise refused from error
        if of_spark and doing != "reading":  # what is written is planned at that moment
            raise
        raise StoreError(
            f"{doing} {store} failed: {first_line(error)}",
            f"penstock verify {store} lists damage, if there is any",
        ) from error


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its name if it has none; of Spark's without stacks."""
    if _is_from_spark(error):
        from penstock.engine.spark.describe_spark_error import describe_spark_error

        said = describe_spark_error(error)
    else:
        said = str(error).strip()
    return (said.splitlines() or [type(error).__name__])[0]


def _refused_to_spark(error: BaseException, store: str) -> PenstockError | None:
    from penstock.engine.spark.describe_spark_error import disk_error_of_spark

    return disk_error_of_spark(error, store=store)


def _is_from_below(error: BaseException) -> bool:
    # Panics of Rust are no Exceptions, and each library has a class of its own for them.
    is_panic = type(error).__name__ == "PanicException"
    polars = type(error).__module__.startswith("polars")
    return is_panic or polars or isinstance(error, DeltaError | pa.ArrowException | OSError)


def _comes_from_output(error: BaseException) -> bool:
    """Whether this is what becomes of a command's output that finds no reader or no space."""
    full = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full


def _is_from_spark(error: BaseException) -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, Py4JError | PySparkException)
