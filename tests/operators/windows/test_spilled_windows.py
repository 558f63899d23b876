"""Windows that do not fit into the memory given to them."""

import random

import pytest

from penstock.operators.windows import panes
from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.panes import PaneLog
from tests.operator_harness import Record, Watermark, run
from tests.operators.windows.window_jobs import KINDS, operator

STEPS = random.Random(7)
INPUTS: list[Record | Watermark] = []
for number in range(1600):
    time = number // 4
    late = STEPS.randrange(40) if STEPS.random() < 0.1 else 0
    INPUTS.append(Record((STEPS.randrange(300), time - late, number), time - late))
    if number % 200 == 199:
        INPUTS.append(Watermark(time - 40))


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    monkeypatch.setattr(panes, "_RECORDS_PER_CHECK", 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "memory", "lateness"),
    [(kind, memory, 0) for kind in KINDS for memory in (1000, 10_000)] + [("aggregate", 1000, 30)],
)
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows(100, 0), SlidingEventTimeWindows(150, 50, 0), EventTimeSessionWindows(30)],
    ids=["tumbling", "sliding", "session"],
)
def test_small_memory_changes_nothing(kind, memory, lateness, assigner):

    def results(**settings):
        made = operator(assigner, KINDS[kind](), allowed_lateness_milliseconds=lateness)
        return sorted(map(repr, run(made, INPUTS, chunk=50, **settings).stamped))

    assert results(state_memory_bytes=memory) == results()


def test_windows_do_go_to_disk(monkeypatch):
    made = []

    class Watched(PaneLog):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr(panes, "PaneLog", Watched)
    run(
        operator(TumblingEventTimeWindows(100, 0), KINDS["reduce"]()),
        INPUTS,
        chunk=50,
        state_memory_bytes=2000,
    )
    assert made
    assert all(log._file.closed for log in made)
