"""Wherever a function of a job fails, and with whatever exception, the operator is named."""

import threading
import traceback
from typing import Any

import pytest

from penstock.datastream import functions, window
from penstock.engine.pyflink.common import Time, Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import AsyncDataStream, OutputTag
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.time import TimestampAssigner
from penstock.operators.connectors.sink import Sink, SinkWriter
from penstock.operators.connectors.source import NumberSequenceSource
from penstock.operators.functions.async_functions import AsyncFunction
from penstock.operators.state.interfaces import MapStateDescriptor, ReducingStateDescriptor
from penstock.operators.windows.interval_join import JoinFunction, ProcessJoinFunction
from tests.engine.run.runtime.failure_of import failure_of
from tests.engine.run.runtime.run_in_process import run_jobs_in_process


class Nasty(BaseException):
    """No Exception, with a lock, a lone surrogate, and a text of its own that ends the process."""

    def __init__(self):
        super().__init__("\ud800")
        self.lock = threading.Lock()

    def __str__(self):
        raise SystemExit("\udfff")


def fail(*arguments):
    raise Nasty


async def fail_later(*arguments):
    raise Nasty


def same(value):
    return value


def of(base, **methods):
    """An object of a class that derives from `base`, whose other abstract methods do nothing."""
    others = dict.fromkeys(getattr(base, "__abstractmethods__", ()), lambda *arguments: None)
    return type("Of", (base,), {**others, **methods})()


class Unpicklable:
    def __reduce__(self):
        fail()


