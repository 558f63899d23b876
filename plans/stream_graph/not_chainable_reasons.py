"""Records of the reasons against chaining, one each, read by passes, `explain`, `--what-if` and docs.

A new reason is one record here, at its position in Flink's order, and a case in
tests/passes/fixtures/stream_edges.txt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Self

from penstock.plans.stream_graph.choose_partitioners import CONSECUTIVE_HASH
from penstock.plans.vocabulary import ChainingStrategy, StreamExchangeMode

# The form of the records.


_NEVER = ChainingStrategy.NEVER.value


class EdgeExpressions(NamedTuple):
    """A row of edges_with_ends in the expressions of a planner (polars or Spark)."""

    column: Callable[[str], Any]  #: returns the column of that name
    or_else: Callable[[Any, str], Any]  #: returns an expression with a value in place of null
    forward: Any  #: whether the partitioner is one of FORWARD_CLASSES

    def differs(self, attribute: str) -> Any:
        """Return whether the attribute differs between the ends."""
        return self.column(f"source_{attribute}") != self.column(f"target_{attribute}")

    def strategy_is(self, end: str, strategy: ChainingStrategy) -> Any:
        """Return whether the source or target has this chaining strategy. A node without an operator has
        NEVER.
        """
        return self.or_else(self.column(f"{end}_chaining"), _NEVER) == strategy.value


class EdgeFacts(NamedTuple):
    """An edge of one plan with the values that decide the conditions, as known to `explain`."""

    edge: Mapping[str, Any]  #: row of stream_edges
    source: Mapping[str, Any]  #: row of stream_nodes
    target: Mapping[str, Any]  #: row of stream_nodes
    settings: Mapping[str, Any]  #: row of job_settings
    target_inputs: int  #: edges into the target
    input_edges: int  #: edges into the same input of the target
    in_chain_of_legacy_source: bool  #: the source is a legacy source or in a chain headed by one
    source_strategy: dict[str, Any]  #: its chaining strategy, and the origin of that
    target_strategy: dict[str, Any]  #: the same
    partitioner_because: str  #: the reason for the edge's partitioner
    may_chain: bool  #: chains can grow and all state still fits: all operators have one max parallelism
    may_share_slots: bool  #: the target's slot sharing group can change: nothing is co-located
    may_follow: bool  #: the target's chain can take the source's parallelism, and results stay the same
    exchange_is_given: bool  #: a partition transformation sets the exchange mode
    ids_change: bool  #: some operator has no uid (state is saved under its id, not its uid hash)

    def both(self, attribute: str) -> dict[str, Any]:
        """Return the attribute's values at both ends."""
        return {"producer": self.source[attribute], "reader": self.target[attribute]}


class SwitchOn(NamedTuple):
    """A change planned by `--what-if` that sets a flag of job_settings to true."""

    setting: str
    meaning: str


class FollowProducer(NamedTuple):
    """A change by which the reader, and the operators chained to it, takes an attribute of the producer."""

    attribute: str
    meaning: str
    implies: frozenset[str] = frozenset()  #: reasons that follow from this one and vanish with it


class ChainAlways(NamedTuple):
    """A change that gives the source or target of the edge the strategy ALWAYS."""

    end: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class ReasonRecord:
    """A reason against chaining.

    `condition` is None for reasons that an edge and its two ends do not decide.
    """

    meaning: str  #: the line of docs/tables.md: why the edge is not chained
    condition: Callable[[EdgeExpressions], Any] | None  #: true exactly when the reason holds
    sentence: str  #: shown by pictures and `explain`; formatted with edge, source and target
    requires: str  #: the condition for the edge to be chained
    method: str  #: the check in Flink
    values: Callable[[EdgeFacts], dict[str, Any]]  #: the values listed by `explain`
    change: Callable[[EdgeFacts], str | None] | None = None
    """A change that makes the edge chainable; None if state could be lost or mixed, or results
    could change."""
    what_if: SwitchOn | FollowProducer | ChainAlways | None = None  #: None: no setting makes it true
    is_preference: bool = False  #: a custom planner may still chain the edge


