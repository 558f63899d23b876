"""What a user reads of an error of Spark, the JVM or a worker: a paragraph, or what the machine lacks."""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext, cloudpickle
from pyspark.errors import PySparkException

from penstock.engine.machine.machine_error import hint_of, refusal_in_text
from penstock.engine.output.redaction import redact
from penstock.engine.spark.start_settings import HINT, describe_local_folders
from penstock.operators.common.pickles import dumps_for_workers
from penstock.operators.task.keep_rows import CANNOT_KEEP
from penstock.plans.errors import ConfigurationError, MachineError, PenstockError
from penstock.plans.installation import own_version

# Functions for Spark's Python workers, and what is said where these have no Penstock, or another one.


# Broadcast variables of Spark in functions that are pickled before Spark asks for them.
#
# PySpark notes which variables it has seen in a pickle, and sends those that it has noted to the workers with
# the next function that it wraps, whichever that is. So each pickle keeps the variables in it, and notes them
# again where it becomes a part of another one.


def pickle_with_broadcasts(thing: Any) -> tuple[bytes, list[Any]]:
    """The pickle of `thing`, and the broadcast variables in it, which are noted no more."""
    registry: Any = getattr(SparkContext._active_spark_context, "_pickled_broadcast_vars", None)
    if registry is None:
        return dumps_for_workers(thing), []
    before = list(registry)
    registry.clear()
    try:
        return dumps_for_workers(thing), list(registry)
    finally:
        registry.clear()
        note_broadcasts(before)


def note_broadcasts(variables: Iterable[Any]) -> None:
    """Let Spark send these variables to the workers, with the function that it wraps next."""
    for variable in variables:
        variable._pickle_registry.add(variable)


Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_NEEDED = (
    "Spark's Python workers need Penstock {}: set PYSPARK_PYTHON (or spark.pyspark.python) to a Python that "
    "has it, or install it on the machines of the workers"
)
_NOT_THERE = re.compile(
    r"ModuleNotFoundError: No module named '(?:penstock\b|pyarrow').*"
    r"|AttributeError: .*\bmodule 'penstock\b.*|ImportError: cannot import name .* from 'penstock\b.*"
)
_TOLD = re.compile(re.escape(_NEEDED.partition("{")[0]) + ".*")


class WorkerFunction:
    """`function` of batches, as mapInArrow takes it: a worker that cannot load it says in a sentence why.

    The worker's Python may lack Penstock and Arrow, so what it loads first is Python's own. `broadcasts`: the
    broadcast variables in pickles that the function holds.
    """

    def __init__(self, function: Rows, broadcasts: Sequence[Any] = ()) -> None:
        pickled = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        self._broadcasts = broadcasts
        self._sent = pickled, own_version(), _NEEDED

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The function's batches. Spark asks that there be such a method; a worker has what it loads."""
        return _loader()(*self._sent)(batches)

    def __reduce__(self) -> tuple[Any, ...]:
        note_broadcasts(self._broadcasts)
        return _loader(), self._sent


def _loader() -> Callable[[bytes, str, str], Rows]:
    def load(pickled, wanted, needed):  # type: ignore[no-untyped-def]  # annotations would be pickled, too
        # a function in another is pickled as code: to load it takes no module of Penstock's
        import pickle
        import sys
        from importlib import metadata

        try:
            try:
                there = metadata.version("penstock-spark")
            except metadata.PackageNotFoundError:  # it may be on the path all the same
                there = wanted
            if there != wanted:
                raise ImportError(f"Penstock {there}")
            loaded = pickle.loads(pickled)
            from penstock.operators.chain.describe_error import author_first
        except ImportError as error:
            said = f"{needed.format(wanted)}; found {sys.executable}: {error}"
            # Spark waits forever for a message with a lone surrogate, as a path may have one
            raise RuntimeError(said.encode("utf-8", "backslashreplace").decode()) from None

        def run(batches):  # type: ignore[no-untyped-def]
            return author_first(loaded(batches))

        return run

    return load


def _describe_other_penstock(lines: list[str]) -> str | None:
    """The sentence for the last lines of workers' tracebacks if a worker has no Penstock, or another one."""
    for line in lines:
        if told := _TOLD.search(line):
            return told[0]
        if _NOT_THERE.match(line):
            return f"{_NEEDED.format(own_version())}; found {line}"
    return None


_WORKER_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\s*\n)+(?P<last>\S.*)")


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
    told = _describe_other_penstock(worker)
    if told is not None:
        return told
    if worker:
        return f"a Python worker failed: {worker[-1]}"
    return re.split(r"\n\s*(?:at |JVM stacktrace:|Driver stacktrace:)", text, maxsplit=1)[0].strip()


@contextmanager
def penstock_in_workers() -> Iterator[None]:
    """ConfigurationError, in one sentence, where what Spark does fails because workers have no Penstock."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        said = describe_spark_error(error)
        if not _TOLD.match(said):
            raise
        raise ConfigurationError(said) from None


# The message for a disk that refuses what Spark writes: its local files, or those of a store.


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
        folders = describe_local_folders(_settings() if settings is None else settings)
        return MachineError(f"writing Spark's local files to {folders}: {os.strerror(number)}", HINT)
    where = store or next(match["path"] for match in _IN_FILE.finditer(text))
    return MachineError(f"writing {where}: {os.strerror(number)}", hint_of(number))


def _all_of(error: BaseException) -> str:
    """The texts of `error` and its causes, with Java's stacks, which show what was written where."""
    texts, seen = [], set[int]()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen and not isinstance(cause, PenstockError):
        seen.add(id(cause))
        texts.append(_text_of(cause))
        cause = cause.__cause__ or cause.__context__
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
