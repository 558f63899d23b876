"""Which part of a function or an operator keeps it from being sent to workers."""

import functools
import threading
from dataclasses import replace

import pytest
from pyspark import cloudpickle

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.pickles import describe_unpicklable
from penstock.operators.functions.functions import MapFunction
from penstock.operators.task.report import TaskSpec
from penstock.operators.task.run_task import task_function
from penstock.plans.errors import JobCompileError
from tests.engine.run.runtime.run_in_process import compiled_job


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


@pytest.mark.parametrize("call", ["map", "key_by", "filter"])
def test_a_function_that_holds_a_session_of_spark_connect_is_refused_where_it_is_given(env, call):
    session = object.__new__(pytest.importorskip("pyspark.sql.connect.session").SparkSession)
    session._session_id = "one"
    with pytest.raises(JobCompileError) as raised:
        getattr(env.from_collection([1]), call)(lambda value: session.range(value + 1))
    for part in (
        f"{call}: its function".lower(),
        "captured variable 'session'",
        "Spark's workers have no session",
    ):
        assert part.lower() in str(raised.value).lower()
    assert "collect the rows" in str(raised.value)


class Unloadable:
    def __reduce__(self):
        return _refuse_to_load, ("\ud800",)


def _refuse_to_load(why):
    raise ValueError(why)


def test_a_function_that_a_worker_cannot_unpickle_names_its_operator(env):
    held = Unloadable()
    compiled, settings = compiled_job(env.from_collection([1]).map(lambda value: held).name("Digest"))
    spec = TaskSpec(chain=compiled.vertices[-1].chain, settings=settings)
    outline = replace(spec, chain=replace(spec.chain, operators=(), edges=(), outputs=(), gates=()))
    run = task_function(cloudpickle.dumps(spec), outline, [], [])
    with pytest.raises(UserFunctionError) as raised:
        list(run(iter([])))
    assert (raised.value.operator, raised.value.cause) == ("Map", "ValueError: \\ud800")
    assert "Digest" in raised.value.during


def test_an_operator_that_cannot_be_pickled_is_named(env):
    lock = threading.Lock()
    with pytest.raises(JobCompileError) as raised:
        env.from_collection([1]).map(lambda value: (value, lock))
    for part in ("Map: its function", "captured variable 'lock'", "_thread.lock", "hint"):
        assert part in str(raised.value)
