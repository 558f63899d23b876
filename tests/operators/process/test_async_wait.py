"""Asynchronous functions: order, capacity, time limits, retries, watermarks, failures."""

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.operators.chain.errors import UserFunctionError
from penstock.operators.chain.operator import MAX_WATERMARK
from penstock.operators.functions.async_functions import (
    NO_RETRY_STRATEGY,
    AsyncFunction,
    AsyncRetryStrategy,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)
from penstock.operators.process.async_wait_operator import (
    AsyncWaitOperator,
    OrderedRecords,
    UnorderedRecords,
    WaitingRecord,
)
from tests.operator_harness import Record, Watermark, run

ORDERS = pytest.mark.parametrize("ordered", [True, False])


def waiting(function, ordered=True, capacity=10, timeout=10_000, strategy=NO_RETRY_STRATEGY):
    return AsyncWaitOperator(function, timeout, capacity, ordered, strategy)


class Sleep(AsyncFunction):  # type: ignore[type-arg]
    """Sleeps as many hundredths of a second as the value says; counts the calls under way."""

    now = most = 0

    async def async_invoke(self, value):
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(value / 100)
        self.now -= 1
        return [value, -value]


def test_in_order():
    recorded = run(waiting(Sleep()), [Record(5, 50), Record(1), Record(3, 30)], chunk=3)
    assert recorded.stamped == [(5, 50), (-5, 50), (1, None), (-1, None), (3, 30), (-3, 30)]


def test_as_they_come():
    recorded = run(waiting(Sleep(), ordered=False), [Record(9, 90), Record(1, 10), Record(5)], chunk=3)
    assert recorded.stamped == [(1, 10), (-1, 10), (5, None), (-5, None), (9, 90), (-9, 90)]


@ORDERS
@pytest.mark.parametrize("capacity", [1, 3])
def test_no_more_than_capacity_at_once(ordered, capacity):
    operator = waiting(Sleep(), ordered, capacity)
    assert sorted(run(operator, [1] * 9, chunk=9).values) == [-1] * 9 + [1] * 9
    assert operator.function.most == capacity


@ORDERS
def test_no_record_passes_a_watermark(ordered):
    steps = [Record(4), Record(1), Watermark(7), Record(2), Record(0), Watermark(8), Watermark(9)]
    events = run(waiting(Sleep(), ordered), steps, chunk=2).events
    marks = [("watermark", 7), ("watermark", 8), ("watermark", 9), ("watermark", MAX_WATERMARK)]
    where = [events.index(mark) for mark in marks]
    assert where == [4, 9, 10, 11]
    assert {event[1] for event in events[:4]} == {-4, -1, 1, 4}


class Limited(Sleep):
    def timeout(self, value):
        return [f"{value} took too long"]


@ORDERS
def test_time_limit(ordered):
    began = time.monotonic()
    recorded = run(waiting(Limited(), ordered, timeout=60), [500, 0, 600], chunk=3)
    assert time.monotonic() - began < 4
    assert sorted(map(str, recorded.values)) == ["0", "0", "500 took too long", "600 took too long"]


def test_by_default_the_time_limit_fails_the_job():
    with pytest.raises(UserFunctionError, match="Async function call has timed out for input: 500"):
        run(waiting(Sleep(), timeout=30), [500])


def test_no_time_limit():
    assert run(waiting(Limited(), timeout=0), [4]).values == [4, -4]


class Flaky(AsyncFunction):  # type: ignore[type-arg]
    """Fails, or gives nothing, as often as the value says before it gives the number of attempts."""

    def __init__(self, how):
        self.how, self.attempts = how, {}

    async def async_invoke(self, value):
        self.attempts[value] = self.attempts.get(value, 0) + 1
        if self.attempts[value] <= value:
            if self.how == "empty":
                return []
            raise KeyError(value) if self.how == "key" else ValueError(value)
        return [(value, self.attempts[value])]

    def timeout(self, value):
        return [(value, "late")]


def fixed(attempts=3, wait=1, result=None, exception=None):
    return FixedDelayRetryStrategy(attempts, wait, result, exception)


@ORDERS
def test_retries_after_exceptions(ordered):
    strategy = fixed(exception=has_exception_predicate)
    recorded = run(waiting(Flaky("value"), ordered, strategy=strategy), [3, 0, 1], chunk=3)
    assert sorted(recorded.values) == [(0, 1), (1, 2), (3, 4)]


def test_gives_up_after_the_last_attempt():
    strategy = fixed(attempts=2, exception=has_exception_predicate)
    with pytest.raises(UserFunctionError, match="ValueError: 3") as failure:
        run(waiting(Flaky("value"), strategy=strategy), [3])
    assert failure.value.record == "3"


def test_only_the_exceptions_asked_for():
    def keys_only(error):
        return exception_type_predicate(error, KeyError)

    assert run(waiting(Flaky("key"), strategy=fixed(exception=keys_only)), [2]).values == [(2, 3)]
    with pytest.raises(UserFunctionError, match="ValueError"):
        run(waiting(Flaky("value"), strategy=fixed(exception=keys_only)), [2])


