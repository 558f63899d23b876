"""What operators cost, as --costs chooses."""

from collections.abc import Callable
from pathlib import Path

import polars as pl

from plans.errors import ConfigurationError
from plans.metrics.costs_in_topologies import costs_in_topologies
from plans.metrics.operator_costs import drawn_costs, operator_costs, read_costs

DRAWN = "drawn"
"""What --costs says for costs that are drawn."""


def chosen_costs(costs: str | None, topologies: pl.DataFrame) -> Callable[[pl.DataFrame], pl.DataFrame]:
    """From stream nodes to operator_costs. In: a file, DRAWN or None; topologies.

    A file comes before what topologies say themselves, and this before what is drawn or assumed. Raises
    ConfigurationError if there is no such file, InputError (see read_costs and costs_in_topologies).
    """
    in_topologies = costs_in_topologies(topologies)
    if costs == DRAWN:
        return lambda stream_nodes: operator_costs(stream_nodes, in_topologies, drawn_costs(stream_nodes))
    if costs is None:
        return lambda stream_nodes: operator_costs(stream_nodes, in_topologies)
    if not Path(costs).is_file():
        raise ConfigurationError(f"--costs {costs}: found no such file", f"a file, or {DRAWN}")
    in_file = read_costs(Path(costs), topologies)
    return lambda stream_nodes: operator_costs(stream_nodes, in_file, in_topologies)
