"""Windows that do not fit into the memory given to them, and windows whose state lasts."""

import random

import pytest

from penstock.common import Types
from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, OperatorContext
from penstock.operators.connectors.state_sink import make_store, store_key
from penstock.operators.state.state_segments import SegmentStore
from penstock.operators.state.stored_state import OperatorRecord, StoredState
from penstock.operators.windows import panes
from penstock.operators.windows.assigners import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from penstock.operators.windows.panes import PaneLog
from tests.operator_harness import Record, Recording, Watermark, run
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


@pytest.mark.parametrize(("kind", "memory"), [(kind, 1 << 28) for kind in KINDS] + [("aggregate", 40_000)])
@pytest.mark.parametrize("lateness", [0, 6])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows(20, 5), SlidingEventTimeWindows(16, 6, 0)],
    ids=["tumbling", "sliding"],
)
def test_state_that_lasts_changes_nothing(tmp_path, kind, memory, lateness, assigner):
    def made(**settings):
        return operator(
            assigner, KINDS[kind](), allowed_lateness_milliseconds=lateness, late_tag="late", **settings
        )

    # most of the late records come after these watermarks
    steps = [Watermark(step.timestamp + 38) if isinstance(step, Watermark) else step for step in INPUTS]
    whole = run(made(by_trigger=True), steps, chunk=50)
    assert whole.side("late")
    recording = Recording()
    make_store(str(tmp_path))
    record = OperatorRecord(
        operator_id="id", uid=None, name="windows", max_parallelism=128, key_type=Types.LONG()
    )
    watermark = MIN_WATERMARK
    for version, start in enumerate(range(0, len(steps), 402), 1):
        stored = StoredState(record, SegmentStore(str(tmp_path), version, store_key(str(tmp_path))), 0, 128)
        windows = made()
        windows.setup(OperatorContext(stored_state=stored, state_memory_bytes=memory), recording)
        windows.open()
        windows.process_watermark(watermark)
        for step in steps[start : start + 402]:
            if isinstance(step, Watermark):
                watermark = step.timestamp
                windows.process_watermark(watermark)
            else:
                windows.process([step.value], [step.timestamp])
        if start + 402 >= len(steps):
            windows.process_watermark(MAX_WATERMARK)
            assert not list(windows._windows._state._table.all_entries()), "contents of windows that are over"
        windows.finish()
        record = windows.written_state()
        windows.close()
    assert sorted(map(repr, recording.stamped)) == sorted(map(repr, whole.stamped))
    assert sorted(map(repr, recording.side("late"))) == sorted(map(repr, whole.side("late")))