def test_retries_after_results_and_takes_the_last():
    strategy = fixed(attempts=2, result=empty_result_predicate)
    assert run(waiting(Flaky("empty"), strategy=strategy), [2, 3, 0]).values == [(2, 3), (0, 1)]


def test_the_time_limit_is_for_all_attempts_together():
    strategy = fixed(attempts=1000, wait=20, exception=has_exception_predicate)
    recorded = run(waiting(Flaky("value"), timeout=400, strategy=strategy), [500, 1])
    assert recorded.values == [(500, "late"), (1, 2)]


def test_predicates_that_fail_fail_the_job():
    strategy = fixed(result=lambda results: results[5])
    with pytest.raises(UserFunctionError, match="IndexError"):
        run(waiting(Flaky("value"), strategy=strategy), [0])


class Fails(AsyncFunction):  # type: ignore[type-arg]
    def __init__(self, outcome):
        self.outcome = outcome

    async def async_invoke(self, value):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@ORDERS
@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        (None, "cannot be none"),
        (5, "should be of list type"),
        (ValueError("boom"), "ValueError: boom"),
        (asyncio.CancelledError(), "cancelled"),
        (GeneratorExit("mine"), ": GeneratorExit: mine"),
        (SystemExit(3), ": SystemExit: 3"),
    ],
)
def test_failures_name_the_record(ordered, outcome, message):
    before = set(threading.enumerate())
    with pytest.raises(UserFunctionError, match=message) as failure:
        run(waiting(Fails(outcome), ordered), ["the record"])
    assert failure.value.record == "'the record'"
    assert set(threading.enumerate()) <= before


def test_calls_under_way_are_cancelled_when_the_job_fails():
    ended = []

    class Long(AsyncFunction):  # type: ignore[type-arg]
        async def async_invoke(self, value):
            if value == "fail":
                raise ValueError(value)
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(value)

    operator = waiting(Long(), ordered=False)
    with pytest.raises(UserFunctionError):
        run(operator, ["long", "fail"])
    assert ended == ["long"]


def test_capacity_has_to_be_more_than_zero():
    for capacity in (0, -1):
        with pytest.raises(ValueError, match="capacity must be larger than 0"):
            waiting(Sleep(), capacity=capacity)


def test_strategies():
    strategy = AsyncRetryStrategy.exponential_backoff(3, 10, 35, 2.0, None, has_exception_predicate)
    assert isinstance(strategy, ExponentialBackoffDelayRetryStrategy)
    assert [strategy.get_backoff_time_millis(attempts) for attempts in (1, 2, 3, 1)] == [10, 20, 35, 10]
    assert [strategy.can_retry(attempts) for attempts in (1, 3, 4)] == [True, True, False]
    strategy = AsyncRetryStrategy.fixed_delay(2, 100, empty_result_predicate, None)
    assert strategy.get_backoff_time_millis(7) == 100
    assert strategy.get_retry_predicate().result_predicate() is empty_result_predicate
    assert strategy.get_retry_predicate().exception_predicate() is None
    nothing = AsyncRetryStrategy.no_restart()
    assert isinstance(nothing, NoRetryStrategy)
    assert (nothing.can_retry(1), nothing.get_backoff_time_millis(1)) == (False, -1)
    for wrong in (lambda: fixed(attempts=0), lambda: fixed(wait=0)):
        with pytest.raises(AssertionError, match="should be greater than zero"):
            wrong()
    assert empty_result_predicate(None)
    assert not empty_result_predicate([1])


@given(
    what=st.lists(st.sampled_from(["add", "watermark", "complete", "leave"]), max_size=40),
    choices=st.randoms(use_true_random=False),
)
@settings(max_examples=60)
def test_queues_keep_to_the_order(what, choices):
    """In order: a prefix of what came. As they come: nothing passes a watermark. Nothing is lost."""
    for queue in (OrderedRecords(), UnorderedRecords()):
        came: list[WaitingRecord | int] = []
        left: list[WaitingRecord | int] = []
        pending: list[WaitingRecord] = []
        for number, step in enumerate([*what, "leave"]):
            if step == "add":
                record = WaitingRecord(number, None)
                queue.add(record)
                pending.append(record)
                came.append(record)
            elif step == "watermark":
                queue.add_watermark(number)
                came.append(number)
            elif step == "complete" and pending:
                queue.complete(pending.pop(choices.randrange(len(pending))))
            elif step == "leave":
                left += queue.leave()
        records = [one for one in came if isinstance(one, WaitingRecord)]
        assert queue.size == len(records) - sum(isinstance(one, WaitingRecord) for one in left)
        if isinstance(queue, OrderedRecords):
            assert left == came[: len(left)]
        for position, one in enumerate(left):
            if not isinstance(one, WaitingRecord):
                before = {id(other) for other in came[: came.index(one)]}
                assert {id(other) for other in left[:position]} == before
        for record in pending:
            queue.complete(record)
        left += queue.leave()
        assert {id(one) for one in left} == {id(one) for one in came}
        assert queue.size == 0
