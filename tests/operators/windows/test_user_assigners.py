"""Assigners of windows that users write."""

# mypy: disable-error-code="arg-type,method-assign,type-arg,var-annotated"

import pytest

from penstock.operators.windows.trigger import MergingWindowAssigner, WindowAssigner
from penstock.operators.windows.triggers import EventTimeTrigger
from penstock.operators.windows.window import TimeWindow, TimeWindowSerializer
from tests.operator_harness import run
from tests.operators.windows.window_jobs import KINDS, counted, operator, stamped


class HalfDays(WindowAssigner):
    """A user's own: tumbling, and everything of key b in one more."""

    def assign_windows(self, element, timestamp, context):
        start = timestamp // 12 * 12
        yield TimeWindow(start, start + 12)
        if element[0] == "b":
            yield TimeWindow(0, 1000)

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


def test_user_written_assigner():
    values = counted([("a", 1), ("b", 2), ("b", 20)])
    recorded = run(operator(HalfDays(), KINDS["process"]()), stamped(values))
    assert [(key, start, end, len(some)) for key, start, end, some in recorded.values] == [
        ("a", 0, 12, 1),
        ("b", 0, 12, 1),
        ("b", 12, 24, 1),
        ("b", 0, 1000, 2),
    ]


class GrowingToTens(MergingWindowAssigner):
    """A user's own: windows that merge whenever they start in the same ten, with lists for sets."""

    def assign_windows(self, element, timestamp, context):
        return [TimeWindow(timestamp, timestamp + 1)]

    def merge_windows(self, windows, callback):
        tens = {}
        for window in windows:
            tens.setdefault(window.start // 10, []).append(window)
        for some in tens.values():
            if len(some) > 1:
                callback.merge(some, TimeWindow(min(w.start for w in some), max(w.end for w in some)))

    def get_default_trigger(self, env):
        return EventTimeTrigger()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


@pytest.mark.parametrize("kind", ["reduce", "aggregate", "process"])
def test_user_written_merging_assigner(kind):
    values = counted([("a", 8), ("a", 1), ("a", 12), ("a", 4)])
    recorded = run(operator(GrowingToTens(), KINDS[kind]()), stamped(values))
    assert (
        recorded.stamped
        == {
            "reduce": [(("a", 8, "0,1,3"), 8), (("a", 12, 2), 12)],
            "aggregate": [("0|1|3", 8), ("2", 12)],
            "process": [(("a", 1, 9, [*values[:2], values[3]]), 8), (("a", 12, 13, values[2:3]), 12)],
        }[kind]
    )
