"""One paragraph a user can read from an exception of Spark, the JVM or a Python worker."""

import re
from importlib.metadata import version

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from penstock.engine.output.redaction import redact

_WORKER_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\s*\n)+(?P<last>\S.*)")
_OTHER_PENSTOCK = re.compile(
    r"ModuleNotFoundError: No module named 'penstock\b|ImportError: cannot import name .* from 'penstock\b"
    r"|AttributeError: .*\bmodule 'penstock\b"
)


def describe_spark_error(error: BaseException) -> str:
    """The innermost message of `error` that says why, without Java stacks, worker tracebacks and secrets."""
    return redact(_described(error))


def _described(error: BaseException) -> str:
    if isinstance(error, Py4JJavaError):
        cause = error.java_exception
        while cause.getCause() is not None:
            cause = cause.getCause()
        text = str(cause.toString())
    elif isinstance(error, PySparkException):
        text = str(error)
    else:
        text = f"{type(error).__name__}: {error}"
    worker = [m.group("last") for m in _WORKER_TRACEBACK.finditer(text)]
    if worker and _OTHER_PENSTOCK.match(worker[-1]):
        return (
            f"Spark's Python workers have no Penstock, or another version of it ({worker[-1]}): install "
            f"Penstock {version('penstock')} for their Python, or name one that has it in PYSPARK_PYTHON "
            "(spark.pyspark.python)"
        )
    if worker:
        return f"a Python worker failed: {worker[-1]}"
    return re.split(r"\n\s*(?:at |JVM stacktrace:|Driver stacktrace:)", text, maxsplit=1)[0].strip()
