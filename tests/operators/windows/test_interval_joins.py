"""Interval join against nested loops."""

# mypy: disable-error-code="arg-type,method-assign,var-annotated"

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.common.output_tag import OutputTag
from penstock.operators.windows.interval_join import IntervalJoinOperator
from tests.operator_harness import Record, Watermark, run
from tests.operators.windows.two_inputs import MODES, STEPS, Numbers, key_of, records, sides

BOUNDS = st.tuples(st.integers(-15, 15), st.integers(0, 15)).map(lambda pair: (pair[0], sum(pair)))


@pytest.mark.slow
@MODES
@settings(max_examples=150, deadline=None)
@given(steps=STEPS, bounds=BOUNDS, lower_inclusive=st.booleans(), upper_inclusive=st.booleans())
def test_interval_join(batch, steps, bounds, lower_inclusive, upper_inclusive):
    inputs = records(steps)
    left, right = sides(inputs)
    lower, upper = bounds[0] + (not lower_inclusive), bounds[1] - (not upper_inclusive)
    expected = [
        ((one[2], other[2], one[1], other[1], max(one[1], other[1])), max(one[1], other[1]))
        for one in left
        for other in right
        if one[0] == other[0] and one[1] + lower <= other[1] <= one[1] + upper
    ]
    made = IntervalJoinOperator(
        key_of,
        key_of,
        Numbers(),
        bounds[0],
        bounds[1],
        lower_bound_inclusive=lower_inclusive,
        upper_bound_inclusive=upper_inclusive,
    )
    assert sorted(run(made, inputs, batch=batch).stamped) == sorted(expected)


class Model:
    """Flink's IntervalJoinOperator, by the letter: a bucket a timestamp, a clean-up timer a record."""

    def __init__(self, lower, upper):
        self.lower, self.upper, self.watermark = lower, upper, -(2**63)
        self.kept, self.timers = {1: [], 2: []}, set()
        self.found, self.late = [], {1: [], 2: []}

    def add(self, side, value):
        key, time, _ = value
        if time < self.watermark:
            self.late[side].append(value)
            return
        self.kept[side].append(value)
        for other in self.kept[3 - side]:
            left, right = (value, other) if side == 1 else (other, value)
            if key == other[0] and left[1] + self.lower <= right[1] <= left[1] + self.upper:
                self.found.append((left[2], right[2]))
        reach = self.upper if side == 1 else -self.lower
        self.timers.add((time + max(reach, 0), side, key, time))

    def advance(self, watermark):
        self.watermark = watermark
        for timer in sorted(self.timers):
            due, side, key, time = timer
            if due <= watermark:
                self.timers.remove(timer)
                self.kept[side] = [one for one in self.kept[side] if one[:2] != (key, time)]


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.sampled_from([1, 2]), st.sampled_from("ab"), st.integers(0, 30)), st.integers(0, 40)
        ),
        max_size=30,
    ),
    bounds=BOUNDS,
)
def test_interval_join_with_watermarks(steps, bounds):
    model = Model(*bounds)
    inputs: list[Record | Watermark] = []
    for number, step in enumerate(steps):
        if isinstance(step, int):
            if step > model.watermark:
                inputs.append(Watermark(step))
                model.advance(step)
        else:
            side, key, time = step
            inputs.append(Record((key, time, number), time, side))
            model.add(side, (key, time, number))
    made = IntervalJoinOperator(
        key_of,
        key_of,
        lambda left, right, ctx: [(left[2], right[2])],
        bounds[0],
        bounds[1],
        left_late_tag="left",
        right_late_tag="right",
    )
    made.close = lambda: None
    recorded = run(made, inputs)
    assert sorted(recorded.values) == sorted(model.found)
    assert recorded.side("left") == model.late[1]
    assert recorded.side("right") == model.late[2]
    for name in ("left-buffer", "right-buffer"):
        assert not made.backend.table(name).entries, "all is forgotten at the end of time"


def test_records_at_the_watermark_join_until_it_rises():
    made = IntervalJoinOperator(key_of, key_of, lambda left, right, ctx: [(left[2], right[2])], -5, 0)
    steps = [
        Watermark(10),
        Record(("a", 10, "l"), 10),
        Record(("a", 10, "r"), 10, 2),
        Watermark(11),
        Record(("a", 11, "later"), 11, 2),
        Record(("a", 15, "l5"), 15),
        Record(("a", 16, "l6"), 16),
        Record(("a", 17, "l7"), 17),
    ]
    assert run(made, steps).values == [("l", "r"), ("l5", "r"), ("l5", "later"), ("l6", "later")]


def test_interval_join_results_by_time_and_side_outputs():
    tag = OutputTag("pairs")
    made = IntervalJoinOperator(
        key_of, key_of, lambda left, right, ctx: [(tag, right[2]), (left[2], right[2])], -5, 5
    )
    inputs = records([(2, "a", 7), (2, "a", 3), (2, "a", 5), (1, "a", 4)])
    recorded = run(made, inputs)
    assert recorded.stamped == [((3, 1), 4), ((3, 2), 5), ((3, 0), 7)]
    assert recorded.side("pairs") == [1, 2, 0]


def test_interval_join_needs_timestamps_and_an_interval():
    with pytest.raises(ValueError, match="got 5 ms and 4 ms"):
        IntervalJoinOperator(key_of, key_of, Numbers(), 5, 4)
    with pytest.raises(Exception, match=r"assign_timestamps_and_watermarks"):
        run(IntervalJoinOperator(key_of, key_of, Numbers(), 0, 1), [Record(("a", None, 1))])


@pytest.mark.slow
def test_interval_join_of_more_than_memory():
    inputs = records([(number % 2 + 1, f"key{number % 97}", number) for number in range(3000)])

    def results(memory):
        made = IntervalJoinOperator(key_of, key_of, Numbers(), -300, 300)
        return run(made, inputs, chunk=40, state_memory_bytes=memory).values

    assert results(5000) == results(2**30)
