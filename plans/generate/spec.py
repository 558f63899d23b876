"""What to generate: the parameters that every shape understands."""

from dataclasses import dataclass

from plans.errors import ConfigurationError
from plans.topology.operator_rules import MAX_PARALLELISM

MAX_OPERATORS = 500_000_000
"""Ids are 32-bit integers, and some shapes spend more than one on an operator."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Parameters of a generated fleet; the same Spec gives the same tables on any cluster.

    `operators` is the size of one topology in physical operators, `width` how many operators stand side by
    side (what exactly, the shape says). `parallelism` is every topology's default parallelism;
    `share_of_uids` the share of physical operators that have a uid. None leaves the choice to the shape.
    """

    operators: int
    topologies: int = 1
    seed: int = 0
    parallelism: int | None = None
    share_of_uids: float | None = None
    width: int | None = None

    def __post_init__(self) -> None:
        """Raise ConfigurationError for the first parameter that no shape can use."""
        _require("operators", self.operators, 2, MAX_OPERATORS)
        _require("topologies", self.topologies, 1, MAX_OPERATORS)
        _require("seed", self.seed, -(2**63), 2**63 - 1)
        if self.parallelism is not None:
            _require("parallelism", self.parallelism, 1, MAX_PARALLELISM)
        if self.share_of_uids is not None:
            _require("share_of_uids", self.share_of_uids, 0, 1)
        if self.width is not None:
            _require("width", self.width, 1, MAX_OPERATORS)


def _require(parameter: str, found: float, low: int, high: int) -> None:
    if not low <= found <= high:
        raise ConfigurationError(f"{parameter}: found {found}, allowed {low} to {high}")
