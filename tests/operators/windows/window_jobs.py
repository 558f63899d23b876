"""Functions and oracles that the tests of windows share. Records are (key, timestamp, number)."""

# mypy: disable-error-code="type-arg"

from penstock.operators.functions.functions import AggregateFunction, ProcessWindowFunction
from penstock.operators.windows.window_functions import aggregated, buffered, reduced
from penstock.operators.windows.window_operator import WindowOperator
from tests.operator_harness import Record


class Numbers(AggregateFunction):
    """The numbers in their order, as text: neither commutative nor forgiving."""

    def create_accumulator(self):
        return ()

    def add(self, value, accumulator):
        return (*accumulator, value[2])

    def get_result(self, accumulator):
        return "|".join(map(str, accumulator))

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class Show(ProcessWindowFunction):
    """Key, window and what it holds."""

    def process(self, key, context, elements):
        window = context.window()
        yield (key, getattr(window, "start", None), getattr(window, "end", None), list(elements))


def key_of(value):
    return value[0]


def join_numbers(a, b):
    return (a[0], max(a[1], b[1]), f"{a[2]},{b[2]}")


KINDS = {
    "reduce": lambda: reduced(join_numbers),
    "reduce and process": lambda: reduced(join_numbers, Show()),
    "aggregate": lambda: aggregated(Numbers()),
    "aggregate and process": lambda: aggregated(Numbers(), Show()),
    "process": lambda: buffered(Show()),
}


def result_of(kind, key, start, end, values):
    """What a window of these values puts out."""
    numbers = [value[2] for value in values]
    one = (key, max(value[1] for value in values), ",".join(map(str, numbers)))
    if len(values) == 1:
        one = values[0]
    text = "|".join(map(str, numbers))
    return {
        "reduce": one,
        "reduce and process": (key, start, end, [one]),
        "aggregate": text,
        "aggregate and process": (key, start, end, [text]),
        "process": (key, start, end, list(values)),
    }[kind]


def operator(assigner, function, trigger=None, **settings):
    return WindowOperator(
        assigner, trigger or assigner.get_default_trigger(None), key_of, function, **settings
    )


def stamped(values):
    return [Record(value, value[1]) for value in values]


def counted(steps):
    """(key, timestamp) to records with a number each."""
    return [(key, time, number) for number, (key, time) in enumerate(steps)]
