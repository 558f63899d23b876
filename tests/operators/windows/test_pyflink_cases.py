"""Windowed cases that the real PyFlink 2.3.0 has run: its results from the operators alone."""

# mypy: disable-error-code="type-arg,var-annotated"

import json
from pathlib import Path

import pytest

from penstock.operators.common.time import Time
from penstock.operators.windows.assigners import (
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.window_functions import aggregated, buffered, reduced
from tests.operator_harness import run
from tests.operators.windows.clicks import (
    TIMED,
    UNTIMED,
    Mean,
    Name,
    NameOfThird,
    OnBig,
    Span,
    Sum,
    add_up,
    windowed,
)

EXPECTED = Path(__file__).parents[2] / "pyflink" / "expected.jsonl"


SHARED = {
    "tumbling_window_reduce": (
        lambda: windowed(TumblingEventTimeWindows.of(Time.seconds(5)), reduced(add_up)),
        TIMED,
    ),
    "sliding_window_aggregate": (
        lambda: windowed(
            SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(4)), aggregated(Mean(), Name())
        ),
        TIMED,
    ),
    "session_window": (
        lambda: windowed(EventTimeSessionWindows.with_gap(Time.seconds(3)), buffered(Span())),
        TIMED,
    ),
    "count_windows": (lambda: windowed(CountTumblingWindowAssigner.of(2), buffered(Sum())), UNTIMED),
    "custom_trigger": (
        lambda: windowed(
            TumblingEventTimeWindows.of(Time.seconds(10)),
            buffered(NameOfThird()),
            OnBig(4),
        ),
        TIMED,
    ),
}


def expected():
    for line in EXPECTED.read_text().splitlines():
        case = json.loads(line)
        if case["case"] in SHARED:
            yield pytest.param(case, id=f"{case['case']}-{case['mode']}-{case['parallelism']}")


@pytest.mark.parametrize("case", list(expected()))
def test_shared_case(case):
    make, records = SHARED[case["case"]]
    subtasks = case["parallelism"]
    values = []
    for subtask in range(subtasks):
        mine = [record for record in records if sum(record.value[0].encode()) % subtasks == subtask]
        values += run(make(), mine, batch=case["mode"] == "BATCH").values
    assert sorted(f"RESULT {value!r}" for value in values) == case["results"]
