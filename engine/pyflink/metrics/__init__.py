"""What functions can count and measure; PyFlink's package of this name. Source: pyflink.metrics."""

from penstock.operators.functions.runtime_context import Counter, Distribution, Meter, Metric, MetricGroup

__all__ = ["Counter", "Distribution", "Meter", "Metric", "MetricGroup"]
