"""`execute_and_collect` without a limit: records are read while the job runs."""

import gc
import threading
from collections.abc import Iterator
from itertools import count, islice

import pyarrow as pa
import pytest

from penstock.engine.pyflink.common import Types
from penstock.engine.pyflink.datastream import OutputTag, RuntimeExecutionMode
from penstock.engine.run.runtime.job_monitor import JobResult
from penstock.engine.run.runtime.receive_results import (
    ResultReceiver,
    collects_end_with_script,
    open_collects,
)
from penstock.engine.run.runtime.run_context import current_context
from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.common.row import Row
from penstock.operators.functions.functions import ProcessFunction
from penstock.plans.errors import JobCancelledError
from tests.engine.run.commits.two_sinks import ALL, BOTH, NOTHING, hidden, sinks_of, visible
from tests.engine.run.runtime.run_in_process import NOT_FUSED, run_jobs_in_process


@pytest.fixture(autouse=True)
def ended(monkeypatch) -> Iterator[list[JobResult]]:
    """Jobs that have ended; none runs on after a test."""
    run_jobs_in_process(monkeypatch)
    results: list[JobResult] = []
    current_context().run_listeners.append(results.append)
    yield results
    current_context().run_listeners.remove(results.append)
    assert not list(open_collects)
    assert not [one.name for one in threading.enumerate() if one.name.startswith(("penstock-D", "vertex "))]


def endless(value):
    yield from count()


#: How far `Counting` came.
reached = [0]


def counting(value):
    for reached[0] in count():
        yield "x" * 1000


@pytest.mark.parametrize("parallelism", [1, 3])
def test_the_beginning_of_an_endless_stream(env, ended, parallelism):
    env.set_parallelism(parallelism)
    stream = env.from_collection([1]).flat_map(endless, Types.LONG())
    with stream.map(lambda value: -value, Types.LONG()).execute_and_collect() as results:
        assert list(islice(results, 3)) == [0, -1, -2]
        assert next(results) == -3
        assert results.next() == -4
    assert [one.state for one in ended] == ["CANCELED"]
    with pytest.raises(StopIteration):
        next(results)
    assert list(results) == []
    results.close()


def test_the_job_waits_for_its_reader(env):
    with env.from_collection([1]).flat_map(counting, Types.STRING()).execute_and_collect() as results:
        next(results)
    assert reached[0] < 100_000


@pytest.mark.parametrize("mode", list(RuntimeExecutionMode)[:2])
def test_all_records_come_in_the_order_of_subtasks(env, ended, mode):
    env.set_parallelism(3).set_runtime_mode(mode)
    numbers = env.from_collection(list(range(9)), Types.LONG()).map(lambda value: value, Types.LONG())
    assert list(numbers.execute_and_collect("J")) == [0, 3, 6, 1, 4, 7, 2, 5, 8]
    (job,) = ended
    assert job.state == "FINISHED"
    assert {one.state.value for one in job.attempts} == {"FINISHED"}
    assert all(one.host for one in job.attempts)
    states = ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"]
    assert all(list(one.state_timestamps) == states for one in job.attempts)


class Aside(ProcessFunction):
    def process_element(self, value, ctx):
        yield value
        yield OutputTag("side", Types.STRING()), str(value)


@pytest.mark.slow
def test_what_a_collected_stream_may_come_from(env):
    env.set_parallelism(2)
    tens = env.from_collection([10, 20], Types.LONG())
    assert list(tens.execute_and_collect()) == [10, 20]
    assert sorted(tens.union(tens, tens.map(abs, Types.LONG())).execute_and_collect()) == [
        10,
        10,
        10,
        20,
        20,
        20,
    ]
    side = tens.process(Aside(), Types.LONG()).get_side_output(OutputTag("side", Types.STRING()))
    assert sorted(side.execute_and_collect()) == ["10", "20"]
    keyed = tens.key_by(lambda value: value).execute_and_collect()
    assert sorted(map(tuple, keyed)) == [(10, 10), (20, 20)]
    assert list(tens.rebalance().execute_and_collect()) == [10, 20]
    assert list(tens.broadcast().execute_and_collect()) == [10, 20]
    assert list(tens.filter(lambda value: False).execute_and_collect()) == []
    batches = tens.map_batches(lambda batch: batch, pa.schema([("value", pa.int64())]))
    assert list(batches.execute_and_collect()) == [10, 20]
    undeclared = tens.map(lambda value: {"n": value})
    assert list(undeclared.execute_and_collect()) == [{"n": 10}, {"n": 20}]


