"""The form of the records in not_chainable_reasons.py, one for each reason against chaining."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.plans.vocabulary import ChainingStrategy

_NEVER = ChainingStrategy.NEVER.value


class EdgeExpressions(NamedTuple):
    """A row of edges_with_ends in the expressions of a planner (polars or Spark)."""

    column: Callable[[str], Any]  #: the column of that name
    or_else: Callable[[Any, str], Any]  #: an expression, and the value to use if it is null
    forward: Any  #: whether the partitioner is one of FORWARD_CLASSES

    def differs(self, attribute: str) -> Any:
        """Whether the attribute is not the same at both ends."""
        return self.column(f"source_{attribute}") != self.column(f"target_{attribute}")

    def strategy_is(self, end: str, strategy: ChainingStrategy) -> Any:
        """Whether the source or target has this chaining strategy. A node without an operator has NEVER."""
        return self.or_else(self.column(f"{end}_chaining"), _NEVER) == strategy.value


class EdgeFacts(NamedTuple):
    """An edge of one plan, with what `explain` knows of it: the values that decide the conditions."""

    edge: Mapping[str, Any]  #: row of stream_edges
    source: Mapping[str, Any]  #: row of stream_nodes
    target: Mapping[str, Any]  #: row of stream_nodes
    settings: Mapping[str, Any]  #: row of job_settings
    target_inputs: int  #: edges into the target
    input_edges: int  #: edges into the same input of the target
    in_chain_of_legacy_source: bool  #: the source is a legacy source or in a chain that one heads
    source_strategy: dict[str, Any]  #: its chaining strategy, and who sets it
    target_strategy: dict[str, Any]  #: the same
    partitioner_because: str  #: why the edge has its partitioner
    may_chain: bool  #: chains can grow, and all state still fits: all operators have one max parallelism
    may_share_slots: bool  #: the target's slot sharing group can change: nothing is co-located
    may_follow: bool  #: the target's chain can take the source's parallelism, and results stay the same
    exchange_is_given: bool  #: a partition transformation sets the exchange mode
    ids_change: bool  #: some operator has no uid (state is saved under its id, not its uid hash)

    def both(self, attribute: str) -> dict[str, Any]:
        """The attribute's values at both ends."""
        return {"producer": self.source[attribute], "reader": self.target[attribute]}


class SwitchOn(NamedTuple):
    """A change that `--what-if` plans with: a flag of job_settings becomes true."""

    setting: str
    meaning: str


class FollowProducer(NamedTuple):
    """The same: the reader, and what is chained to it, takes an attribute of the producer."""

    attribute: str
    meaning: str
    implies: frozenset[str] = frozenset()  #: reasons that hold because of this one, and go with it


class ChainAlways(NamedTuple):
    """The same: the source or target of the edge gets the strategy ALWAYS."""

    end: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class ReasonRecord:
    """A reason against chaining.

    `condition` is None for reasons that an edge and its two ends do not decide.
    """

    meaning: str  #: the line of docs/tables.md: why the edge is not chained
    condition: Callable[[EdgeExpressions], Any] | None  #: true exactly when the reason holds
    sentence: str  #: what pictures and `explain` say; formatted with edge, source and target
    requires: str  #: what has to hold for the edge to be chained
    method: str  #: where Flink checks it
    values: Callable[[EdgeFacts], dict[str, Any]]  #: what `explain` shows as found
    change: Callable[[EdgeFacts], str | None] | None = None
    """What would make it chainable; None if state could get lost or mixed by it, or results change."""
    what_if: SwitchOn | FollowProducer | ChainAlways | None = None  #: None: no setting makes it true
    is_preference: bool = False  #: a custom planner may chain the edge all the same
