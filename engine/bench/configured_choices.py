"""The cluster that measured planners plan for."""

from functools import cache

from engine.configuration.find_configuration import find_configuration
from engine.planning.plan_options import plan_options
from plans.choices import Choices


@cache
def configured_choices() -> Choices:
    """As the configuration directory says that the command has handed on."""
    return plan_options(cluster=find_configuration().cluster).choices
