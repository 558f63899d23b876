"""Custom planners as a command or a call names them, and how they are asked."""

import os
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.planning.chosen_costs import chosen_costs
from penstock.engine.planning.find_custom_planners import CustomPlanner, find_custom_planners, name_of_planner
from penstock.engine.planning.plan_by_custom_planners import Question
from penstock.plans.errors import ConfigurationError
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants


class CustomPlanners(NamedTuple):
    """The planner's name and functions, the costs that they are shown, and seconds for a batch."""

    name: str
    chosen: list[CustomPlanner]
    costs: str | None
    seconds: float

    def question(self, topologies: pl.DataFrame, part: bool = False) -> Question:
        """How to ask about these topologies (see question)."""
        return question(self.costs, topologies, self.seconds, part)


def named_custom_planners(planner: Any, costs: str | None, seconds: float) -> CustomPlanners:
    """A planner as find_custom_planners takes it. Raises ConfigurationError."""
    if seconds <= 0:
        raise ConfigurationError(f"--time-limit {seconds:g}: allowed seconds above 0")
    # workers of Spark have other working folders
    source = os.path.abspath(costs) if costs is not None and os.path.exists(costs) else costs
    return CustomPlanners(name_of_planner(planner), find_custom_planners(planner), source, seconds)


def question(
    costs: str | None,
    topologies: pl.DataFrame,
    seconds: float,
    part: bool = False,
    constants: Constants = CONSTANTS,
) -> Question:
    """How to ask about these topologies, with the costs that --costs chooses.

    `part`: there are other topologies, too. Raises what chosen_costs raises.
    """
    return Question(chosen_costs(costs, topologies, part), seconds, constants)
