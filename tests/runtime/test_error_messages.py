"""Whatever goes wrong in a job is told in one message: job, operator, subtask, record, exception, hint."""

import functools
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from engine.common import Types, WatermarkStrategy
from engine.common.watermark_strategy import TimestampAssigner
from engine.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from engine.datastream.functions import (
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessFunction,
)
from engine.runtime.compile_job import CompiledJob
from engine.runtime.describe_failure import describe_failure
from engine.runtime.errors import JobCompileError
from engine.runtime.job_monitor import JobMonitor
from engine.runtime.send_once import send_once
from operators.chain.describe_error import describe_error, describe_record
from operators.chain.errors import UserFunctionError
from operators.common.describe_unpicklable import describe_unpicklable
from operators.common.row import Row
from operators.task.report import Reporter
from operators.task.run_task import _failure
from tests.runtime.run_in_process import collected, compiled_job


@pytest.fixture
def env():
    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    environment.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    return environment


class SilentError(Exception):
    def __str__(self):
        raise KeyError("no text")

    __repr__ = __str__


class Unshowable:
    def __repr__(self):
        raise SystemExit(5)


def raising(error):
    def function(*arguments):
        raise error

    return function


def failure_of(stream):
    with pytest.raises(UserFunctionError) as raised:
        collected(stream)
    return raised.value


@pytest.mark.parametrize(
    ("error", "cause", "hint"),
    [
        (ValueError("bad"), "ValueError: bad", ""),
        (SystemExit(3), "SystemExit: 3", "raise an exception"),
        (KeyboardInterrupt(), "KeyboardInterrupt", "cancel a job"),
        (GeneratorExit(), "GeneratorExit", "return"),
        (StopIteration(), "StopIteration", "does not end the stream"),
        (MemoryError(), "MemoryError", "memory"),
        (RecursionError("deep"), "RecursionError: deep", "loop"),
        (SilentError("real", 5), "SilentError: (its text cannot be shown: __str__ raised KeyError)", ""),
        (ValueError("x" * 10_000_000), "ValueError: " + "x" * 1999 + "…", ""),
    ],
)
def test_whatever_a_function_raises_is_told(env, error, cause, hint):
    found = failure_of(env.from_collection([7]).map(raising(error)).name("Digest"))
    assert (found.operator, found.record) == ("Digest", "7")
    assert found.cause.startswith(cause)
    assert hint in found.hint
    assert len(str(found)) < 5000


CALLS_THAT_FAIL = {
    "filter": lambda given, fail: given.filter(fail),
    "flat_map": lambda given, fail: given.flat_map(fail),
    "keyed map": lambda given, fail: given.key_by(lambda value: value).map(fail),
    "reduce": lambda given, fail: given.key_by(lambda value: value).reduce(fail),
    "process": lambda given, fail: given.process(failing_process(fail)),
    "timestamps": lambda given, fail: given.assign_timestamps_and_watermarks(failing_strategy(fail)),
}


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("call", list(CALLS_THAT_FAIL))
def test_no_function_ends_the_worker(env, call, mode):
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    stream = CALLS_THAT_FAIL[call](env.from_collection([7, 7]), raising(SystemExit(3)))
    found = failure_of(stream.name("Digest"))
    assert (found.operator, found.record, found.cause) == ("Digest", "7", "SystemExit: 3")


def failing_process(fail):
    class Process(ProcessFunction):
        def process_element(self, value, ctx):
            fail()

    return Process()


def failing_strategy(fail):
    class Assigner(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            fail()

    return WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Assigner())


