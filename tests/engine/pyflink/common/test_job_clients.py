from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from threading import Event
from typing import Any

import pytest

from penstock.engine.pyflink.common.job_client import (
    CompletableFuture,
    JobClient,
    JobExecutionResult,
    JobID,
    JobStatus,
)

ID = "00112233445566778899aabbccddeeff"


@dataclass
class Summary:
    job_id: str = ID
    milliseconds: int = 120


class Handle:
    job_id = ID

    def __init__(self, failure: Exception | None = None) -> None:
        self.over = Event()
        self.state = "RUNNING"
        self.failure = failure

    def status(self) -> str:
        return self.state

    def cancel(self) -> None:
        self.state = "CANCELED"
        self.over.set()

    def result(self) -> Summary:
        self.over.wait(10)
        if self.failure is not None:
            raise self.failure
        return Summary()


def test_a_job_that_ends():
    handle = Handle()
    client = JobClient(handle)
    assert client.get_job_id() == JobID(ID)
    assert client.get_job_status().result() is JobStatus.RUNNING
    future = client.get_job_execution_result()
    assert not future.done()
    assert future.exception() is None
    assert str(future) == "CompletableFuture[Not completed]"
    handle.over.set()
    result = future.result()
    assert (str(result.get_job_id()), result.get_net_runtime()) == (ID, 120)
    assert future.done()
    assert str(future) == "CompletableFuture[Completed normally]"
    assert client.get_accumulators().result() == {}


def test_a_job_that_is_cancelled():
    client = JobClient(Handle())
    assert client.cancel().result() is None
    assert client.get_job_status().result() is JobStatus.CANCELED


def test_a_job_that_fails():
    handle = Handle(RuntimeError("no"))
    future = JobClient(handle).get_job_execution_result()
    handle.over.set()
    with pytest.raises(RuntimeError, match="no"):
        future.result()
    assert isinstance(future.exception(), RuntimeError)
    assert str(future) == "CompletableFuture[Completed exceptionally]"


def test_no_savepoints():
    client = JobClient(Handle())
    with pytest.raises(NotImplementedError, match="stop_with_savepoint"):
        client.stop_with_savepoint(True)
    with pytest.raises(NotImplementedError, match="trigger_savepoint"):
        client.trigger_savepoint("file:///x")


def test_futures():
    inner: Future[Any] = Future()
    future = CompletableFuture(inner, str)
    assert future.cancel()
    assert (future.cancelled(), future.done()) == (True, True)
    assert isinstance(future.exception(), CancelledError)
    inner = Future()
    inner.set_result(5)
    assert CompletableFuture(inner, str).result() == "5"
    assert CompletableFuture(inner).result() == 5
    assert not CompletableFuture(inner).cancel()


def test_states_that_end():
    assert [state.name for state in JobStatus if state.is_globally_terminal_state()] == [
        "FAILED",
        "CANCELED",
        "FINISHED",
    ]
    assert [state.name for state in JobStatus if state.is_terminal_state()] == [
        "FAILED",
        "CANCELED",
        "FINISHED",
        "SUSPENDED",
    ]


def test_text_of_results():
    assert str(JobExecutionResult(ID, 5)) == (
        f"Program execution finished\nJob with JobID {ID} has finished.\nJob Runtime: 5 ms\n"
    )
    counted = JobExecutionResult(ID, 5, {"n": 3, "l": [1, 2]})
    assert "- n (int): 3\n- l (list) [2 elements]\n" in str(counted)
    assert counted.get_all_accumulator_results() == {"n": 3, "l": [1, 2]}
    assert (counted.get_accumulator_result("n"), counted.get_accumulator_result("x")) == (3, None)
