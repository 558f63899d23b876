"""What the functions of a job have measured, as people read it."""

from collections.abc import Iterator, Mapping
from typing import Any

from penstock.operators.functions.add_up_metrics import Metrics


def measured_texts(metrics: Metrics) -> Iterator[str]:
    """A line for each metric, as people read it. Names are the author's: they may hold anything."""
    for operator, values in metrics.items():
        for name, value in values.items():
            shown = f"{value:,}" if isinstance(value, int | float) else _distribution(value)
            yield f"{operator}: {name} {shown}"


def _distribution(value: Any) -> str:
    if not isinstance(value, Mapping) or not value.get("count"):
        return str(value)
    mean = value["sum"] / value["count"]
    return f"{value['min']:,} to {value['max']:,}, mean {mean:,.4g} of {value['count']:,}"