def test_a_generator_that_is_ended_by_stop_iteration_fails(env):
    stream = env.from_collection([1]).flat_map(lambda value: (next(iter(())) for _ in range(1)))
    assert failure_of(stream).cause == "RuntimeError: generator raised StopIteration"


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
def test_a_key_selector_is_named_with_the_operator_it_is_for(env, mode):
    env.set_parallelism(2)
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    keyed = env.from_collection([1, 0]).key_by(lambda value: 1 // value)
    found = failure_of(keyed.reduce(lambda one, other: one).name("Add"))
    assert found.during == "key selector of 'Add'"
    assert (found.record, found.cause) == ("0", "ZeroDivisionError: integer division or modulo by zero")


def test_a_key_that_is_not_of_its_type_is_named_with_its_record(env):
    env.set_parallelism(2)
    keyed = env.from_collection([(1, 1), (2, "b")]).key_by(lambda value: value[1], Types.INT())
    found = failure_of(keyed.map(lambda value: value))
    assert (found.during, found.record) == ("key selector of 'Map'", "(2, 'b')")


def test_a_partitioner_is_named(env):
    env.set_parallelism(2)
    sent = env.from_collection([1, 2]).partition_custom(lambda key, n: key * 7, lambda value: value)
    found = failure_of(sent.map(lambda value: value).name("After"))
    assert found.during == "partitioner of 'After'"
    assert found.record == "1"
    assert "channel 7" in found.cause


@pytest.mark.parametrize("moment", ["open", "close"])
def test_open_and_close_name_the_operator(env, moment):
    function = type(
        "Function", (MapFunction,), {"map": lambda self, value: value, moment: raising(SystemExit(1))}
    )
    found = failure_of(env.from_collection([1]).map(function()).name("Middle").map(lambda value: value))
    assert (found.operator, found.during, found.cause) == ("Middle", moment, "SystemExit: 1")


def test_a_failure_of_close_does_not_hide_an_earlier_one(env):
    class Twice(MapFunction):
        def map(self, value):
            raise ValueError("first")

        def close(self):
            raise ValueError("second")

    assert failure_of(env.from_collection([1]).map(Twice())).cause == "ValueError: first"


@pytest.mark.parametrize("behind", ["exchange", "batches", "collect"])
def test_a_value_that_does_not_fit_its_type_is_named(env, behind):
    env.set_parallelism(2)
    given = (
        env.from_collection([1, 2]).map(lambda value: "b" if value == 2 else value, Types.INT()).name("Cook")
    )
    stream = {
        "exchange": lambda: given.rebalance().map(lambda value: value),
        "batches": lambda: given.map_batches(lambda batch: batch),
        "collect": lambda: given,
    }[behind]()
    found = failure_of(stream)
    assert found.record == "'b'"
    assert found.operator == "Cook" or behind == "collect"


def test_a_source_is_named(env):
    from engine.datastream.connectors.number_seq import NumberSequenceSource

    class Broken(NumberSequenceSource):
        def read(self, split, context):
            yield from ()
            raise OSError("cable is cut")

    stream = env.from_source(Broken(0, 9), WatermarkStrategy.no_watermarks(), "cable", Types.LONG())
    found = failure_of(stream)
    assert found.operator == "Source: cable"
    assert found.during.startswith("reading ")
    assert found.cause == "OSError: cable is cut"


def test_functions_that_fail_downstream_are_not_blamed_on_those_before(env):
    stream = env.from_collection([1, 2]).flat_map(lambda value: iter(range(100_000))).name("Many")
    found = failure_of(stream.map(lambda value: 1 // (value - 77)).name("Divide"))
    assert (found.operator, found.record) == ("Divide", "77")


class Counted:
    """Counts calls of open and close in a class attribute, so that subtasks' copies share it."""

    calls: "list[str]"

    def open(self, runtime_context):
        type(self).calls.append("open")

    def close(self):
        type(self).calls.append("close")


CALLS: list[str] = []


class Named(MapFunction):
    def __init__(self, name):
        self.name = name

    def open(self, runtime_context):
        CALLS.append(f"open {self.name}")

    def close(self):
        CALLS.append(f"close {self.name}")

    def map(self, value):
        return value


class CountedSelector(Counted, KeySelector):
    calls: "list[str]" = []  # noqa: RUF012

    def get_key(self, value):
        if value == 13:
            raise ValueError("unlucky")
        return value


class CountedPartitioner(Counted, Partitioner):
    calls: "list[str]" = []  # noqa: RUF012

    def partition(self, key, num_partitions):
        return key % num_partitions


@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("kind", [CountedSelector, CountedPartitioner])
def test_selectors_and_partitioners_are_closed_as_often_as_opened(env, kind, fails, mode):
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    env.set_parallelism(2)
    given = env.from_collection([1, 2, 13 if fails else 3])
    kind.calls.clear()
    if kind is CountedSelector:
        stream = given.key_by(CountedSelector()).reduce(lambda one, other: one)
        subtasks = 1 if fails else 3
    else:
        stream = given.partition_custom(CountedPartitioner(), CountedSelector()).map(lambda value: value)
        subtasks = 1
    if fails:
        failure_of(stream)
    else:
        collected(stream)
    assert kind.calls == ["open", "close"] * subtasks


def test_operators_are_opened_and_closed_tail_first(env):
    CALLS.clear()
    collected(env.from_collection([1]).map(Named("head")).map(Named("tail")))
    assert CALLS == ["open tail", "open head", "close tail", "close head"]


def test_records_and_errors_as_text_are_short_whatever_they_are():
    assert describe_record(Unshowable()) == "<Unshowable>"
    assert describe_record([1, {"a": (2, "b")}, Row(k=3)]) == "[1, {'a': (2, 'b')}, Row(k=3)]"
    for huge in (
        "x" * 50_000_000,
        ["x" * 50_000_000],
        {"k": [b"x" * 50_000_000]},
        list(range(10**6)),
        Row("x" * 10**7),
    ):
        started = time.monotonic()
        text = describe_record(huge)
        assert len(text) == 200
        assert text.endswith("…")
        assert time.monotonic() - started < 1
    assert describe_error(SilentError()) == (
        "SilentError: (its text cannot be shown: __str__ raised KeyError)"
    )


def test_the_traceback_of_a_failure_is_the_functions_own(env):
    stream = env.from_collection([1])
    for _ in range(300):
        stream = stream.map(lambda value: value)
    found = failure_of(stream.map(lambda value: 1 // 0))
    text = _failure(found)["traceback"]
    assert "lambda value: 1 // 0" in text
    assert len(text) < 4000


def test_what_keeps_a_function_from_being_pickled_is_found():
    lock = threading.Lock()
    deep = {"a": [1, (2, lock)]}

    class Holds(MapFunction):
        def __init__(self):
            self.inner = functools.partial(print, lock)

        def map(self, value):
            return value

    def captures(value):
        return value, deep

    def by_default(value, other=lock):
        return value

    for function, parts in (
        (captures, ("captures", "captured variable 'deep', item 'a', element 1, element 1", "_thread.lock")),
        (by_default, ("default value 0", "_thread.lock")),
        (Holds(), ("class", "Holds", "attribute 'inner', argument 0", "_thread.lock")),
        (Holds().map, ("the object of its method 'map'", "attribute 'inner'")),
        (lock, ("it is of type _thread.lock",)),
    ):
        text = describe_unpicklable(function, "map's function", TypeError("cannot pickle"))
        for part in (*parts, "map's function", "cannot pickle", "hint", "open()"):
            assert part in text, text


def test_an_operator_that_cannot_be_pickled_is_named(env):
    lock = threading.Lock()
    with pytest.raises(JobCompileError) as raised:
        env.from_collection([1]).map(lambda value: (value, lock))
    for part in ("Map: its function", "captured variable 'lock'", "_thread.lock", "hint"):
        assert part in str(raised.value)


def test_a_dead_worker_is_told_by_vertex_and_subtask(env):
    env.set_parallelism(2)
    compiled, _ = compiled_job(env.from_collection([1, 2]).map(lambda value: value).name("Cook"))
    vertex = compiled.vertices[-1].chain
    with JobMonitor({vertex.vertex: vertex.parallelism}, "127.0.0.1") as monitor:
        alive = Reporter(monitor.address, vertex.vertex, 0, 0)
        alive.state("RUNNING")
        address = monitor.address
        code = (
            "import os\nfrom operators.task.report import Reporter\n"
            "from operators.task.task_spec import ReportAddress\n"
            f"address = ReportAddress(host={address.host!r}, port={address.port}, token={address.token!r})\n"
            f"one = Reporter(address, {vertex.vertex}, {vertex.parallelism - 1}, 0)\n"
            "one.state('RUNNING', records_in=12345)\nos._exit(9)\n"
        )
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
        error = describe_failure("meal", compiled, monitor, RuntimeError("java.io.EOFException"))
        monitor.ended(finished=False)
        alive.close()
    text = str(error)
    for part in (
        "'meal'",
        vertex.name,
        f"subtask {vertex.parallelism} of",
        "12,345 records in",
        "hint",
        "memory",
    ):
        assert part in text
    assert "EOFException" not in text
    states = {one.subtask: one.state.value for one in monitor.attempts.values()}
    assert states[vertex.parallelism - 1] == "FAILED"


def test_other_failures_of_spark_are_told_as_spark_tells_them():
    with JobMonitor({1: 1}, "127.0.0.1") as monitor:
        error = describe_failure("meal", CompiledJob((), ()), monitor, RuntimeError("no space left"))
    assert str(error) == "job 'meal' failed: RuntimeError: no space left"


def test_files_are_sent_to_workers_once():
    sent = []

    class Context:
        applicationId = "app-of-this-test"

        def addFile(self, path, recursive):
            sent.append((path, recursive))

    context: Any = Context()
    for _ in range(3):
        send_once(context, context.addFile, "/data/a", False)
    send_once(context, context.addFile, "/data/b", True)
    assert sent == [("/data/a", False), ("/data/b", True)]
