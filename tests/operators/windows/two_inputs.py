"""Records of two inputs, for joins."""

# mypy: disable-error-code="arg-type,method-assign,var-annotated"

import pytest
from hypothesis import strategies as st

from penstock.operators.windows.interval_join import ProcessJoinFunction
from tests.operator_harness import Record

#: (input, key, timestamp)
STEPS = st.lists(st.tuples(st.sampled_from([1, 2]), st.sampled_from("abc"), st.integers(0, 40)), max_size=25)
MODES = pytest.mark.parametrize("batch", [False, True])


def records(steps):
    return [Record((key, time, number), time, side) for number, (side, key, time) in enumerate(steps)]


def key_of(value):
    return value[0]


def sides(inputs):
    return [[one.value for one in inputs if one.number == number] for number in (1, 2)]


class Numbers(ProcessJoinFunction):
    def process_element(self, left, right, ctx):
        yield (left[2], right[2], ctx.get_left_timestamp(), ctx.get_right_timestamp(), ctx.get_timestamp())