_GENERATOR = "StreamingJobGraphGenerator"
_CHAINABLE, _INPUT = f"{_GENERATOR}.isChainable", f"{_GENERATOR}.isChainableInput"
_OPERATORS = f"{_GENERATOR}.areOperatorsChainable"
_PARTITIONER = f"{_GENERATOR}.arePartitionerAndExchangeModeChainable"

SET_BY_AUTHOR = "the operator"
"""The origin, in `explain`, of a chaining strategy that the operator itself sets."""


class NotChainableReason(StrEnum):
    """Why a StreamEdge is not chainable (all reasons that apply are recorded, in this order)."""

    _value_: str
    record: ReasonRecord
    bit: int  #: in a set of reasons, the column `reasons` of marked_edges

    def __new__(cls, name: str, record: ReasonRecord) -> Self:
        """Create a reason with its record; its bit is its position among the reasons."""
        reason = str.__new__(cls, name)
        reason._value_, reason.record, reason.bit = name, record, 1 << len(cls.__members__)
        return reason

    CHAINING_DISABLED = (
        "CHAINING_DISABLED",
        ReasonRecord(
            meaning="operator chaining is off for the job",
            condition=lambda row: ~row.column("chaining_enabled"),
            sentence="operator chaining is switched off for the job",
            requires="chaining is on for the job",
            method=_INPUT,
            values=lambda facts: {"chaining": "on" if facts.settings["chaining_enabled"] else "off"},
            change=lambda facts: (
                "switch it on: pipeline.operator-chaining.enabled: true" if facts.may_chain else None
            ),
            what_if=SwitchOn("chaining_enabled", "operator chaining is switched on for the job"),
            is_preference=True,
        ),
    )
    SEVERAL_INPUTS = (
        "SEVERAL_INPUTS",
        ReasonRecord(
            meaning="the reader has more than one input edge",
            condition=lambda row: row.column("in_degree") > 1,
            sentence="the reader has several inputs",
            requires="the reader has one input edge",
            method=_CHAINABLE,
            values=lambda facts: {
                "input edges": facts.target_inputs,
                **({"reader takes sources into its chain": True} if facts.edge["chained_source"] else {}),
            },
        ),
    )
    UNION_INPUT = (
        "UNION_INPUT",
        ReasonRecord(
            meaning="another edge feeds the same input of the reader",
            condition=lambda row: row.column("input_degree") > 1,
            sentence="another edge feeds the same input of the reader (a union)",
            requires="no other edge feeds the same input",
            method=_INPUT,
            values=lambda facts: {"edges into the input": facts.input_edges},
        ),
    )
    DIFFERENT_SLOT_SHARING_GROUP = (
        "DIFFERENT_SLOT_SHARING_GROUP",
        ReasonRecord(
            meaning="the operators are in different slot sharing groups",
            condition=lambda row: row.differs("slot_sharing_group"),
            sentence="slot sharing groups differ ({source[slot_sharing_group]} and "
            "{target[slot_sharing_group]})",
            requires="both are in one slot sharing group",
            method=_INPUT,
            values=lambda facts: facts.both("slot_sharing_group"),
            change=lambda facts: (
                "put both into one slot sharing group" if facts.may_chain and facts.may_share_slots else None
            ),
            what_if=FollowProducer(
                "slot_sharing_group",
                "the reader, and the operators chained to it, joins the producer's group",
            ),
        ),
    )
    YIELDING_BEHIND_LEGACY_SOURCE = (
        "YIELDING_BEHIND_LEGACY_SOURCE",
        ReasonRecord(
            meaning="the reader yields, as async I/O does, and its chain would begin with a `legacy_source`",
            condition=None,
            sentence="the reader yields, which no chain of a SourceFunction allows",
            requires="the reader does not yield, or no SourceFunction heads the chain",
            method=_OPERATORS,
            values=lambda facts: {
                "reader yields": facts.target["yielding"],
                "SourceFunction": facts.in_chain_of_legacy_source,
            },
        ),
    )
    UPSTREAM_NEVER_CHAINS = (
        "UPSTREAM_NEVER_CHAINS",
        ReasonRecord(
            meaning="the producer's chaining strategy is NEVER",
            condition=lambda row: row.strategy_is("source", ChainingStrategy.NEVER),
            sentence="the producer's chaining strategy is NEVER",
            requires="the producer's strategy is not NEVER",
            method=_OPERATORS,
            values=lambda facts: facts.source_strategy,
            change=lambda facts: (
                "let the producer chain: its strategy ALWAYS, no disable_chaining()"
                if facts.may_chain and facts.source_strategy["set by"] == SET_BY_AUTHOR
                else None
            ),
            what_if=ChainAlways("source", "the producer's chaining strategy becomes ALWAYS"),
            is_preference=True,
        ),
    )
    DOWNSTREAM_NEVER_CHAINS = (
        "DOWNSTREAM_NEVER_CHAINS",
        ReasonRecord(
            meaning="the reader's chaining strategy is NEVER",
            condition=lambda row: row.strategy_is("target", ChainingStrategy.NEVER),
            sentence="the reader's chaining strategy is NEVER",
            requires="the reader's strategy is not NEVER",
            method=_OPERATORS,
            values=lambda facts: facts.target_strategy,
            change=lambda facts: (
                "let the reader chain: its strategy ALWAYS, no disable_chaining()"
                if facts.may_chain and facts.target_strategy["set by"] == SET_BY_AUTHOR
                else None
            ),
            what_if=ChainAlways("target", "the reader's chaining strategy becomes ALWAYS"),
            is_preference=True,
        ),
    )
    DOWNSTREAM_IS_HEAD = (
        "DOWNSTREAM_IS_HEAD",
        ReasonRecord(
            meaning="the reader's chaining strategy is HEAD: it begins a chain",
            condition=lambda row: row.strategy_is("target", ChainingStrategy.HEAD),
            sentence="the reader's chaining strategy is HEAD: it begins a chain",
            requires="the reader's strategy is not HEAD",
            method=_OPERATORS,
            values=lambda facts: facts.target_strategy,
            change=lambda facts: (
                "let the reader chain: its strategy ALWAYS, no start_new_chain()"
                if facts.may_chain and facts.target_strategy["set by"] == SET_BY_AUTHOR
                else None
            ),
            what_if=ChainAlways("target", "the reader's chaining strategy becomes ALWAYS"),
            is_preference=True,
        ),
    )
    UPSTREAM_IS_NOT_A_SOURCE = (
        "UPSTREAM_IS_NOT_A_SOURCE",
        ReasonRecord(
            meaning="the reader's chaining strategy is HEAD_WITH_SOURCES, and the producer is not a source",
            condition=lambda row: (
                row.strategy_is("target", ChainingStrategy.HEAD_WITH_SOURCES) & ~row.column("source_source")
            ),
            sentence="the reader's strategy, HEAD_WITH_SOURCES, takes sources only into its chain",
            requires="a reader of strategy HEAD_WITH_SOURCES reads a source",
            method=_OPERATORS,
            values=lambda facts: {**facts.target_strategy, "producer is a source": facts.source["source"]},
            is_preference=True,
        ),
    )
    DIFFERENT_PARALLELISM = (
        "DIFFERENT_PARALLELISM",
        ReasonRecord(
            meaning="the operators have different parallelism",
            condition=lambda row: row.differs("parallelism"),
            sentence="parallelism differs ({source[parallelism]} and {target[parallelism]})",
            requires="parallelism is equal",
            method=_OPERATORS,
            values=lambda facts: facts.both("parallelism"),
            change=lambda facts: (
                "give the reader, and the operators chained to it, the parallelism "
                f"{facts.source['parallelism']}"
                if facts.may_follow
                else None
            ),
            what_if=FollowProducer(
                "parallelism",
                "the reader, and the operators chained to it, gets the producer's parallelism",
                implies=frozenset({"PARTITIONER_NOT_FORWARD"}),  # without a partitioner it is REBALANCE
            ),
        ),
    )
    DIFFERENT_MAX_PARALLELISM = (
        "DIFFERENT_MAX_PARALLELISM",
        ReasonRecord(
            meaning="the operators have different max parallelism, and the job does not chain such operators",
            condition=lambda row: (
                ~row.column("chain_different_max_parallelism") & row.differs("max_parallelism")
            ),
            sentence="max parallelism differs ({source[max_parallelism]} and {target[max_parallelism]}), and "
            "the job forbids that in a chain",
            requires="max parallelism is equal, or may differ",
            method=_OPERATORS,
            values=lambda facts: {
                **facts.both("max_parallelism"),
                "may differ": facts.settings["chain_different_max_parallelism"],
            },
            what_if=SwitchOn(
                "chain_different_max_parallelism", "operators of different max parallelism may be chained"
            ),
            is_preference=True,
        ),
    )
    PARTITIONER_NOT_FORWARD = (
        "PARTITIONER_NOT_FORWARD",
        ReasonRecord(
            meaning="the edge distributes records in another way than FORWARD",
            condition=lambda row: ~row.forward,
            sentence="the partitioner is {edge[partitioner]}, not FORWARD",
            requires="the partitioner is FORWARD",
            method=_PARTITIONER,
            values=lambda facts: {
                "partitioner": facts.edge["partitioner"],
                "because": facts.partitioner_because,
            },
            change=lambda facts: (
                "give the reader, and the operators chained to it, the parallelism "
                f"{facts.source['parallelism']}: the partitioner becomes FORWARD"
                if facts.may_follow
                else None
            ),
        ),
    )
    BATCH_EXCHANGE = (
        "BATCH_EXCHANGE",
        ReasonRecord(
            meaning="the edge's exchange mode is BATCH",
            condition=lambda row: (
                row.forward
                & (row.column("partitioner_class") != CONSECUTIVE_HASH)
                & (row.column("exchange_mode") == StreamExchangeMode.BATCH.value)
            ),
            sentence="its exchange is BATCH: the reader starts when the producer has ended",
            requires="the exchange mode is not BATCH",
            method=_PARTITIONER,
            values=lambda facts: {
                "exchange mode": facts.edge["exchange_mode"],
                "partitioner class": facts.edge["partitioner_class"],
            },
            change=lambda facts: (
                "leave the exchange mode of the edge undefined"
                if facts.may_chain and facts.exchange_is_given
                else None
            ),
        ),
    )
    DECIDED_BY_PLANNER = (
        "DECIDED_BY_PLANNER",
        ReasonRecord(
            meaning="a [custom planner](custom-planners.md) keeps the operators apart",
            condition=None,
            sentence="the chosen planner keeps them apart",
            requires="the chosen planner chains them",
            method="none of Flink's: see --planner",
            values=lambda facts: {"decides": "apart"},
            change=lambda facts: "plan without it, or change its decision",
            is_preference=True,
        ),
    )


def local_conditions(row: EdgeExpressions) -> dict[NotChainableReason, Any]:
    """Map reasons to the conditions under which they apply, for reasons that an edge and its ends decide.

    Source: StreamingJobGraphGenerator.isChainable, isChainableInput, areOperatorsChainable,
    arePartitionerAndExchangeModeChainable.
    """
    return {
        reason: condition(row)
        for reason in NotChainableReason
        if (condition := reason.record.condition) is not None
    }
