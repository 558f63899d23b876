"""Planners of others as a command or a call names them, and how they are asked."""

from pathlib import Path
from typing import NamedTuple

import polars as pl

from engine.planning.find_policies import Policy, find_policies
from engine.planning.plan_by_policies import Question
from plans.errors import ConfigurationError
from plans.metrics.operator_costs import drawn_costs, read_costs

DRAWN = "drawn"
"""What --costs says for costs that are drawn."""


class Policies(NamedTuple):
    """The planner's name and functions, the costs that they are shown, and seconds for a batch."""

    name: str
    chosen: list[Policy]
    costs: str | None
    seconds: float

    def question(self, topologies: pl.DataFrame) -> Question:
        """How to ask about these topologies. Raises InputError if the costs cannot be read."""
        return question(self.costs, topologies, self.seconds)


def named_policies(name: str, costs: str | None, seconds: float) -> Policies:
    """The planner of that name. Raises ConfigurationError."""
    if seconds <= 0:
        raise ConfigurationError(f"--time-limit {seconds:g}: allowed seconds above 0")
    return Policies(name, find_policies(name), costs, seconds)


def question(costs: str | None, topologies: pl.DataFrame, seconds: float) -> Question:
    """`costs`: a file, DRAWN, or None for what is assumed. Raises InputError (see read_costs)."""
    if costs == DRAWN:
        return Question(drawn_costs, seconds)
    if costs is None:
        return Question(seconds=seconds)
    given = read_costs(Path(costs), topologies)
    return Question(lambda stream_nodes: given, seconds)
