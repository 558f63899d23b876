"""The reasons against chaining, for both planners."""

from collections.abc import Callable
from typing import Any

from plans.stream_graph.choose_partitioners import CONSECUTIVE_HASH
from plans.vocabulary import ChainingStrategy, NotChainableReason, StreamExchangeMode

REASONS = list(NotChainableReason)


def reason_bit(reason: NotChainableReason) -> int:
    """The bit of the reason in a set of reasons."""
    return 1 << REASONS.index(reason)


def local_reasons(
    column: Callable[[str], Any], or_else: Callable[[Any, str], Any], forward: Any
) -> dict[NotChainableReason, Any]:
    """Reason to the condition on a row of edges_with_ends under which it holds, in a planner's expressions.

    In: `column(name)`; `or_else(expression, value)`, which is the value where the expression is null;
    `forward`, whether the partitioner is one of FORWARD_CLASSES. YIELDING_BEHIND_LEGACY_SOURCE is not among
    the reasons: it depends on where the chain above starts.

    Source: StreamingJobGraphGenerator.isChainable, isChainableInput, areOperatorsChainable,
    arePartitionerAndExchangeModeChainable.
    """
    never = ChainingStrategy.NEVER.value
    upstream, downstream = (or_else(column(f"{end}_chaining"), never) for end in ("source", "target"))

    def differs(attribute: str) -> Any:
        return column(f"source_{attribute}") != column(f"target_{attribute}")

    return {
        NotChainableReason.CHAINING_DISABLED: ~column("chaining_enabled"),
        NotChainableReason.SEVERAL_INPUTS: column("in_degree") > 1,
        NotChainableReason.UNION_INPUT: column("input_degree") > 1,
        NotChainableReason.DIFFERENT_SLOT_SHARING_GROUP: differs("slot_sharing_group"),
        NotChainableReason.UPSTREAM_NEVER_CHAINS: upstream == never,
        NotChainableReason.DOWNSTREAM_NEVER_CHAINS: downstream == never,
        NotChainableReason.DOWNSTREAM_IS_HEAD: downstream == ChainingStrategy.HEAD.value,
        NotChainableReason.UPSTREAM_IS_NOT_A_SOURCE: (downstream == ChainingStrategy.HEAD_WITH_SOURCES.value)
        & ~column("source_source"),
        NotChainableReason.DIFFERENT_PARALLELISM: differs("parallelism"),
        NotChainableReason.DIFFERENT_MAX_PARALLELISM: ~column("chain_different_max_parallelism")
        & differs("max_parallelism"),
        NotChainableReason.PARTITIONER_NOT_FORWARD: ~forward,
        NotChainableReason.BATCH_EXCHANGE: forward
        & (column("partitioner_class") != CONSECUTIVE_HASH)
        & (column("exchange_mode") == StreamExchangeMode.BATCH.value),
    }
