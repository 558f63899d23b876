"""The sequence of numbers, under PyFlink's name."""

from penstock.operators.connectors.number_sequence import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
