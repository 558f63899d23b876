"""Keeps what a script hands to a stream as it was at that moment.

PyFlink pickles a function when it is handed over (to map, key_by, reduce, …). What the script changes after
that call, such as the variable of a loop or a dict that the function refers to, does not reach the job, and
two operators never share one function object.

Source: pyflink.datastream.data_stream._get_one_input_stream_operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark import cloudpickle

from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.spark.worker_function import note_broadcasts, pickle_with_broadcasts
from penstock.operators.common.pickles import describe_unpicklable, load_function


class Pickled:
    """Holds the pickle of `thing`, and unpickles as the thing itself.

    `thing` is an operator or a function, and `name` says in messages what it belongs to. Raises
    JobCompileError where it cannot be pickled.
    """

    def __init__(self, thing: Any, name: str) -> None:
        try:
            self._name = name
            self._pickle, self._broadcasts = pickle_with_broadcasts(thing)
        except Exception as error:
            function = getattr(thing, "function", thing)
            raise JobCompileError(
                f"{name}: {describe_unpicklable(function, 'its function', error)}"
            ) from error

    def __call__(self, *arguments: Any) -> Any:
        """The result of a new copy of the function for `arguments`."""
        return cloudpickle.loads(self._pickle)(*arguments)

    def __copy__(self) -> Pickled:
        """One that unpickles as another thing: within one pickle, what stands twice is one thing."""
        other = object.__new__(Pickled)
        other.__dict__.update(self.__dict__)
        return other

    def __reduce__(self) -> tuple[Callable[[bytes, str], Any], tuple[bytes, str]]:
        note_broadcasts(self._broadcasts)
        return load_function, (self._pickle, self._name)
