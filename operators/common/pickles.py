"""Python objects as bytes that another process can read."""

import pickle
from functools import cache
from io import BytesIO
from types import FunctionType
from typing import Any


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, FunctionType)) and obj.__module__ == "__main__":
            raise pickle.PicklingError("the other process has another main module")
        return NotImplemented


def dumps(value: Any) -> bytes:
    """A pickle of `value`, for `pickle.loads`.

    What a script defines in its main module is written out with it, by cloudpickle; everything else by
    pickle, which is several times faster. Raises what cloudpickle does for what cannot be pickled.
    """
    stream = BytesIO()
    try:
        _Pickler(stream, protocol=5).dump(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        from pyspark import cloudpickle

        return cloudpickle.dumps(value, protocol=5)  # type: ignore[no-any-return, no-untyped-call]
    return stream.getvalue()


# Functions of a job, for Spark's workers.


def dumps_for_workers(value: Any) -> bytes:
    """As cloudpickle.dumps, but PicklingError for a session of Spark Connect, and for what holds one.

    Its pickle would be made, and fail in the workers, which have no session.
    """
    stream = BytesIO()
    _pickler_for_workers()(stream).dump(value)
    return stream.getvalue()


@cache
def _pickler_for_workers() -> Any:
    from pyspark import cloudpickle

    base: Any = cloudpickle.Pickler

    class PicklerForWorkers(base):  # type: ignore[misc]
        def reducer_override(self, obj: Any) -> Any:
            kind = type(obj)
            if kind.__name__ == "SparkSession" and kind.__module__.startswith("pyspark.sql.connect."):
                raise pickle.PicklingError("Spark's workers have no session")
            return super().reducer_override(obj)

    return PicklerForWorkers


class UnloadableFunctionError(Exception):
    """A function cannot be unpickled in a worker; `operator` says whose it is."""

    def __init__(self, operator: str) -> None:
        super().__init__(operator)
        self.operator = operator


def load_function(pickled: bytes, operator: str) -> Any:
    """What `pickled` holds. Raises UnloadableFunctionError from what loading it raises."""
    try:
        return pickle.loads(pickled)
    except BaseException as error:
        raise UnloadableFunctionError(operator) from error
