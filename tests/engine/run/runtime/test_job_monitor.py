"""The job monitor takes reports of the job's subtasks and nothing else, no matter what connects to it."""

import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from penstock.engine.run.runtime import job_monitor as listen_to_reports
from penstock.engine.run.runtime.job_monitor import LONGEST_GREETING, MOST_STRANGERS, JobMonitor
from penstock.operators.task.report import LONGEST_REPORT, PROGRESS_SECONDS, ReportAddress, Reporter

WHO = {"vertex": 7, "subtask": 1, "attempt_number": 0}


@pytest.fixture
def monitor() -> Iterator[JobMonitor]:
    """A vertex 7 of 500 subtasks."""
    with JobMonitor({7: 500}, "127.0.0.1") as listening:
        yield listening


@pytest.fixture(autouse=True)
def opened() -> Iterator[list[socket.socket | Reporter]]:
    """What tests open is closed after them."""
    yield _opened
    while _opened:
        _opened.pop().close()


_opened: list[socket.socket | Reporter] = []


def report(monitor: JobMonitor, subtask: int) -> Reporter:
    reporter = Reporter(monitor.address, 7, subtask, 0)
    _opened.append(reporter)
    return reporter


def connect(monitor: JobMonitor, *, known: bool = True) -> socket.socket:
    connection = socket.create_connection((monitor.address.host, monitor.address.port), timeout=20)
    _opened.append(connection)
    if known:
        connection.sendall(json.dumps({**WHO, "token": monitor.address.token}).encode() + b"\n")
    return connection


