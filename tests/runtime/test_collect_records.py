"""`execute_and_collect` without a limit: records are read while the job runs."""

import gc
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from itertools import count, islice
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from engine.common import Types
from engine.datastream import OutputTag, RuntimeExecutionMode
from engine.datastream.functions import ProcessFunction
from engine.runtime import receive_results
from engine.runtime.collect_records import collects_closed_at_end, open_collects
from engine.runtime.errors import JobCancelledError
from engine.runtime.job_result import JobResult
from engine.runtime.listen_to_reports import LONGEST_GREETING, MOST_STRANGERS
from engine.runtime.receive_results import ResultReceiver
from engine.runtime.run_job import run_listeners
from engine.runtime.run_settings import spark_settings_for_runs
from operators.chain.errors import UserFunctionError
from operators.chain.piece_size import PieceSize
from operators.common.row import Row
from operators.exchange.channel_writer import Row as BlockRow
from operators.task.send_results import ResultSender
from operators.task.task_spec import ResultsAddress
from tests.commits.two_sinks import ALL, BOTH, NOTHING, hidden, sinks_of, visible
from tests.runtime.run_in_process import run_jobs_in_process


@pytest.fixture(autouse=True)
def ended(monkeypatch) -> Iterator[list[JobResult]]:
    """Jobs that have ended; none runs on after a test."""
    run_jobs_in_process(monkeypatch)
    results: list[JobResult] = []
    run_listeners.append(results.append)
    yield results
    run_listeners.remove(results.append)
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


def test_a_reader_that_is_lost_ends_the_job(env, ended, tmp_path, capsys):
    results = env.from_collection([1]).flat_map(endless).execute_and_collect()
    next(results)
    del results
    gc.collect()
    wait_for_end(ended, 1)
    assert capsys.readouterr().err == ""
    files, _ = sinks_of(tmp_path)
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


def test_results_that_come_slowly_leave_at_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("operators.chain.piece_size.monotonic", lambda: now[0])
    piece, waiting, longest = PieceSize(), 0, 0
    for number in range(10_000):
        now[0] += 1e-6 if number < 5000 else 1.0
        waiting += 1
        if waiting >= piece.limit and piece.is_full([1] * waiting):
            waiting = 0
            piece.begin()
        longest = max(longest, waiting) if number > 6100 else 0
    assert longest == 0


@pytest.fixture
def receiver() -> Iterator[ResultReceiver]:
    made = ResultReceiver("127.0.0.1", [(7, 0), (7, 1)], lambda edge, payload: list(payload.to_pybytes()))
    yield made
    made.close()


def sender(receiver, subtask):
    host, port = receiver.address
    address = ResultsAddress(
        host=host, port=port, token=receiver.token, vertices=frozenset({7}), edges=frozenset({1}), here=None
    )
    made = ResultSender(address, 7, subtask)
    _opened.append(made)
    return made


_opened: list[ResultSender] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What tests send with is closed after them."""
    yield
    while _opened:
        _opened.pop().close()


def block(payload):
    return BlockRow(1, 0, 0, 0, 0, payload)


def test_a_subtask_that_runs_again_gives_its_records_once(receiver):
    first = sender(receiver, 0)
    first.send(block(b"ab"))
    first.send(block(b"cd"))
    assert receiver.next_records() == [*b"ab"]
    first.close()
    again = sender(receiver, 0)
    for payload in (b"a", b"bcd", b"ef"):
        again.send(block(payload))
    again.finish()
    other = sender(receiver, 1)
    other.send(block(b"g"))
    other.finish()
    found = [receiver.next_records() for _ in range(5)]
    assert b"".join(map(bytes, found)) == b"cdefg"
    once_more = sender(receiver, 0)  # Spark has lost what it kept of it
    once_more.send(block(b"abcdef"))
    receiver.pass_over()
    receiver.pass_over()
    assert receiver.next_records() == []


def test_others_are_read_where_a_subtask_is_silent(receiver, monkeypatch):
    monkeypatch.setattr(receive_results, "SILENT_SECONDS", 0.01)
    receiver._silent_from = 0.0
    silent, other = sender(receiver, 0), sender(receiver, 1)
    for payload in (b"a", b"b"):
        other.send(block(payload))
    assert receiver.next_records() == [*b"a"]
    assert receiver.next_records() == [*b"b"]
    silent.send(block(b"c"))
    assert receiver.next_records() == [*b"c"]


@pytest.mark.parametrize(
    "greeting",
    [
        b"null", b"5", b"[]", b"{}", b"", b"\xff\xfe", b"[" * 900, b"x" * (LONGEST_GREETING + 1),
        b'{"token": 5}', b'{"token": "\\ud800"}', b'{"token": "%s", "vertex": 7, "subtask": 0}' % (b"0" * 32),
        b'{"token": "TOKEN"}', b'{"token": "TOKEN", "vertex": [7], "subtask": 0}',
        b'{"token": "TOKEN", "vertex": 7, "subtask": 2}',
        b'{"token": "TOKEN", "vertex": 7.0, "subtask": true}',
    ],
)  # fmt: skip
def test_strangers_are_hung_up_on(receiver, greeting):
    stranger = socket.create_connection(receiver.address, timeout=20)
    stranger.sendall(greeting.replace(b"TOKEN", receiver.token.encode()) + b"\n" + b"y" * 100)
    with sender_of_one(receiver):
        assert receiver.next_records() == [*b"a"]
        receiver.pass_over()
        with suppress(ConnectionResetError):
            assert stranger.recv(1) == b""
        stranger.close()


def sender_of_one(receiver):
    made = sender(receiver, 0)
    made.send(block(b"a"))
    return closing(made)


def test_idle_and_half_strangers_do_not_keep_subtasks_out(receiver):
    strangers = [socket.create_connection(receiver.address, timeout=20) for _ in range(MOST_STRANGERS + 50)]
    for number, one in enumerate(strangers):
        one.sendall(json.dumps({"token": receiver.token}).encode()[: number % 40])
    with sender_of_one(receiver):
        assert receiver.next_records() == [*b"a"]
    for one in strangers:
        one.close()


def test_what_a_script_leaves_open_is_closed(env, ended):
    with collects_closed_at_end():
        results = env.from_collection([1]).flat_map(endless).execute_and_collect()
        next(results)
    assert [one.state for one in ended] == ["CANCELED"]
    assert list(results) == []
    with collects_closed_at_end():
        results = env.from_collection([1]).flat_map(endless).execute_and_collect()
        next(results)
        del results
    assert [one.state for one in ended] == ["CANCELED"] * 2


class Settings(dict[str, str]):
    """Stands for the settings of a SparkSession."""

    set = dict.__setitem__
    unset = dict.__delitem__


def test_settings_of_runs_that_overlap_are_put_back():
    settings = Settings({"spark.sql.adaptive.enabled": "true"})
    spark: Any = SimpleNamespace(conf=settings)
    one, other = spark_settings_for_runs(spark), spark_settings_for_runs(spark)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert settings["spark.sql.adaptive.enabled"] == "false"
    other.__exit__(None, None, None)
    assert settings == {"spark.sql.adaptive.enabled": "true"}
