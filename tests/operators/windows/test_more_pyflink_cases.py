"""Scripts that the real PyFlink 2.3.0 ran in STREAMING mode: its results from the operators alone."""

# mypy: disable-error-code="type-arg,var-annotated"

from penstock.operators.common.time import Time
from penstock.operators.functions.functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
)
from penstock.operators.windows.assigners import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.trigger import SessionWindowTimeGapExtractor
from penstock.operators.windows.triggers import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeTrigger,
    PurgingTrigger,
)
from penstock.operators.windows.window_functions import buffered, reduced
from tests.operator_harness import Record, run
from tests.operators.windows.clicks import TIMED, UNTIMED, NameOfThird, OnBig, Show, Span, add_up, windowed


class ThirdFieldSeconds(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2] * 1000


# From here on: scripts of the same form that the real PyFlink ran in STREAMING mode while this was written.

BRIDGED = [
    ("a", 10000, "p"),
    ("a", 20000, "q"),
    ("a", 14000, "r"),
    ("b", 5000, "s"),
    ("a", 17000, "t"),
    ("a", 12000, "u"),
    ("a", 40000, "v"),
    ("a", 50000, "w"),
    ("a", 45000, "x"),
    ("b", 1000, "y"),
    ("b", 3000, "z"),
]


class Joined(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield (key, context.window().start, context.window().end, "".join(e[2] for e in elements))


def test_sessions_merge_in_pyflink_order():
    operator = windowed(EventTimeSessionWindows.with_gap(Time.seconds(5)), buffered(Joined()))
    assert sorted(run(operator, [Record(e, e[1]) for e in BRIDGED]).values) == [
        ("a", 10000, 25000, "prqtu"),
        ("a", 40000, 55000, "wvx"),
        ("b", 1000, 10000, "syz"),
    ]


def test_reduced_sessions_lose_nothing():
    """The real PyFlink loses what a session is merged from: it has 'prtu' and 'wx' here."""
    operator = windowed(EventTimeSessionWindows.with_gap(Time.seconds(5)), reduced(add_up))
    assert sorted(run(operator, [Record(e, e[1]) for e in BRIDGED]).values) == [
        ("a", 20000, "prqtu"),
        ("a", 50000, "wvx"),
        ("b", 5000, "syz"),
    ]


def test_sliding_count_windows():
    records = [("k", i, i) for i in range(11)]
    overlapping = run(windowed(CountSlidingWindowAssigner.of(4, 2), buffered(Show())), records)
    assert overlapping.values == [
        ("k", "CountWindow(id=0)", [0, 1, 2, 3]),
        ("k", "CountWindow(id=1)", [2, 3, 4, 5]),
        ("k", "CountWindow(id=2)", [4, 5, 6, 7]),
        ("k", "CountWindow(id=3)", [6, 7, 8, 9]),
    ]
    apart = run(windowed(CountSlidingWindowAssigner.of(2, 3), buffered(Show())), records)
    assert apart.values == [
        ("k", "CountWindow(id=0)", [0, 1]),
        ("k", "CountWindow(id=1)", [3, 4]),
        ("k", "CountWindow(id=2)", [6, 7]),
        ("k", "CountWindow(id=3)", [9, 10]),
    ]


def test_count_trigger_and_purging():
    records = [("k", i, i) for i in range(11)]
    every_third = run(windowed(GlobalWindows.create(), buffered(Show()), CountTrigger.of(3)), records)
    assert [value[2] for value in every_third.values] == [[*range(3)], [*range(6)], [*range(9)]]
    purging = PurgingTrigger.of(CountTrigger.of(3))
    purged = run(windowed(GlobalWindows.create(), buffered(Show()), purging), records)
    assert [value[2] for value in purged.values] == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    twice = run(windowed(CountTumblingWindowAssigner.of(5), buffered(Show()), CountTrigger.of(2)), records)
    assert [value[1:] for value in twice.values] == [
        ("CountWindow(id=0)", [0, 1]),
        ("CountWindow(id=0)", [0, 1, 2, 3]),
        ("CountWindow(id=1)", [5, 6]),
        ("CountWindow(id=1)", [5, 6, 7, 8]),
    ]


def test_timestamps_of_results():
    by_count = run(windowed(CountTumblingWindowAssigner.of(2), buffered(Show())), TIMED)
    assert sorted(by_count.stamped) == [
        (("ann", "CountWindow(id=0)", [3, 4]), 3500),
        (("ann", "CountWindow(id=1)", [7, 9]), 11000),
        (("bob", "CountWindow(id=0)", [5, 2]), 9000),
        (("bob", "CountWindow(id=1)", [8, 1]), 15000),
        (("cid", "CountWindow(id=0)", [1, 2]), 21000),
    ]
    by_time = run(windowed(TumblingEventTimeWindows.of(Time.seconds(10)), buffered(Show())), TIMED)
    assert {stamp for _, stamp in by_time.stamped} == {9999, 19999, 29999}


def test_trigger_with_timers_inside_the_window():
    ten = TumblingEventTimeWindows.of(Time.seconds(10))
    values = run(windowed(ten, buffered(NameOfThird()), OnBig(7, again=100)), TIMED).values
    assert sorted(values) == [
        ("ann", 0, [3, 4, 7]),
        ("ann", 0, [3, 4, 7]),
        ("ann", 10000, [9]),
        ("ann", 10000, [9]),
        ("ann", 20000, [2]),
        ("bob", 0, [5, 2]),
        ("bob", 10000, [8]),
        ("bob", 10000, [8, 1]),
        ("cid", 0, [1]),
        ("cid", 20000, [2]),
        ("dee", 10000, [6]),
    ]


def test_continuous_trigger():
    operator = windowed(
        TumblingEventTimeWindows.of(Time.seconds(10)),
        reduced(add_up),
        ContinuousEventTimeTrigger.of(Time.seconds(3)),
    )
    once = [
        ("ann", 5200, 14),
        ("ann", 11000, 9),
        ("ann", 21500, 2),
        ("bob", 9000, 7),
        ("bob", 15000, 9),
        ("cid", 4000, 1),
        ("cid", 21000, 2),
        ("dee", 12000, 6),
    ]
    values = run(operator, TIMED).values
    assert set(values) == set(once)


def test_all_windows():
    class All(ProcessAllWindowFunction):
        def process(self, context, elements):
            yield (context.window().start, sorted(e[2] for e in elements))

    class InOrder(AllWindowFunction):
        def apply(self, window, inputs):
            yield (window.start, [e[2] for e in inputs])

    ten = Time.seconds(10)
    by_context = windowed(TumblingEventTimeWindows.of(ten), buffered(All()), key=lambda value: 0)
    assert run(by_context, TIMED).values == [
        (0, [1, 2, 3, 4, 5, 7]),
        (10000, [1, 6, 8, 9]),
        (20000, [2, 2]),
    ]
    shifted = TumblingEventTimeWindows.of(ten, Time.seconds(3))
    assert run(windowed(shifted, buffered(InOrder()), key=lambda value: 0), TIMED).values == [
        (-7000, [3, 5]),
        (3000, [4, 1, 7, 2, 9, 6]),
        (13000, [8, 1, 2, 2]),
    ]


def test_dynamic_gap():
    operator = windowed(EventTimeSessionWindows.with_dynamic_gap(ThirdFieldSeconds()), buffered(Span()))
    assert sorted(run(operator, TIMED).values) == [
        ("ann", 1000, 20000, 23),
        ("ann", 21500, 23500, 2),
        ("bob", 2000, 7000, 5),
        ("bob", 9000, 11000, 2),
        ("bob", 14999, 22999, 9),
        ("cid", 4000, 5000, 1),
        ("cid", 21000, 23000, 2),
        ("dee", 12000, 18000, 6),
    ]


def test_sessions_without_timestamps():
    operator = windowed(
        EventTimeSessionWindows.with_gap(Time.seconds(5)), buffered(Show()), EventTimeTrigger.create()
    )
    start = -(2**63)
    assert sorted(run(operator, UNTIMED).values) == [
        (name, f"TimeWindow(start={start}, end={start + 5000})", numbers)
        for name, numbers in (
            ("ann", [3, 4, 7, 9, 2]),
            ("bob", [5, 2, 8, 1]),
            ("cid", [1, 2]),
            ("dee", [6]),
        )
    ]
