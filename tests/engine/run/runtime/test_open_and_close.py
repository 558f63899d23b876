"""Functions, selectors and partitioners are opened and closed once a subtask, whatever happens."""

import pathlib

import pytest

from penstock.engine.pyflink.datastream import RuntimeExecutionMode
from penstock.operators.functions.functions import KeySelector, MapFunction, Partitioner
from tests.engine.run.runtime.failure_of import failure_of
from tests.engine.run.runtime.run_in_process import collected


class Counted:
    """Counts calls of open and close in a class attribute, so that subtasks' copies share it."""

    calls: "list[str]"

    def open(self, runtime_context):
        type(self).calls.append("open")

    def close(self):
        type(self).calls.append("close")


CALLS: list[str] = []


class Named(MapFunction):
    def __init__(self, name):
        self.name = name

    def open(self, runtime_context):
        CALLS.append(f"open {self.name}")

    def close(self):
        CALLS.append(f"close {self.name}")

    def map(self, value):
        return value


class CountedSelector(Counted, KeySelector):
    calls: "list[str]" = []  # noqa: RUF012

    def get_key(self, value):
        if value == 13:
            raise ValueError("unlucky")
        return value


class CountedPartitioner(Counted, Partitioner):
    calls: "list[str]" = []  # noqa: RUF012

    def partition(self, key, num_partitions):
        return key % num_partitions


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", [CountedSelector, CountedPartitioner])
def test_selectors_and_partitioners_are_closed_as_often_as_opened(env, kind, fails, mode):
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    env.set_parallelism(2)
    given = env.from_collection([1, 2, 13 if fails else 3])
    kind.calls.clear()
    if kind is CountedSelector:
        stream = given.key_by(CountedSelector()).reduce(lambda one, other: one)
        subtasks = 1 if fails else 3
    else:
        stream = given.partition_custom(CountedPartitioner(), CountedSelector()).map(lambda value: value)
        subtasks = 1
    if fails:
        failure_of(stream)
    else:
        collected(stream)
    assert kind.calls == ["open", "close"] * subtasks


def test_operators_are_opened_and_closed_tail_first(env):
    CALLS.clear()
    collected(env.from_collection([1]).map(Named("head")).map(Named("tail")))
    assert CALLS == ["open tail", "open head", "close tail", "close head"]


class Plain:
    """A callable that is no function object, with methods of its own."""

    def open(self):
        raise AssertionError

    def map(self):
        raise AssertionError

    def close(self, how):
        raise AssertionError

    def __call__(self, value):
        return value + 1


@pytest.mark.parametrize("keyed", [False, True])
def test_a_plain_callable_is_called_whatever_attributes_it_has(env, keyed):
    stream = env.from_collection([1, 2])
    assert collected((stream.key_by(Plain()) if keyed else stream).map(Plain())) == [2, 3]
    assert collected(env.from_collection(["a"]).map(pathlib.Path)) == [pathlib.Path("a")]
