"""Describe errors of Spark, the JVM or a worker in a paragraph, or as a refusal of the machine."""

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
from penstock.plans.printable import without_java_classes

# Broadcast variables of Spark in functions that are pickled before Spark pickles them itself.
#
# PySpark registers the variables in each pickle, and sends the registered ones to the workers with the next
# function that it wraps, even an unrelated one. So each pickle remembers its variables, and registers them
# again when it becomes part of another one.


def pickle_with_broadcasts(thing: Any) -> tuple[bytes, list[Any]]:
    """Return the pickle of `thing`, and the broadcast variables in it, after unregistering them."""
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
    """Register these variables, so that Spark sends them to the workers with the next function it wraps."""
    for variable in variables:
        variable._pickle_registry.add(variable)


# Functions for Spark's Python workers, and the message if these lack Penstock or have another version.


Rows = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

_NEEDED = (
    "Spark's Python workers need Penstock {}: set PYSPARK_PYTHON (or spark.pyspark.python) to a Python that "
    "has it, or install it on the machines of the workers"
)
_NOT_THERE = re.compile(
    r"ModuleNotFoundError: No module named '(?:penstock\b|pyarrow').*"
    r"|AttributeError: .*\bmodule 'penstock\b.*|ImportError: cannot import name .* from 'penstock\b.*"
)
_NEEDED_MESSAGE = re.compile(re.escape(_NEEDED.partition("{")[0]) + ".*")


class WorkerFunction:
    """A `function` of batches for mapInArrow; a worker that cannot load it reports the reason.

    The worker's Python may lack Penstock and Arrow, so it first loads only Python's standard library.
    `broadcasts`: the broadcast variables in pickles that the function holds.
    """

    def __init__(self, function: Rows, broadcasts: Sequence[Any] = ()) -> None:
        pickled = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        self._broadcasts = broadcasts
        self._sent = pickled, own_version(), _NEEDED

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Call the function. Spark requires this method; a worker calls the loaded function instead."""
        return _loader()(*self._sent)(batches)

    def __reduce__(self) -> tuple[Any, ...]:
        note_broadcasts(self._broadcasts)
        return _loader(), self._sent


def _loader() -> Callable[[bytes, str, str], Rows]:
    def load(pickled, wanted, needed):  # type: ignore[no-untyped-def]  # annotations would be pickled, too
        # A nested function is pickled as code: loading it needs no module of Penstock.
        import pickle
        import sys
        from importlib import metadata

        try:
            try:
                installed = metadata.version("penstock-spark")
            except metadata.PackageNotFoundError:  # it may still be on the path
                installed = wanted
            if installed != wanted:
                raise ImportError(f"Penstock {installed}")
            loaded = pickle.loads(pickled)
            from penstock.operators.chain.errors import author_first
        except ImportError as error:
            message = f"{needed.format(wanted)}; {sys.executable} failed: {error}"
            # Spark waits forever for a message with a lone surrogate, which a path may contain.
            raise RuntimeError(message.encode("utf-8", "backslashreplace").decode()) from None

        def run(batches):  # type: ignore[no-untyped-def]
            return author_first(loaded(batches))

        return run

    return load


def _describe_other_penstock(lines: list[str]) -> str | None:
    """Return the sentence for workers without this Penstock, given the last lines of their tracebacks."""
    for line in lines:
        if sentence := _NEEDED_MESSAGE.search(line):
            return sentence[0]
        if _NOT_THERE.match(line):
            return f"{_NEEDED.format(own_version())}; a worker failed: {line}"
    return None


_WORKER_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n|\s*\n)+(?P<last>\S.*)")


def describe_spark_error(error: BaseException) -> str:
    """Return the innermost message with a reason, without Java, worker tracebacks and secrets."""
    return redact(without_java_classes(_described(error)))


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
    sentence = _describe_other_penstock(worker)
    if sentence is not None:
        return sentence
    if worker:
        return f"a Python worker failed: {worker[-1]}"
    return re.split(r"\n\s*(?:at |JVM stacktrace:|Driver stacktrace:)", text, maxsplit=1)[0].strip()


@contextmanager
def penstock_in_workers() -> Iterator[None]:
    """Raise a one-sentence ConfigurationError if Spark fails because its workers lack Penstock or a file."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        message = describe_spark_error(error)
        if _NEEDED_MESSAGE.match(message):
            raise ConfigurationError(message) from None
        unseen = unseen_by_executors(error)
        if unseen is None:
            raise
        raise unseen from None


_NOT_FOUND = re.compile(
    r"FileNotFoundError: [^\n]*?'(?P<opened>/[^'\n]+)'|FILE_NOT_EXIST\][^\n]*?\bfile:/*(?P<read>/[^\n]+?)\.? "
)


def unseen_by_executors(error: BaseException) -> ConfigurationError | None:
    """Return an error for a file or folder that this machine has and an executor has not; None for others."""
    text = _all_of(error)
    for match in _NOT_FOUND.finditer(text):
        path = match["opened"] or match["read"]
        if CANNOT_WRITE_TO_STORE in match[0]:
            path = os.path.dirname(path)
        if os.path.exists(path):
            return ConfigurationError(
                f"{path} must be on every machine of the Spark cluster, got executors that do not see it",
                "use a folder that all machines share, or a URL that Spark reads",
            )
    return None


def exceeds_result_size(error: BaseException) -> bool:
    """Return whether Spark refused to collect rows because of spark.driver.maxResultSize."""
    return "spark.driver.maxResultSize" in _described(error)


# The message for a disk that refuses writes of Spark: its local files, or files of a store.


CANNOT_WRITE_TO_STORE = "cannot write to the store"
"""Prefix of errors of a worker that writes files of a store: its stack also shows reads of Spark's blocks."""

_IN_LOCAL_FOLDERS = re.compile(
    r"\bat org\.apache\.spark\.(?:storage|shuffle|io|memory|util\.collection)\."
    r"|/(?:blockmgr|spark)-[0-9a-f]{8}-[0-9a-f-]{27}|Failed to create (?:a temp directory|local dir)"
)
_IN_SPILLED = re.compile(rf"{CANNOT_KEEP} (?P<path>[^\n]+?): ")
_IN_FILE = re.compile(r"(?:-> |Exception: |Error: |\bfile:)(?P<path>/[^\n:]+?)(?:: | \()")


def disk_error_of_spark(
    error: BaseException, settings: Mapping[str, str] | None = None, store: str | None = None
) -> MachineError | None:
    """Return an error of Spark as a refusal of the machine that names the place; None for other errors.

    `settings`: Spark's; default: the session's. `store`: the store being written, whose rows Spark may have
    been computing at that moment.
    """
    text = _all_of(error)
    number = refusal_in_text(text)
    if number is None:
        return None
    spilled = _IN_SPILLED.search(text)
    if spilled is not None:
        return MachineError(f"writing {spilled['path']}: {os.strerror(number)}", hint_of(number))
    if store is not None and CANNOT_WRITE_TO_STORE in text:
        return MachineError(f"writing {store}: {os.strerror(number)}", hint_of(number))
    if _IN_LOCAL_FOLDERS.search(text) or (store is None and not _IN_FILE.search(text)):
        folders = describe_local_folders(_settings() if settings is None else settings)
        return MachineError(f"writing Spark's local files to {folders}: {os.strerror(number)}", HINT)
    where = store or next(match["path"] for match in _IN_FILE.finditer(text))
    return MachineError(f"writing {where}: {os.strerror(number)}", hint_of(number))


def _all_of(error: BaseException) -> str:
    """Return the texts of `error` and its causes, with Java's stacks, which show where a write failed."""
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
