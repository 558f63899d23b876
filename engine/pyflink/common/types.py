"""Rows, as pyflink.common.types names them."""

from penstock.operators.common.row import Row, RowKind

__all__ = ["Row", "RowKind"]
