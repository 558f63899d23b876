"""What Flink asks of an edge before it chains its two operators: one condition for each reason against it."""

from typing import NamedTuple

from plans.vocabulary import NotChainableReason as Reason


class Condition(NamedTuple):
    """One condition. It is met where the planner does not give its reason against chaining."""

    requires: str  #: what has to hold
    method: str  #: where it is checked
    change: str  #: what would make it hold


_GENERATOR = "StreamingJobGraphGenerator"
_CHAINABLE, _INPUT = f"{_GENERATOR}.isChainable", f"{_GENERATOR}.isChainableInput"
_OPERATORS = f"{_GENERATOR}.areOperatorsChainable"
_PARTITIONER = f"{_GENERATOR}.arePartitionerAndExchangeModeChainable"

CONDITIONS = {
    Reason.CHAINING_DISABLED: Condition(
        "chaining is on for the job",
        _INPUT,
        "switch it on: pipeline.operator-chaining.enabled: true",
    ),
    Reason.SEVERAL_INPUTS: Condition(
        "the reader has one input edge",
        _CHAINABLE,
        "let the reader read one stream; several sources are chained to a reader of the strategy "
        "HEAD_WITH_SOURCES only",
    ),
    Reason.UNION_INPUT: Condition(
        "no other edge feeds the same input",
        _INPUT,
        "let the input read one stream instead of a union",
    ),
    Reason.DIFFERENT_SLOT_SHARING_GROUP: Condition(
        "both are in one slot sharing group",
        _INPUT,
        "put both into one slot sharing group",
    ),
    Reason.YIELDING_BEHIND_LEGACY_SOURCE: Condition(
        "the reader does not yield, or no SourceFunction heads the chain",
        _OPERATORS,
        "replace the SourceFunction with a Source (FLIP-27)",
    ),
    Reason.UPSTREAM_NEVER_CHAINS: Condition(
        "the producer's strategy is not NEVER",
        _OPERATORS,
        "let the producer chain: its strategy ALWAYS, no disable_chaining()",
    ),
    Reason.DOWNSTREAM_NEVER_CHAINS: Condition(
        "the reader's strategy is not NEVER",
        _OPERATORS,
        "let the reader chain: its strategy ALWAYS, no disable_chaining()",
    ),
    Reason.DOWNSTREAM_IS_HEAD: Condition(
        "the reader's strategy is not HEAD",
        _OPERATORS,
        "let the reader chain: its strategy ALWAYS, no start_new_chain()",
    ),
    Reason.UPSTREAM_IS_NOT_A_SOURCE: Condition(
        "a reader of strategy HEAD_WITH_SOURCES reads a source",
        _OPERATORS,
        "give the reader the strategy ALWAYS, or let it read a Source",
    ),
    Reason.DIFFERENT_PARALLELISM: Condition(
        "parallelism is equal",
        _OPERATORS,
        "give both the same parallelism",
    ),
    Reason.DIFFERENT_MAX_PARALLELISM: Condition(
        "max parallelism is equal, or may differ",
        _OPERATORS,
        "give both the same max parallelism, or set "
        "pipeline.operator-chaining.chain-operators-with-different-max-parallelism: true",
    ),
    Reason.PARTITIONER_NOT_FORWARD: Condition(
        "the partitioner is FORWARD",
        _PARTITIONER,
        "remove what sets the partitioner",
    ),
    Reason.BATCH_EXCHANGE: Condition(
        "the exchange mode is not BATCH",
        _PARTITIONER,
        "leave the exchange mode of the edge undefined",
    ),
    Reason.DECIDED_BY_PLANNER: Condition(
        "the planner that was chosen wants them chained",
        "none of Flink's: see --planner",
        "plan without it, or change what it decides",
    ),
}
"""In the planner's order of reasons."""
