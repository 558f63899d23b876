"""The base class of asynchronous functions, and the settings of their calls.

Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.async.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.operators.functions.functions import Function

# Retries of asynchronous calls
#
# Source: pyflink.datastream.async_retry_strategies; org.apache.flink.streaming.util.retryable.


OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """Decides which results and exceptions require another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Return a function that is true for results (a list) that require another attempt, or None."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return a function that is true for exceptions that require another attempt, or None."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """The number of attempts, and the waits between them."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Tell whether another attempt may follow.

        Args:
            current_attempts: Attempts so far, the first one included.

        Returns:
            bool: Whether it may.
        """

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Return the wait before the next attempt.

        Args:
            current_attempts: Attempts so far, the first one included.

        Returns:
            int: Milliseconds.
        """

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the conditions for another attempt."""

    @staticmethod
    def no_restart() -> AsyncRetryStrategy[Any]:
        """Make one attempt only.

        Returns:
            AsyncRetryStrategy: For `…_wait_with_retry`.
        """
        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Wait the same time before each further attempt.

        Args:
            max_attempts: Further attempts, 1 or more.
            backoff_time_millis: Milliseconds between attempts.
            result_predicate: Results for which it returns true are tried again.
            exception_predicate: Exceptions for which it returns true are tried again.

        Returns:
            AsyncRetryStrategy: For `…_wait_with_retry`.
        """
        return FixedDelayRetryStrategy(
            max_attempts, backoff_time_millis, result_predicate, exception_predicate
        )

    @staticmethod
    def exponential_backoff(
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> AsyncRetryStrategy[Any]:
        """Wait longer before each further attempt.

        Args:
            max_attempts: Further attempts, 1 or more.
            initial_delay: Milliseconds before the first of them.
            max_retry_delay: Longest wait in milliseconds.
            multiplier: Factor from one wait to the next.
            result_predicate: Results for which it returns true are tried again.
            exception_predicate: Exceptions for which it returns true are tried again.

        Returns:
            AsyncRetryStrategy: For `…_wait_with_retry`.
        """
        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class RetryPredicate(AsyncRetryPredicate[OUT], Generic[OUT]):
    """A pair of predicates; None never requires another attempt."""

    def __init__(
        self, result_predicate: ResultPredicate | None, exception_predicate: ExceptionPredicate | None
    ) -> None:
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def result_predicate(self) -> ResultPredicate | None:
        """Return the predicate that decides whether a result requires another attempt."""
        return self._result_predicate

    def exception_predicate(self) -> ExceptionPredicate | None:
        """Return the predicate that decides whether an exception requires another attempt."""
        return self._exception_predicate


class NoRetryStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    """A strategy of only one attempt."""

    def can_retry(self, current_attempts: int) -> bool:
        return False

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return -1

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return predicates that never require another attempt."""
        return RetryPredicate(None, None)


class _LimitedStrategy(AsyncRetryStrategy[OUT], Generic[OUT]):
    def __init__(
        self,
        max_attempts: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        _require_positive("max_attempts", max_attempts)
        self._max_attempts = max_attempts
        self._result_predicate = result_predicate
        self._exception_predicate = exception_predicate

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """Return the two predicates."""
        return RetryPredicate(self._result_predicate, self._exception_predicate)


class FixedDelayRetryStrategy(_LimitedStrategy[OUT], Generic[OUT]):
    """Up to `max_attempts` more attempts, each `backoff_time_millis` after the end of the one before.

    Raises AssertionError for a number that is not above zero.
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        _require_positive("backoff_time_millis", backoff_time_millis)
        self._backoff_time_millis = backoff_time_millis

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return self._backoff_time_millis


class ExponentialBackoffDelayRetryStrategy(_LimitedStrategy[OUT], Generic[OUT]):
    """Up to `max_attempts` more attempts, `initial_delay` after the first, then `multiplier` times as long.

    No wait is longer than `max_retry_delay` milliseconds. As in Flink, the strategy and not the record stores
    the last wait: records that are retried at the same time lengthen each other's waits.

    Raises AssertionError for a number that is not above zero.
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        _require_positive("initial_delay", initial_delay)
        _require_positive("max_retry_delay", max_retry_delay)
        _require_positive("multiplier", multiplier)
        self._max_retry_delay = max_retry_delay
        self._multiplier = multiplier
        self._initial_delay = initial_delay
        self._last_retry_delay = initial_delay

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        if current_attempts <= 1:
            self._last_retry_delay = self._initial_delay
        else:
            longer = self._last_retry_delay * self._multiplier
            self._last_retry_delay = int(min(longer, self._max_retry_delay))
        return self._last_retry_delay


NO_RETRY_STRATEGY: AsyncRetryStrategy[Any] = NoRetryStrategy()


def _require_positive(name: str, value: float) -> None:
    if not value > 0:
        raise AssertionError(f"{name} should be greater than zero.")


# Ready-made conditions for another attempt. Source: pyflink.datastream.async_retry_predicates


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Tell whether a call had no results.

    Args:
        result: The list of results, or None.

    Returns:
        bool: True for None and an empty list.
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Tell whether a call failed.

    Args:
        error: Its exception, or None.

    Returns:
        bool: Whether there is one.
    """
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Tell whether a call failed with an exception of a class.

    Args:
        error: Its exception, or None.
        expected_error_type: A class, or a tuple of classes.

    Returns:
        bool: Whether it did.
    """
    return isinstance(error, expected_error_type)


IN = TypeVar("IN")


class AsyncFunction(Function, Generic[IN, OUT]):
    """A function with any number of results per record, whose calls take time."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """Compute the results of a record, as a coroutine.

        Args:
            value: The record.

        Returns:
            A list of results.

        Raises:
            Exception: Fails the job, unless it is tried again.
        """

    def timeout(self, value: IN) -> list[OUT]:
        """Return results for a record that took too long.

        Args:
            value: The record.

        Returns:
            A list of results.

        Raises:
            TimeoutError: Unless overridden.
        """
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class AsyncFunctionDescriptor:
    """An asynchronous function with the settings of its calls.

    Args:
        async_function: An AsyncFunction.
        timeout: Time that all attempts of a record may take: a Time or Duration.
        capacity: Records that a subtask may have under way at once, 1 or more.
        async_retry_strategy: An AsyncRetryStrategy.
        output_mode: An AsyncFunctionDescriptor.OutputMode.
    """

    class OutputMode(Enum):
        """Whether results keep the order of their records."""

        ORDERED = 0
        UNORDERED = 1

    def __init__(
        self,
        async_function: AsyncFunction[Any, Any],
        timeout: Any,
        capacity: int,
        async_retry_strategy: AsyncRetryStrategy[Any],
        output_mode: OutputMode,
    ) -> None:
        self.async_function = async_function
        self.timeout = timeout
        self.capacity = capacity
        self.async_retry_strategy = async_retry_strategy
        self.output_mode = output_mode
