"""Ready-made conditions for another attempt. Source: pyflink.datastream.async_retry_predicates."""

from typing import Any


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Whether there is no result."""
    return result is None or len(result) == 0


def has_exception_predicate(error: BaseException | None) -> bool:
    """Whether there was an exception."""
    return error is not None


def exception_type_predicate(
    error: BaseException | None, expected_error_type: type[BaseException] | tuple[type[BaseException], ...]
) -> bool:
    """Whether the exception is of that type."""
    return isinstance(error, expected_error_type)
