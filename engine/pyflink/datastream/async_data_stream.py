"""Asynchronous functions on streams.

Source: pyflink.datastream.async_data_stream.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from penstock.engine.pyflink.datastream.operator_settings import as_output_type, check_methods
from penstock.engine.run.lowering.transformations import Call
from penstock.operators.common.declared_types import DeclaredType
from penstock.operators.common.time import Time
from penstock.operators.functions.async_functions import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from penstock.operators.process.async_wait_operator import AsyncWaitOperator

if TYPE_CHECKING:
    from penstock.engine.pyflink.datastream.data_stream import DataStream

#: Default of the largest number of records in flight.
CAPACITY = 100


class AsyncDataStream:
    """Transforms of records by functions that wait for something; many records are under way at a time."""

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int = CAPACITY,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """Call an AsyncFunction for each record, without order.

        Results come as soon as they are there; none overtakes a watermark.

        Args:
            data_stream: The DataStream.
            async_function: The AsyncFunction.
            timeout: Time for one record: a Time or Duration.
            capacity: Records under way, 1 or more; default 100.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.

        Raises:
            TypeError: The stream is keyed, or the function is of another kind.
        """
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = CAPACITY,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """As `unordered_wait`, with further attempts.

        Args:
            data_stream: The DataStream.
            async_function: The AsyncFunction.
            timeout: Time for one record with all attempts: a Time or Duration.
            async_retry_strategy: An AsyncRetryStrategy.
            capacity: Records under way, 1 or more; default 100.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, False)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        capacity: int = CAPACITY,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """Call an AsyncFunction for each record; results come in the order of the records.

        Args:
            data_stream: The DataStream.
            async_function: The AsyncFunction.
            timeout: Time for one record: a Time or Duration.
            capacity: Records under way, 1 or more; default 100.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(
        data_stream: DataStream,
        async_function: AsyncFunction[Any, Any],
        timeout: Time,
        async_retry_strategy: AsyncRetryStrategy[Any],
        capacity: int = CAPACITY,
        output_type: DeclaredType | None = None,
    ) -> DataStream:
        """As `ordered_wait`, with further attempts.

        Args:
            data_stream: The DataStream.
            async_function: The AsyncFunction.
            timeout: Time for one record with all attempts: a Time or Duration.
            async_retry_strategy: An AsyncRetryStrategy.
            capacity: Records under way, 1 or more; default 100.
            output_type: Type of the results; default: pickled Python objects.

        Returns:
            DataStream: The results.
        """
        return _wait(data_stream, async_function, timeout, async_retry_strategy, capacity, output_type, True)


def _wait(
    stream: DataStream,
    function: AsyncFunction[Any, Any],
    timeout: Time,
    strategy: AsyncRetryStrategy[Any],
    capacity: int,
    output_type: DeclaredType | None,
    ordered: bool,
) -> DataStream:
    """Append the operator. Raises TypeError and ValueError if PyFlink's AsyncDataStream refuses arguments."""
    check_methods(function, AsyncFunction, "async_function")
    if not inspect.iscoroutinefunction(function.async_invoke):
        raise TypeError(f"{type(function).__name__}.async_invoke must be an 'async def'")
    check_methods(strategy, AsyncRetryStrategy, "async_retry_strategy")
    milliseconds = timeout.to_milliseconds()
    if strategy is not NO_RETRY_STRATEGY and milliseconds <= 0:
        raise ValueError(f"timeout must be above 0 ms if calls may be made again, got {milliseconds} ms")
    if strategy.get_retry_predicate() is None:
        raise ValueError(f"{type(strategy).__name__} must have a retry predicate")
    if capacity < 1:
        raise ValueError(f"capacity must be at least 1, got {capacity}")
    if stream._environment.thread_mode():
        raise ValueError(
            "AsyncDataStream: PyFlink refuses async functions in thread mode; set python.execution-mode to "
            "process"
        )
    operator = AsyncWaitOperator(
        function=function,
        timeout_milliseconds=milliseconds,
        capacity=capacity,
        ordered=ordered,
        retry_strategy=strategy,
    )
    return stream._append_operator(
        "async wait operator",
        operator,
        as_output_type(output_type),
        call=Call.PROCESS,
        # on a KeyedStream the function gets rows of key and record
        key_selector=stream._key_selector_or_none(),
    )
