"""Clicks, functions over them, and operators of windows by their first field."""

# mypy: disable-error-code="type-arg,var-annotated"

from penstock.operators.functions.functions import AggregateFunction, ProcessWindowFunction, WindowFunction
from penstock.operators.windows.trigger import Trigger, TriggerResult
from penstock.operators.windows.window_operator import WindowOperator
from tests.operator_harness import Record

CLICKS = [
    ("ann", 1000, 3),
    ("bob", 2000, 5),
    ("ann", 3500, 4),
    ("cid", 4000, 1),
    ("ann", 5200, 7),
    ("bob", 9000, 2),
    ("ann", 11000, 9),
    ("dee", 12000, 6),
    ("bob", 14999, 8),
    ("bob", 15000, 1),
    ("cid", 21000, 2),
    ("ann", 21500, 2),
]
TIMED = [Record(click, click[1]) for click in CLICKS]
UNTIMED = [Record(click) for click in CLICKS]


class Mean(AggregateFunction):
    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[2], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Name(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (key, context.window().start, list(elements))


class Span(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (key, context.window().start, context.window().end, sum(e[2] for e in elements))


class Sum(WindowFunction):
    def apply(self, key, window, inputs):
        yield (key, sum(i[2] for i in inputs))


class Show(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (key, str(context.window()), [e[2] for e in elements])


class OnBig(Trigger):
    def __init__(self, big, again=None):
        self.big, self.again = big, again

    def on_element(self, element, timestamp, window, ctx):
        ctx.register_event_time_timer(window.max_timestamp())
        if self.again:
            ctx.register_event_time_timer(timestamp + self.again)
        return TriggerResult.FIRE if element[2] >= self.big else TriggerResult.CONTINUE

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        return TriggerResult.FIRE_AND_PURGE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        ctx.delete_event_time_timer(window.max_timestamp())


def first(value):
    return value[0]


def add_up(a, b):
    return (a[0], max(a[1], b[1]), a[2] + b[2])


def windowed(assigner, function, trigger=None, key=first, **settings):
    return WindowOperator(assigner, trigger or assigner.get_default_trigger(None), key, function, **settings)


class NameOfThird(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (key, context.window().start, [e[2] for e in elements])
