"""What scripts hand to streams is pickled at that moment."""

import pickle
import threading

import pytest

from penstock.engine.pyflink.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.operators.common.typeinfo import Types
from penstock.plans.errors import JobCompileError


def sent(stream):
    return pickle.loads(pickle.dumps(stream._transformation.pickled))


def test_later_changes_do_not_reach_the_job():
    env = StreamExecutionEnvironment.get_execution_environment()
    factor = {"n": 2}
    numbers = env.from_collection([1], type_info=Types.INT())
    keyed = numbers.key_by(lambda value: value * factor["n"])
    factor["n"] = 3
    mapped = keyed.map(lambda value: value * factor["n"])
    factor["n"] = 100
    operator = sent(mapped)
    assert operator.function(1) == 3
    assert operator.key_selectors[0](1) == 2
    selector = keyed._transformation.key_selector
    assert selector is not None
    assert selector(1) == 2


def test_what_cannot_be_pickled_is_said_at_once():
    env = StreamExecutionEnvironment.get_execution_environment()
    lock = threading.Lock()
    with pytest.raises(JobCompileError, match=r"Map: its function.*cannot be sent to Spark's workers.*lock"):
        env.from_collection([1]).map(lambda value: lock)
