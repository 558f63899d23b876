"""Functions of the operators that PyFlink adds to a job.

Source: pyflink.datastream.data_stream.DataStream.{get_side_output,_align_output_type}, KeyedStream._values.
"""

from typing import Any

from penstock.operators.common.row import Row


def same_record(value: Any) -> Any:
    """The record."""
    return value


def object_text(value: Any) -> str | bytes:
    """The text that `print` writes for an object without a declared type."""
    return value if isinstance(value, str | bytes) else str(value)


def row_text(value: Row) -> str:
    """The text that `print` writes for a row: its kind, and its fields as Python's text."""
    return f"{value.get_row_kind()}[{','.join(map(str, value))}]"
