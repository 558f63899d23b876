"""Whatever goes wrong in a job is told in one message: job, operator, subtask, record, exception, hint."""

import subprocess
import sys
import time
from typing import Any

import pytest

from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import RuntimeExecutionMode
from penstock.engine.run.runtime.compile_job import CompiledJob
from penstock.engine.run.runtime.job_monitor import JobMonitor
from penstock.engine.run.runtime.run_on_spark import describe_failure
from penstock.engine.run.runtime.spark_application import send_once
from penstock.operators.chain.errors import describe_error, describe_record
from penstock.operators.common.row import Row
from penstock.operators.common.time import TimestampAssigner
from penstock.operators.functions.functions import MapFunction, ProcessFunction
from penstock.operators.task.report import Reporter
from penstock.operators.task.run_task import _failure
from tests.engine.run.runtime.failure_of import failure_of
from tests.engine.run.runtime.run_in_process import collected, compiled_job


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["STREAMING", "BATCH"])
@pytest.mark.parametrize("call", list(CALLS_THAT_FAIL))
def test_no_function_ends_the_worker(env, call, mode):
    env.set_runtime_mode(RuntimeExecutionMode[mode])
    stream = CALLS_THAT_FAIL[call](env.from_collection([7, 7]), raising(SystemExit(3)))
    found = failure_of(stream.name("Digest"))
    operator = "Extract-Timestamp" if call == "timestamps" else "Digest"
    assert (found.operator, found.record, found.cause) == (operator, "7", "SystemExit: 3")


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
    keyed = env.from_collection([1, 0]).key_by(lambda value: 1 if value else int("none"))
    found = failure_of(keyed.reduce(lambda one, other: one).name("Add"))
    assert found.during == "key selector of 'Add'"
    assert found.record == "0"
    assert found.cause == "ValueError: invalid literal for int() with base 10: 'none'"


def test_a_key_that_is_not_of_its_type_is_named_with_its_record(env):
    env.set_parallelism(2)
    keyed = env.from_collection([(1, 1), (2, "b")]).key_by(lambda value: value[1], Types.INT())
    found = failure_of(keyed.map(lambda value: value))
    assert (found.during, found.record) == ("key selector of 'Map'", "(2, 'b')")


def test_a_partitioner_is_named(env):
    env.set_parallelism(2)
    sent = env.from_collection([1, 2]).partition_custom(lambda key, n: key * 7, lambda value: value)
    found = failure_of(sent.map(lambda value: value).name("After"))
    assert found.during == "partitioner of '_keyed_stream_values_operator, After'"
    assert found.record == "1"
    assert "a channel from 0 to 1, got 7" in found.cause


@pytest.mark.parametrize("given", [None, "0", [0]])
def test_a_partitioner_that_gives_no_number_names_itself_and_the_record(env, given):
    env.set_parallelism(2)
    sent = env.from_collection([5]).partition_custom(lambda key, n: given, lambda value: value)
    found = failure_of(sent.map(lambda value: value))
    assert (found.record, found.during) == ("5", "partitioner of '_keyed_stream_values_operator, Map'")
    assert "must return an integer" in found.cause


def test_a_partitioner_may_give_what_is_as_good_as_a_number(env):
    env.set_parallelism(2)
    sent = env.from_collection([1, 2]).partition_custom(lambda key, n: key == 2, lambda value: value)
    assert collected(sent.map(lambda value: value, Types.LONG())) == [1, 2]


@pytest.mark.parametrize("moment", ["open", "close"])
def test_open_and_close_name_the_operator(env, moment):
    function = type(
        "Function", (MapFunction,), {"map": lambda self, value: value, moment: raising(SystemExit(1))}
    )
    found = failure_of(env.from_collection([1]).map(function()).name("Middle").map(lambda value: value))
    assert (found.operator, found.during, found.cause) == (
        "Middle, Map",
        f"Middle: {moment}",
        "SystemExit: 1",
    )


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
    from penstock.operators.connectors.source import NumberSequenceSource

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
    assert (found.operator, found.during, found.record) == ("Many, Divide", "Divide raised", "77")


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


def test_a_dead_worker_is_told_by_vertex_and_subtask(env):
    env.set_parallelism(2)
    compiled, _ = compiled_job(env.from_collection([1, 2]).map(lambda value: value).name("Cook"))
    vertex = compiled.vertices[-1].chain
    with JobMonitor({vertex.vertex: vertex.parallelism}, "127.0.0.1") as monitor:
        alive = Reporter(monitor.address, vertex.vertex, 0, 0)
        alive.state("RUNNING")
        address = monitor.address
        code = (
            "import os\nfrom penstock.operators.task.report import Reporter\n"
            "from penstock.operators.task.report import ReportAddress\n"
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
        send_once(context.applicationId, context.addFile, "/data/a", False)
    send_once(context.applicationId, context.addFile, "/data/b", True)
    assert sent == [("/data/a", False), ("/data/b", True)]
