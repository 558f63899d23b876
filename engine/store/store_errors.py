"""Turn errors of delta-rs, Arrow, polars and the system into errors that a user can read."""

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
    """Raise MachineError if the machine refuses, and StoreError for other errors of the libraries below.

    `doing`: "reading" or "writing". Errors of Penstock pass unchanged, and so do other errors of Spark
    while it writes.
    """
    try:
        yield
    except PenstockError:
        raise
    except BaseException as error:
        is_from_spark = _is_from_spark(error)
        if not (is_from_spark or _is_from_below(error)) or (doing == "reading" and _comes_from_output(error)):
            raise
        if scheme := _UNKNOWN_SCHEME.search(str(error)):
            raise StoreError(
                f"{doing} {store}: a store must be a path of this machine, file:///PATH, or "
                f"SCHEME://HOST/PATH of {FILE_SYSTEMS}, got the URI scheme {scheme[1]!r}"
            ) from error
        refused = _refused_to_spark(error, store) if is_from_spark else None
        refused = refused or machine_error_in_text(error, f"{doing} {store}")
        if refused is not None:
            raise refused from error
        if is_from_spark and doing != "reading":  # the rows being written are also computed at that moment
            raise
        raise StoreError(
            f"{doing} {store} failed: {first_line(error)}",
            f"penstock verify {store} lists any damage",
        ) from error


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message (Spark's without stacks), or its class name."""
    if _is_from_spark(error):
        from penstock.engine.spark.describe_spark_error import describe_spark_error

        message = describe_spark_error(error)
    else:
        message = str(error).strip()
    return (message.splitlines() or [type(error).__name__])[0]


def _refused_to_spark(error: BaseException, store: str) -> PenstockError | None:
    from penstock.engine.spark.describe_spark_error import disk_error_of_spark

    return disk_error_of_spark(error, store=store)


def _is_from_below(error: BaseException) -> bool:
    # Rust panics are not Exceptions, and each library has a class of its own for them.
    is_panic = type(error).__name__ == "PanicException"
    polars = type(error).__module__.startswith("polars")
    return is_panic or polars or isinstance(error, DeltaError | pa.ArrowException | OSError)


def _comes_from_output(error: BaseException) -> bool:
    """Return whether a command's output found no reader or no space."""
    full = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return isinstance(error, OSError) and error.errno in full


def _is_from_spark(error: BaseException) -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(error, Py4JError | PySparkException)
