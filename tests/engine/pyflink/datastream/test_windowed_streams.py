"""Streams in windows."""

from typing import Any

import pytest

from penstock.engine.pyflink.datastream import (
    AggregateFunction,
    OutputTag,
    ProcessWindowFunction,
    WindowFunction,
)
from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.common.time import Time
from penstock.operators.common.typeinfo import Types
from penstock.operators.functions.functions import AllWindowFunction, ProcessAllWindowFunction
from penstock.operators.windows.assigners import EventTimeSessionWindows, TumblingEventTimeWindows
from penstock.operators.windows.triggers import CountTrigger, NeverTrigger, PurgingTrigger
from tests.engine.pyflink.datastream.helpers import PAIR, environment, first, pairs


class Apply(WindowFunction[Any, Any, Any, Any]):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return ()


class Process(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        return ()


class ApplyAll(AllWindowFunction[Any, Any, Any]):
    def apply(self, window: Any, inputs: Any) -> Any:
        return ()


class ProcessAll(ProcessAllWindowFunction[Any, Any, Any]):
    def process(self, context: Any, elements: Any) -> Any:
        return ()


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + 1

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


def test_windows() -> None:
    env = environment()
    windowed = pairs(env).key_by(first).window(TumblingEventTimeWindows.of(Time.seconds(5)))
    assert windowed.get_execution_environment() is env
    assert windowed.get_input_type() == PAIR
    made = [
        windowed.reduce(lambda a, b: a),
        windowed.reduce(lambda a, b: a, Apply(), Types.INT()),
        windowed.aggregate(Count(), output_type=Types.INT()),
        windowed.aggregate(Count(), window_function=Process(), accumulator_type=Types.INT()),
        windowed.apply(Apply()),
        windowed.process(Process(), Types.INT()),
    ]
    pickled = Types.PICKLED_BYTE_ARRAY()
    assert [one.get_type() for one in made] == [PAIR, Types.INT(), Types.INT(), pickled, pickled, Types.INT()]
    assert {one.get_name() for one in made} == {"TumblingEventTimeWindows"}
    assert [one._transformation.description for one in made] == [
        f"Window(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, {functions})"
        for functions in ("function", "function, Apply", "Count", "Count, Process", "Apply", "Process")
    ]
    for one in made:
        assert len(one._transformation.key_selectors) == 1


def test_settings_of_windows() -> None:
    late = OutputTag("late", PAIR)
    keyed = pairs(environment()).key_by(first)
    result = (
        keyed.window(TumblingEventTimeWindows.of(Time.seconds(5)))
        .trigger(PurgingTrigger.of(CountTrigger.of(2)))
        .allowed_lateness(700)
        .side_output_late_data(late)
        .process(Process())
    )
    operator = result._transformation.operator
    assert (operator.allowed_lateness, operator.late_tag) == (700, "late")
    assert isinstance(operator.trigger, PurgingTrigger)
    assert result.get_side_output(late).get_type() == PAIR
    windowed = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5)))
    assert windowed.get_input_type() == PAIR
    # PyFlink takes the sum with the window's end for an overflow: the window is never over
    for_good = windowed.allowed_lateness(-1).process(Process())._transformation.operator
    assert for_good.allowed_lateness == MAX_WATERMARK
    with pytest.raises(TypeError, match="allowed lateness must be an int"):
        windowed.allowed_lateness("5")  # type: ignore[arg-type]


def test_count_windows() -> None:
    keyed = pairs(environment()).key_by(first)
    assert keyed.count_window(2).apply(Apply()).get_name() == "CountTumblingWindowAssigner"
    assert keyed.count_window(4, 2).apply(Apply()).get_name() == "CountSlidingWindowAssigner"


def test_windows_over_all() -> None:
    env = environment()
    windowed = pairs(env).window_all(TumblingEventTimeWindows.of(Time.seconds(5)))
    made = [
        windowed.reduce(lambda a, b: a, ProcessAll()),
        windowed.aggregate(Count(), ApplyAll()),
        windowed.apply(ApplyAll()),
        windowed.process(ProcessAll()),
    ]
    for one in made:
        (selector,) = one._transformation.key_selectors
        assert selector(("a", 1)) == selector(("b", 2)) == 0
    assert made[3]._transformation.description == (
        "AllWindow(TumblingEventTimeWindows(5000, 0), EventTimeTrigger, ProcessAll)"
    )


def test_wrong_window_functions() -> None:
    stream = pairs(environment())
    keyed = stream.key_by(first).window(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    over_all = stream.window_all(EventTimeSessionWindows.with_gap(Time.seconds(5)))
    for call in (
        lambda: keyed.reduce(lambda a, b: a, ProcessAll()),  # type: ignore[arg-type]
        lambda: keyed.aggregate(Count(), lambda *_: ()),  # type: ignore[arg-type]
        lambda: keyed.aggregate(lambda *_: ()),  # type: ignore[arg-type]
        lambda: keyed.apply(Process()),  # type: ignore[arg-type]
        lambda: keyed.process(Apply()),  # type: ignore[arg-type]
        lambda: over_all.process(Process()),  # type: ignore[arg-type]
        lambda: over_all.reduce(1),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


class CannotMerge(NeverTrigger[Any]):
    def can_merge(self) -> bool:
        return False


def test_triggers_of_windows_that_merge() -> None:
    stream = pairs(environment())
    sessions: Any = EventTimeSessionWindows.with_gap(Time.seconds(5))
    with pytest.raises(TypeError, match="but CannotMerge cannot merge"):
        stream.window_all(sessions).trigger(CannotMerge())
    stream.key_by(first).window(sessions).trigger(CannotMerge())  # PyFlink does not look there
