"""What tasks send while a job runs, and the driver's side that receives it."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from penstock.engine.run.runtime import receive_results
from penstock.engine.run.runtime.job_monitor import LONGEST_GREETING, MOST_STRANGERS
from penstock.engine.run.runtime.receive_results import ResultReceiver
from penstock.operators.chain.operator import PieceSize
from penstock.operators.exchange.channel_writer import ChannelRow as BlockRow
from penstock.operators.task.report import ResultsAddress, ResultSender
from penstock.plans.errors import JobExecutionError


def test_results_that_come_slowly_leave_at_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("penstock.operators.chain.operator.monotonic", lambda: now[0])
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


def test_what_sinks_get_is_what_was_read(receiver):
    first = sender(receiver, 0)
    first.send(block(b"ab"))
    assert receiver.next_records() == [*b"ab"]
    assert receiver.take_only({(7, 0): first.attempt})
    assert not receiver.take_only({(7, 0): "another"})
    assert receiver.take_only({(7, 0): first.attempt, (7, 1): "accepted"})
    first.finish()
    other = sender(receiver, 1)
    other.send(block(b"x"))
    with pytest.raises(JobExecutionError, match="ran again after some of its records had been read"):
        receiver.next_records()


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


def test_a_subtask_that_spark_has_not_run_has_no_records(receiver):
    with sender_of_one(receiver) as run:
        run.finish()
        receiver.wake(all_sent=True)
        assert receiver.next_records() == [*b"a"]
        assert receiver.next_records() == []


def test_a_subtask_that_has_begun_and_not_ended_is_missed(receiver, monkeypatch):
    monkeypatch.setattr(receive_results, "SILENT_SECONDS", 0.01)
    with sender_of_one(receiver):
        receiver.wake(all_sent=True)
        assert receiver.next_records() == [*b"a"]
        with pytest.raises(JobExecutionError, match="not all of its records have arrived"):
            receiver.next_records()