class Reduces(functions.KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_reducing_state(ReducingStateDescriptor("s", fail, Types.LONG()))

    def process_element(self, value, ctx):
        self.state.add(value)
        self.state.add(value)


class Timer(functions.KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(3)

    def on_timer(self, timestamp, ctx):
        fail()


class Assigner(window.WindowAssigner[Any, Any]):
    def assign_windows(self, *arguments):
        fail()

    def get_default_trigger(self, env):
        return window.EventTimeTrigger.create()

    def get_window_serializer(self):
        return window.TimeWindowSerializer()

    def is_event_time(self):
        return True


STRATEGY = WatermarkStrategy.for_monotonous_timestamps()
TUMBLING: Any = window.TumblingEventTimeWindows.of(Time.milliseconds(5))
BROADCAST = MapStateDescriptor("b", Types.LONG(), Types.LONG())
PASSES = of(functions.WindowFunction, apply=lambda self, *arguments: [1])


def timed(given):
    assigner = of(TimestampAssigner, extract_timestamp=lambda self, value, before: value)
    return given.assign_timestamps_and_watermarks(STRATEGY.with_timestamp_assigner(assigner))


def keyed(given):
    return timed(given).key_by(lambda value: 1)


def windowed(given):
    return keyed(given).window(TUMBLING)


def aggregate(**methods):
    own = {"create_accumulator": lambda self: 0, "add": lambda self, value, total: total, **methods}
    return of(functions.AggregateFunction, **own)


def broadcast(**methods):
    function = of(functions.BroadcastProcessFunction, **methods)
    return lambda given: given.connect(given.broadcast(BROADCAST)).process(function)


def asynchronous(limit, **methods):
    function = of(AsyncFunction, **methods)
    return lambda given: AsyncDataStream.unordered_wait(given, function, limit, 2, Types.LONG())


def side_output(given):
    tag = OutputTag("side", Types.LONG())
    process = of(functions.ProcessFunction, process_element=lambda *_: iter([(tag, Unpicklable())]))
    return given.process(process).get_side_output(tag)


PLACES = {
    "map": lambda given: given.map(fail),
    "map_batches": lambda given: given.map_batches(fail),
    "filter": lambda given: given.filter(fail),
    "generator": lambda given: given.flat_map(lambda value: (fail() for _ in range(1))),
    "open": lambda given: given.map(of(functions.MapFunction, map=lambda self, value: value, open=fail)),
    "close": lambda given: given.map(of(functions.MapFunction, map=lambda self, value: value, close=fail)),
    "process": lambda given: given.process(of(functions.ProcessFunction, process_element=fail)),
    "side output": side_output,
    "key": lambda given: given.key_by(fail).map(same),
    "keyed map": lambda given: keyed(given).map(fail),
    "keyed process": lambda given: keyed(given).process(
        of(functions.KeyedProcessFunction, process_element=fail)
    ),
    "reduce": lambda given: keyed(given).reduce(fail),
    "reducing state": lambda given: keyed(given).process(Reduces()),
    "timer": lambda given: keyed(given).process(Timer()),
    "timestamps": lambda given: given.assign_timestamps_and_watermarks(
        STRATEGY.with_timestamp_assigner(of(TimestampAssigner, extract_timestamp=fail))
    ),
    "window": lambda given: windowed(given).apply(of(functions.WindowFunction, apply=fail)),
    "window process": lambda given: windowed(given).process(
        of(functions.ProcessWindowFunction, process=fail)
    ),
    "window clear": lambda given: windowed(given).process(
        of(functions.ProcessWindowFunction, process=lambda *_: [1], clear=fail)
    ),
    "window of all": lambda given: (
        timed(given).window_all(TUMBLING).apply(of(functions.AllWindowFunction, apply=fail))
    ),
    "window reduce": lambda given: windowed(given).reduce(of(functions.ReduceFunction, reduce=fail)),
    "accumulator": lambda given: windowed(given).aggregate(aggregate(create_accumulator=fail)),
    "aggregate": lambda given: windowed(given).aggregate(aggregate(get_result=fail)),
    "assigner": lambda given: keyed(given).window(Assigner()).apply(PASSES),
    "trigger": lambda given: windowed(given).trigger(of(window.Trigger, on_element=fail)).apply(PASSES),
    "gap": lambda given: (
        keyed(given)
        .window(
            window.EventTimeSessionWindows.with_dynamic_gap(
                of(window.SessionWindowTimeGapExtractor, extract=fail)
            )
        )
        .apply(PASSES)
    ),
    "co map": lambda given: given.connect(given).map(of(functions.CoMapFunction, map1=fail, map2=fail)),
    "broadcast": broadcast(process_element=fail),
    "broadcast element": broadcast(process_broadcast_element=fail),
    "join": lambda given: (
        timed(given)
        .join(timed(given))
        .where(same)
        .equal_to(same)
        .window(TUMBLING)
        .apply(of(JoinFunction, join=fail))
    ),
    "interval join": lambda given: (
        keyed(given)
        .interval_join(keyed(given))
        .between(Time.milliseconds(-1), Time.milliseconds(1))
        .process(of(ProcessJoinFunction, process_element=fail))
    ),
    "partitioner": lambda given: given.partition_custom(fail, same).map(same),
    "key of a partitioner": lambda given: given.partition_custom(lambda key, count: 0, fail).map(same),
    "pickle": lambda given: given.map(lambda value: Unpicklable()).rebalance().map(same),
    "async": asynchronous(Time.seconds(9), async_invoke=fail_later),
}
TEXT = "Nasty: (its text cannot be shown: __str__ raised SystemExit) arguments ('\\ud800',)"


@pytest.mark.slow
@pytest.mark.parametrize("place", list(PLACES))
def test_the_operator_is_named_wherever_a_function_fails(env, place):
    found = failure_of(PLACES[place](env.from_collection([7, 8], Types.LONG())).name("Digest"))
    assert found.cause == TEXT
    assert found.operator
    assert "Digest" in f"{found.operator}, {found.during}" or place in ("timestamps", "side output", "pickle")
    "".join(traceback.format_exception(found)).encode("utf-8", "backslashreplace")
    str(found).encode()


def test_a_time_limit_whose_function_fails_names_the_operator(env, capfd):
    async def slow(*arguments):
        import asyncio

        await asyncio.sleep(0.2)

    stream = asynchronous(Time.milliseconds(1), async_invoke=slow, timeout=fail)(env.from_collection([7]))
    found = failure_of(stream.name("Digest"))
    assert (found.operator, found.cause, capfd.readouterr().err) == ("Digest", TEXT, "")


def test_a_source_that_fails_is_named(env):
    class Broken(NumberSequenceSource):
        def read(self, split, context):
            yield from ()
            fail()

    stream = env.from_source(Broken(0, 9), WatermarkStrategy.no_watermarks(), "cable", Types.LONG())
    found = failure_of(stream)
    assert (found.operator, found.cause) == ("Source: cable", TEXT)


class FailingWriter(SinkWriter):
    def __init__(self, at):
        self.at = at

    def write(self, values, timestamps):
        self._reach("write")

    def finish(self):
        self._reach("finish")
        return []

    def abort(self):
        self._reach("abort")

    def _reach(self, at):
        if at in (self.at, "abort"):
            fail()


class FailingSink(Sink):
    def __init__(self, at):
        self.at = at

    def writer(self, context):
        if self.at == "writer":
            fail()
        return FailingWriter(self.at)


@pytest.mark.parametrize("at", ["writer", "write", "finish"])
def test_a_sink_that_fails_is_named_even_if_its_abort_fails_too(env, monkeypatch, at):
    run_jobs_in_process(monkeypatch)
    env.from_collection([7], Types.LONG()).sink_to(FailingSink(at)).name("Bucket")
    with pytest.raises(UserFunctionError) as raised:
        env.execute("sinks")
    assert (raised.value.operator, raised.value.cause) == ("Bucket: Writer", TEXT)
