"""Functions for Spark's Python workers, and what is said where these have no Penstock, or another one."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import SparkContext, cloudpickle

from penstock.operators.common.pickles import dumps_for_workers
from penstock.plans.installation import own_version

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
TOLD = re.compile(re.escape(_NEEDED.partition("{")[0]) + ".*")


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
            from penstock.operators.chain.user_errors import author_first
        except ImportError as error:
            said = f"{needed.format(wanted)}; found {sys.executable}: {error}"
            # Spark waits forever for a message with a lone surrogate, as a path may have one
            raise RuntimeError(said.encode("utf-8", "backslashreplace").decode()) from None

        def run(batches):  # type: ignore[no-untyped-def]
            return author_first(loaded(batches))

        return run

    return load


def describe_other_penstock(lines: list[str]) -> str | None:
    """The sentence for the last lines of workers' tracebacks if a worker has no Penstock, or another one."""
    for line in lines:
        if told := TOLD.search(line):
            return told[0]
        if _NOT_THERE.match(line):
            return f"{_NEEDED.format(own_version())}; found {line}"
    return None