def is_closed(connection: socket.socket) -> bool:
    """Wait until the other side hangs up."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def send_and_hang_up(monitor: JobMonitor, *lines: bytes) -> None:
    """Send lines as one who is known, until the monitor has read them all."""
    with connect(monitor) as connection:
        connection.sendall(b"".join(line + b"\n" for line in lines))
        connection.shutdown(socket.SHUT_WR)
        assert is_closed(connection)


def test_500_subtasks_report_at_once_on_one_thread(monitor):
    before = set(threading.enumerate())
    reporters = [report(monitor, subtask) for subtask in range(500)]
    for reporter in reporters:
        reporter.state("RUNNING", host="worker")
    for subtask, reporter in enumerate(reporters):
        reporter.state("FINISHED", records_in=subtask)
    monitor.ended(finished=False)
    assert set(threading.enumerate()) <= before
    assert monitor.summary(7) | {"records_in": 0} == {
        "finished": 500, "attempts": 500, "records_in": 0, "records_out": 0, "bytes_in": 0, "bytes_out": 0
    }  # fmt: skip
    assert monitor.summary(7)["records_in"] == sum(range(500))


@pytest.mark.parametrize(
    "greeting",
    [
        b"null", b"5", b"[]", b'"token"', b"{}", b'{"token": 5}', b'{"token": null}',
        b'{"token": "\xc3\xa9"}',
        b'{"token": "\\ud800"}', b'{"token": "00000000000000000000000000000000"}', b"",
        b"\xff\xfe", b"[" * 900,
        b'{"state": "FINISHED", "vertex": 7, "subtask": 1, "attempt_number": 0}', b"1" * 900,
    ],
)  # fmt: skip
def test_who_does_not_know_the_token_is_hung_up_on(monitor, capfd, greeting):
    with connect(monitor, known=False) as connection:
        connection.sendall(greeting + b"\n" + json.dumps({**WHO, "state": "FINISHED"}).encode() + b"\n")
        assert is_closed(connection)
    monitor.ended(finished=False)
    assert monitor.summary(7)["finished"] == 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line",
    [
        b"null", b"5", b"[]", b"{}", b"not JSON", b"[" * 100_000, b'{"vertex": 7}', b"\xff",
        b'{"vertex": 8, "subtask": 1, "attempt_number": 0}',
        b'{"vertex": 7, "subtask": 500, "attempt_number": 0}',
        b'{"vertex": 7, "subtask": -1, "attempt_number": 0}',
        b'{"vertex": 7, "subtask": 1, "attempt_number": 1e99}',
        b'{"vertex": 7, "subtask": true, "attempt_number": 0}',
        b'{"vertex": [], "subtask": {}, "attempt_number": 0}',
        b'{"vertex": 7, "subtask": 1, "attempt_number": 123456789}', b'{"token": "x"}',
        b'{"x": "' + b"x" * LONGEST_REPORT + b'"}',
    ],
)  # fmt: skip
def test_a_bad_report_ends_its_connection_and_nothing_else(monitor, capfd, line):
    other = report(monitor, 0)
    with connect(monitor) as connection:
        connection.sendall(line + b"\n" + json.dumps({**WHO, "state": "FINISHED"}).encode() + b"\n")
        assert is_closed(connection)
    other.state("FINISHED")
    monitor.ended(finished=False)
    assert monitor.summary(7) | {"finished": 1, "attempts": 500} == monitor.summary(7)
    assert capfd.readouterr() == ("", "")


def test_what_does_not_fit_in_a_report_is_passed_over(monitor):
    send_and_hang_up(
        monitor,
        json.dumps(
            {**WHO, "later": {"version": [1]}, "records_in": "5", "records_out": -1, "host": 5}
        ).encode(),
        json.dumps({**WHO, "state": ["FINISHED"], "bytes_in": 10**30, "at": None}).encode(),
        json.dumps({**WHO, "state": "DANCING", "bytes_out": True}).encode(),
        json.dumps({**WHO, "records_in": 3, "host": "h" * 1000, "token": 5}).encode(),
        json.dumps({**WHO, "state": "FAILED", "error": 5, "cause": "why", "at": 10**18}).encode(),
    )
    failed = monitor.first_failure()
    assert failed is not None
    assert failed.failure == {"error": "", "traceback": "", "cause": "why"}
    assert failed.state_timestamps["FAILED"] < 10**15
    assert (failed.records_in, failed.records_out, failed.bytes_in, failed.bytes_out) == (3, 0, 0, 0)
    assert failed.host == "h" * 255


def test_a_line_without_an_end_is_not_kept(monitor):
    with connect(monitor, known=False) as connection:
        connection.sendall(b"x" * (LONGEST_GREETING + 1))
        assert is_closed(connection)
    connection, sent = connect(monitor), 0
    with pytest.raises(OSError, match=r"reset|[Bb]roken"):
        sent = send_on(connection, 1 << 29)
    assert sent == 0


def send_on(connection: socket.socket, size: int) -> int:
    """Bytes sent of one line."""
    for _ in range(size >> 16):
        connection.sendall(b"x" * 65536)
    return size


def test_idle_strangers_make_room_and_are_hung_up_on(monitor, monkeypatch):
    monkeypatch.setattr(listen_to_reports, "PATIENCE_SECONDS", 0.01)
    monkeypatch.setattr(listen_to_reports, "AUTHENTICATION_SECONDS", 0.3)
    before = set(threading.enumerate())
    strangers = [connect(monitor, known=False) for _ in range(MOST_STRANGERS + 50)]
    reporter = report(monitor, 0)
    reporter.state("FINISHED")
    assert all(map(is_closed, strangers))
    monitor.ended(finished=False)
    assert monitor.summary(7)["finished"] == 1
    assert set(threading.enumerate()) <= before


def test_a_connection_that_floods_leaves_time_for_others(monitor):
    stop = threading.Event()
    line = json.dumps({**WHO, "records_in": 1}).encode() + b"\n"

    def flood() -> None:
        with connect(monitor) as connection:
            while not stop.is_set():
                connection.sendall(line * 1000)

    flooding = threading.Thread(target=flood)
    flooding.start()
    reporter = report(monitor, 0)
    reporter.state("RUNNING", host="worker")
    until = time.monotonic() + 20
    while monitor.attempts[7, 0, 0].host is None and time.monotonic() < until:
        stop.wait(0.01)
    stop.set()
    flooding.join()
    assert monitor.attempts[7, 0, 0].host == "worker"


def test_who_watches_is_told_of_many_reports_at_once():
    told = threading.Semaphore(0)
    with JobMonitor({7: 500}, "127.0.0.1", lambda monitor: told.release()) as monitor:
        send_and_hang_up(monitor, *[json.dumps({**WHO, "records_in": n}).encode() for n in range(1000)])
        assert told.acquire(timeout=20)
        assert not told.acquire(blocking=False)
        assert monitor.attempts[7, 1, 0].records_in == 999


def test_a_long_failure_is_cut_to_what_is_read(monitor):
    reporter = report(monitor, 0)
    reporter.state("FAILED", error="e\x1b" * 1_000_000, traceback="t" * 10_000_000, record="r")
    monitor.ended(finished=False)
    failed = monitor.first_failure()
    assert failed is not None
    assert failed.failure is not None
    assert failed.failure["error"].startswith("e\x1be\x1b")
    assert failed.failure["traceback"].endswith("tt")
    assert failed.failure["record"] == "r"


def test_nothing_listens_after_the_end():
    with JobMonitor({7: 1}, "127.0.0.1") as monitor:
        address = monitor.address
        stranger, known = connect(monitor, known=False), connect(monitor)
    assert is_closed(stranger)
    assert is_closed(known)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((address.host, address.port), timeout=5)
    assert not [thread for thread in threading.enumerate() if thread.name == "penstock-reports"]


def test_progress_is_reported_now_and_then_only(monkeypatch):
    sent: list[dict[str, int]] = []
    monkeypatch.setattr(Reporter, "_send", lambda self, message: sent.append(message))
    clock = [1_000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    reporter = Reporter(None, 1, 0, 0)
    for seconds in (0.0, PROGRESS_SECONDS / 2, PROGRESS_SECONDS / 2, PROGRESS_SECONDS / 2):
        clock[0] += seconds
        reporter.progress(int(clock[0] * 10), 0)
    assert len(sent) == 1


def test_a_token_is_in_no_representation():
    assert "abc" not in repr(ReportAddress(host="h", port=1, token="abc"))
