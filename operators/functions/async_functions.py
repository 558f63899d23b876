"""The base class of asynchronous functions, and what describes how one is called.

Source: pyflink.datastream.functions; org.apache.flink.streaming.api.functions.async.
"""

from abc import abstractmethod
from enum import Enum
from typing import Any, Generic, TypeVar

from penstock.operators.functions.async_retry_strategies import AsyncRetryStrategy
from penstock.operators.functions.functions import Function

IN = TypeVar("IN")
OUT = TypeVar("OUT")


class AsyncFunction(Function, Generic[IN, OUT]):
    """Any number of results per record, from calls that take time; many records are under way at once."""

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
