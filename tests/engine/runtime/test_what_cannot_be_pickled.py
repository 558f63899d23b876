"""Which part of a function or an operator keeps it from being sent to workers."""

import functools
import threading

import pytest

from penstock.engine.datastream.functions import MapFunction
from penstock.engine.runtime.errors import JobCompileError
from penstock.operators.common.describe_unpicklable import describe_unpicklable


def test_what_keeps_a_function_from_being_pickled_is_found():
    lock = threading.Lock()
    deep = {"a": [1, (2, lock)]}

    class Holds(MapFunction):
        def __init__(self):
            self.inner = functools.partial(print, lock)

        def map(self, value):
            return value

    def captures(value):
        return value, deep

    def by_default(value, other=lock):
        return value

    for function, parts in (
        (captures, ("captures", "captured variable 'deep', item 'a', element 1, element 1", "_thread.lock")),
        (by_default, ("default value 0", "_thread.lock")),
        (Holds(), ("class", "Holds", "attribute 'inner', argument 0", "_thread.lock")),
        (Holds().map, ("the object of its method 'map'", "attribute 'inner'")),
        (lock, ("it is of type _thread.lock",)),
    ):
        text = describe_unpicklable(function, "map's function", TypeError("cannot pickle"))
        for part in (*parts, "map's function", "cannot pickle", "hint", "open()"):
            assert part in text, text


def test_an_operator_that_cannot_be_pickled_is_named(env):
    lock = threading.Lock()
    with pytest.raises(JobCompileError) as raised:
        env.from_collection([1]).map(lambda value: (value, lock))
    for part in ("Map: its function", "captured variable 'lock'", "_thread.lock", "hint"):
        assert part in str(raised.value)
