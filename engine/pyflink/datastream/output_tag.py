"""Names of side outputs, as pyflink.datastream.output_tag names them."""

from penstock.operators.common.output_tag import OutputTag

__all__ = ["OutputTag"]
