"""Rows, as pyflink.common.types names them."""

from operators.common.row import Row, RowKind

__all__ = ["Row", "RowKind"]