def test_a_failure_is_raised_where_the_next_record_is_asked_for(env, ended):
    results = env.from_collection([1, 0]).map(lambda value: 1 // value).execute_and_collect()
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        list(results)
    assert list(results) == []
    assert [one.state for one in ended] == ["FAILED"]


def test_close_does_not_raise_what_the_job_failed_with(env):
    results = env.from_collection([0]).map(lambda value: 1 // value).execute_and_collect()
    results.close()
    assert list(results) == []


def test_two_at_once(env):
    one = env.from_collection([1]).flat_map(endless, Types.LONG()).execute_and_collect()
    other = env.from_collection([2]).flat_map(endless).execute_and_collect()
    assert list(islice(zip(one, other, strict=True), 3)) == [(0, 0), (1, 1), (2, 2)]
    one.close()
    assert next(other) == 3
    assert list(env.from_collection([5]).execute_and_collect()) == [5]
    other.close()


@pytest.mark.slow
def test_a_reader_that_is_lost_ends_the_job(env, ended, tmp_path, capsys):
    results = env.from_collection([1]).flat_map(endless).execute_and_collect()
    next(results)
    del results
    gc.collect()
    wait_for_end(ended, 1)
    assert capsys.readouterr().err == ""
    files, _ = sinks_of(tmp_path)
    env.configure(NOT_FUSED)
    stream = env.from_collection([1]).flat_map(endless, Types.LONG())
    stream.sink_to(files.sink)
    for number in stream.execute_and_collect():
        if number == 7:
            break
    wait_for_end(ended, 2)
    assert {one.state for one in ended} == {"CANCELED"}
    assert "its sinks get nothing" in capsys.readouterr().err


def wait_for_end(ended, number):
    for thread in threading.enumerate():
        if thread.name.startswith("penstock-D"):
            thread.join()
    assert len(ended) == number


def test_ctrl_c_while_the_reader_waits(env, ended, monkeypatch):
    def interrupted(self):
        raise KeyboardInterrupt

    monkeypatch.setattr(ResultReceiver, "next_records", interrupted)
    results = env.from_collection([1]).flat_map(endless).execute_and_collect()
    with pytest.raises(JobCancelledError, match="nothing of it is committed"):
        next(results)
    assert [one.state for one in ended] == ["CANCELED"]


def test_other_sinks_are_committed_once_all_is_read_and_not_if_it_is_left(env, tmp_path):
    env.configure(NOT_FUSED)

    def stream():
        files, table = sinks_of(tmp_path)
        numbers = env.from_collection(ALL, Types.LONG())
        numbers.sink_to(files.sink)
        numbers.map(Row, table.type_info).sink_to(table.sink)
        return numbers

    with stream().flat_map(endless).execute_and_collect() as results:
        next(results)
    assert visible(tmp_path) == NOTHING
    assert list(stream().execute_and_collect()) == ALL
    assert visible(tmp_path) == BOTH
    assert hidden(tmp_path) == []


def test_what_a_script_leaves_open_is_closed(env, ended):
    with collects_end_with_script(current_context()):
        results = env.from_collection([1]).flat_map(endless).execute_and_collect()
        next(results)
    assert [one.state for one in ended] == ["CANCELED"]
    assert list(results) == []
    with collects_end_with_script(current_context()):
        results = env.from_collection([1]).flat_map(endless).execute_and_collect()
        next(results)
        del results
    assert [one.state for one in ended] == ["CANCELED"] * 2
