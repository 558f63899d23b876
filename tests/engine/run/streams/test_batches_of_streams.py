"""State, timers, windows and watermarks from batch to batch, and the commit of a batch."""

from pathlib import Path
from typing import Any

import pytest

from penstock.common import Time, Types
from penstock.connectors import JsonLinesSink
from penstock.datastream import KeyedProcessFunction, ValueStateDescriptor
from penstock.datastream.functions import ProcessWindowFunction
from penstock.datastream.window import TumblingEventTimeWindows
from tests.engine.run.streams.batches_in_process import Stream, in_process, lines

__all__ = ["in_process"]
pytestmark = pytest.mark.usefixtures("in_process")

COUNT = Types.TUPLE([Types.STRING(), Types.LONG()])
SPENT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
CLICKS = [
    ("ann", 3, 0),
    ("bob", 5, 1000),
    ("ann", 4, 5000),
    ("bob", 1, 12_000),
    ("ann", 2, 13_000),
    ("cat", 7, 14_000),
    ("ann", 1, 26_000),
]


class Count(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("counts", Types.LONG()))

    def process_element(self, click, ctx):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield click.user, count


class Spent(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key, context, clicks):
        yield key, context.window().end, sum(click.amount for click in clicks)


def counts_and_windows(folder: Path) -> Any:
    def build(clicks):
        clicks.process(Count(), COUNT).sink_to(JsonLinesSink(str(folder / "counts")))
        windows = clicks.window(TumblingEventTimeWindows.of(Time.seconds(10)))
        windows.process(Spent(), SPENT).sink_to(JsonLinesSink(str(folder / "windows")))

    return build


def test_counts_and_windows_go_on_from_batch_to_batch(tmp_path):
    stream = Stream(tmp_path, counts_and_windows(tmp_path), lag=2000)
    stream.batches(CLICKS[:2], CLICKS[2:3], [], CLICKS[3:6], CLICKS[6:])
    assert lines(tmp_path / "counts") == [
        ["ann", 1],
        ["ann", 2],
        ["ann", 3],
        ["ann", 4],
        ["bob", 1],
        ["bob", 2],
        ["cat", 1],
    ]
    # the watermark is 23,999: windows that end later are open
    assert lines(tmp_path / "windows") == [
        ["ann", 10_000, 7],
        ["ann", 20_000, 2],
        ["bob", 10_000, 5],
        ["bob", 20_000, 1],
        ["cat", 20_000, 7],
    ]


def test_a_batch_that_was_done_is_skipped(tmp_path):
    stream = Stream(tmp_path, counts_and_windows(tmp_path))
    first = stream.batch(CLICKS[:2], 0)
    assert first is not None
    assert first["version"] == 1
    assert stream.batch(CLICKS[:2], 0) is None
    assert lines(tmp_path / "counts") == [["ann", 1], ["bob", 1]]
