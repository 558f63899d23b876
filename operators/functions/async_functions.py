"""Base classes of asynchronous functions and of what decides on another attempt.

Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.async.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, TypeVar

from operators.functions.functions import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncRetryPredicate(ABC, Generic[OUT]):
    """After which results and exceptions there is another attempt."""

    @abstractmethod
    def result_predicate(self) -> ResultPredicate | None:
        """Whether a result calls for another attempt; None: none does."""

    @abstractmethod
    def exception_predicate(self) -> ExceptionPredicate | None:
        """Whether an exception calls for another attempt; None: none does."""


class AsyncRetryStrategy(ABC, Generic[OUT]):
    """How many attempts there are, and how long after one another."""

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow after `current_attempts`."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait after `current_attempts`, milliseconds."""

    @abstractmethod
    def get_retry_predicate(self) -> AsyncRetryPredicate[OUT]:
        """What calls for another attempt."""

    @staticmethod
    def no_restart() -> "AsyncRetryStrategy[Any]":
        """One attempt only."""
        from operators.functions.async_retry_strategies import NO_RETRY_STRATEGY

        return NO_RETRY_STRATEGY

    @staticmethod
    def fixed_delay(
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> "AsyncRetryStrategy[Any]":
        """Up to `max_attempts` further attempts, each after the same time."""
        from operators.functions.async_retry_strategies import FixedDelayRetryStrategy

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
    ) -> "AsyncRetryStrategy[Any]":
        """Up to `max_attempts` further attempts, each after `multiplier` times the time before."""
        from operators.functions.async_retry_strategies import ExponentialBackoffDelayRetryStrategy

        return ExponentialBackoffDelayRetryStrategy(
            max_attempts, initial_delay, max_retry_delay, multiplier, result_predicate, exception_predicate
        )


class AsyncFunction(Function, Generic[IN, OUT]):
    """Any results for a record, from calls that take time; many records are under way at once."""

    @abstractmethod
    async def async_invoke(self, value: IN) -> list[OUT]:
        """The results for `value`; an exception fails the job."""

    def timeout(self, value: IN) -> list[OUT]:
        """The results for a record that took too long. Raises TimeoutError unless overridden."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class AsyncFunctionDescriptor:
    """An asynchronous function and how it is to be called."""

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
