"""Run one operator in this process, without a chain around it, and record its output."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pyspark import cloudpickle

from penstock.operators.chain.operator import MAX_WATERMARK, MIN_WATERMARK, OperatorContext
from penstock.operators.common.serialized_keys import dictionary_key


@dataclass(frozen=True)
class Record:
    """A record of input `number`."""

    value: Any
    timestamp: int | None = None
    number: int = 1


@dataclass(frozen=True)
class Watermark:
    timestamp: int


@dataclass(frozen=True)
class Tick:
    """A step of the clock."""

    milliseconds: int


@dataclass
class Recording:
    """The output; `events` has everything in order: (kind, …)."""

    events: list[tuple[object, ...]] = field(default_factory=list)
    calls: int = 0  #: number of calls with records of the main output

    @property
    def values(self):
        return [event[1] for event in self.events if event[0] == "record"]

    @property
    def stamped(self):
        return [event[1:] for event in self.events if event[0] == "record"]

    @property
    def watermarks(self):
        return [event[1] for event in self.events if event[0] == "watermark"]

    def side(self, tag):
        return [event[2] for event in self.events if event[0] == "side" and event[1] == tag]

    def collect(self, values, timestamps):
        assert values, "an empty list is not worth a call"
        self.calls += 1
        self.events += [("record", value, stamp) for value, stamp in _zipped(values, timestamps)]

    def collect_side(self, tag, values, timestamps):
        self.events += [("side", tag, value, stamp) for value, stamp in _zipped(values, timestamps)]

    def collect_batch(self, batch, timestamps):
        self.collect(batch.to_pylist(), None if timestamps is None else timestamps.to_pylist())

    def watermark(self, timestamp):
        self.events.append(("watermark", timestamp))


class Clock:
    """A clock that only advances by Ticks."""

    def __init__(self, now=1_000_000):
        self.now = now

    def __call__(self):
        return self.now


def run(
    operator, inputs: Iterable[object], *, batch=False, chunk=3, clock=None, end=True, **context
) -> Recording:
    """Run `operator` over `inputs`: Records, Watermarks, Ticks, or plain values of input 1.

    Consecutive records of one input arrive in lists of `chunk`. With `batch`, keyed inputs arrive as from the
    task: inputs without a key first, then key by key, sorted by timestamp, without watermarks.
    """
    cloudpickle.dumps(operator)
    clock = clock or Clock()
    recorded = Recording()
    operator.setup(OperatorContext(batch=batch, processing_time=clock, **context), recorded)
    steps = [step if isinstance(step, (Record, Watermark, Tick)) else Record(step) for step in inputs]
    operator.open()
    try:
        if batch:
            _run_batch(operator, [step for step in steps if isinstance(step, Record)], chunk)
        else:
            _run_streaming(operator, steps, chunk, clock)
        if end:
            operator.process_watermark(MAX_WATERMARK)
            operator.finish()
    finally:
        operator.close()
    return recorded


def _run_streaming(operator, steps, chunk, clock):
    def kind(step):
        return step.number if isinstance(step, Record) else id(step)

    for _, group in groupby(steps, key=kind):
        portion = list(group)
        if isinstance(portion[0], Record):
            _feed(operator, portion, chunk)
        elif isinstance(portion[0], Tick):
            clock.now += portion[0].milliseconds
        else:
            operator.process_watermark(portion[0].timestamp)


def _run_batch(operator, records, chunk):
    selectors = getattr(operator, "key_selectors", ()) if operator.keyed else ()
    keyed: dict[object, list[Record]] = {}
    for record in records:
        if record.number <= len(selectors):
            key = dictionary_key(selectors[record.number - 1](record.value))
            keyed.setdefault(key, []).append(record)
    _feed_by_number(operator, [record for record in records if record.number > len(selectors)], chunk)
    for portion in keyed.values():
        portion.sort(key=lambda record: (_time(record), record.number))
        _feed_by_number(operator, portion, chunk)
        operator.end_key()


def _feed_by_number(operator, records, chunk):
    for _, portion in groupby(records, key=lambda record: record.number):
        _feed(operator, list(portion), chunk)


def _feed(operator, records, chunk):
    for start in range(0, len(records), chunk):
        portion = records[start : start + chunk]
        stamps = [record.timestamp for record in portion]
        timestamps = None if all(stamp is None for stamp in stamps) else stamps
        operator.process_input(portion[0].number, [record.value for record in portion], timestamps)


def _time(record):
    return MIN_WATERMARK if record.timestamp is None else record.timestamp


def _zipped(values, timestamps):
    return zip(values, timestamps or [None] * len(values), strict=True)
