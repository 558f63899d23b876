"""The sequence of numbers, under PyFlink's name."""

from penstock.operators.connectors.source import NumberSequenceSource

__all__ = ["NumberSequenceSource"]
