"""Topologies that are drawn one by one, as dicts."""

import json
from collections.abc import Iterator
from typing import Any

from penstock.engine.measure.bench.prepare_inputs import WORKLOADS
from penstock.plans.errors import ConfigurationError
from penstock.plans.generate.draw_by_trace import DEFAULT_MOST_PARALLELISM, draw_by_trace
from penstock.plans.generate.fleet import Spec
from penstock.plans.topology.operator_rules import MAX_PARALLELISM

ENDINGS = (".yaml", ".yml")
"""Ends of names of spec files."""

Topology = dict[str, Any]


def workloads(parallelism: int | None) -> list[Topology]:
    """All workloads at that parallelism (None: 4); operators that set their own keep it.

    Raises ConfigurationError for a parallelism that Flink does not have.
    """
    if parallelism is not None and not 1 <= parallelism <= MAX_PARALLELISM:
        raise ConfigurationError(f"parallelism: found {parallelism}, allowed 1 to {MAX_PARALLELISM}")
    at = {} if parallelism is None else {"parallelism": parallelism}
    lines = WORKLOADS.read_text(encoding="utf-8").splitlines()
    return [{**json.loads(line), **at} for line in lines]


def topologies_by_trace(
    trace: str, topologies: int, seed: int, parallelism: int | None
) -> Iterator[Topology]:
    """Topologies drawn after a trace; `parallelism`: the most that an operator has.

    Raises ConfigurationError at once for numbers that mean nothing.
    """
    most = DEFAULT_MOST_PARALLELISM if parallelism is None else parallelism
    Spec(2, topologies, seed, parallelism=most)
    return (draw_by_trace(trace, seed, number, most) for number in range(topologies))
