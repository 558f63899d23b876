"""Conditions for another attempt, under the name that pyflink.datastream.async_retry_predicates has here."""

from penstock.operators.functions.async_functions import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]
