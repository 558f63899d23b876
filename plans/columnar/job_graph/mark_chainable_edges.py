"""Every stream edge knows whether it is chainable, and every reason why not."""

import polars as pl

from plans.columnar.frames import TOPOLOGY
from plans.columnar.look_up import look_up
from plans.job_graph.mark_chainable_edges import MAY_CROSS_BATCH, REASONS, reason_bit
from plans.schema import STREAM_EDGES
from plans.stream_graph.choose_partitioners import FORWARD_CLASSES
from plans.vocabulary import ChainingStrategy, NotChainableReason, StreamExchangeMode


def mark_local_reasons(edges_with_ends: pl.DataFrame, job_settings: pl.DataFrame) -> pl.DataFrame:
    """All reasons that an edge and its two ends decide. As plans.job_graph.mark_local_reasons."""
    settings = job_settings.select(TOPOLOGY, "chaining_enabled", "chain_different_max_parallelism")
    reasons = look_up(edges_with_ends, settings, {}).select(_LOCAL_REASONS)
    return edges_with_ends.hstack(reasons).with_columns(_CHAINED_SOURCE)


def mark_chainable_edges(marked_edges: pl.DataFrame, chain_heads: pl.DataFrame) -> pl.DataFrame:
    """The StreamGraph's edges with their verdicts on chaining. As plans.job_graph.mark_chainable_edges."""
    legacy_heads = chain_heads.filter("head_is_legacy_source").select(
        TOPOLOGY, "node", "head_is_legacy_source"
    )
    forced = marked_edges.select(TOPOLOGY, "target", aligned=_FORCES_ALIGNMENT).filter("aligned").unique()
    with_heads = look_up(marked_edges, legacy_heads, {"source": "node"})
    verdict = look_up(with_heads, forced, {"target": "target"}).with_columns(_ALL_REASONS)
    named = _named(verdict["reasons"].unique())
    lists = verdict.select("reasons").join(named, on="reasons", how="left", maintain_order="left")
    return verdict.hstack(lists.select("not_chainable_reasons")).select(_STREAM_EDGES)


def _conditions() -> dict[NotChainableReason, pl.Expr]:
    """Reason to the condition on an edge's row under which it holds, as in plans.job_graph."""
    never = ChainingStrategy.NEVER.value
    upstream = pl.col("source_chaining").fill_null(never)
    downstream = pl.col("target_chaining").fill_null(never)

    def differs(attribute: str) -> pl.Expr:
        return pl.col(f"source_{attribute}") != pl.col(f"target_{attribute}")

    forward = pl.col("partitioner_class").is_in(FORWARD_CLASSES)
    return {
        NotChainableReason.CHAINING_DISABLED: ~pl.col("chaining_enabled"),
        NotChainableReason.SEVERAL_INPUTS: pl.col("in_degree") > 1,
        NotChainableReason.UNION_INPUT: pl.col("input_degree") > 1,
        NotChainableReason.DIFFERENT_SLOT_SHARING_GROUP: differs("slot_sharing_group"),
        NotChainableReason.UPSTREAM_NEVER_CHAINS: upstream == never,
        NotChainableReason.DOWNSTREAM_NEVER_CHAINS: downstream == never,
        NotChainableReason.DOWNSTREAM_IS_HEAD: downstream == ChainingStrategy.HEAD,
        NotChainableReason.UPSTREAM_IS_NOT_A_SOURCE: (downstream == ChainingStrategy.HEAD_WITH_SOURCES)
        & ~pl.col("source_source"),
        NotChainableReason.DIFFERENT_PARALLELISM: differs("parallelism"),
        NotChainableReason.DIFFERENT_MAX_PARALLELISM: ~pl.col("chain_different_max_parallelism")
        & differs("max_parallelism"),
        NotChainableReason.PARTITIONER_NOT_FORWARD: ~forward,
        NotChainableReason.BATCH_EXCHANGE: forward
        & (pl.col("partitioner_class") != MAY_CROSS_BATCH)
        & (pl.col("exchange_mode") == StreamExchangeMode.BATCH),
    }


def _set_of(conditions: dict[NotChainableReason, pl.Expr]) -> pl.Expr:
    """The bits of the reasons whose conditions hold; a condition that is null does not."""
    return pl.sum_horizontal(
        condition.cast(pl.Int32) * reason_bit(reason) for reason, condition in conditions.items()
    )


def _stream_edges() -> list[pl.Expr]:
    computed = {
        "supports_unaligned_checkpoints": _UNALIGNED & pl.col("aligned").is_null(),
        "chainable": pl.col("reasons") == 0,
    }
    return [computed.get(name, pl.col(name)).alias(name) for name in STREAM_EDGES.names]


def _named(sets: pl.Series) -> pl.DataFrame:
    """Each set of reasons with the list of their names; there are few."""
    names = [[reason.value for reason in REASONS if bits & reason_bit(reason)] for bits in sets]
    return pl.DataFrame(
        {"reasons": sets, "not_chainable_reasons": names},
        schema={"reasons": pl.Int32, "not_chainable_reasons": pl.List(pl.String)},
    )


_UNALIGNED = pl.col("supports_unaligned_checkpoints")
_FORCES_ALIGNMENT = (pl.col("in_degree") > 1) & ~_UNALIGNED
_LOCAL_REASONS = _set_of(_conditions()).alias("reasons")
_CHAINED_SOURCE = (
    pl.col("source_source")
    & (pl.col("out_degree") == 1)
    & (pl.col("target_chaining") == ChainingStrategy.HEAD_WITH_SOURCES)
    & ((pl.col("reasons") & ~reason_bit(NotChainableReason.SEVERAL_INPUTS)) == 0)
).alias("chained_source")
_BEHIND_LEGACY = pl.col("target_yielding") & (
    pl.col("source_legacy_source") | pl.col("head_is_legacy_source").is_not_null()
)
_ALL_REASONS = (
    pl.col("reasons") | _set_of({NotChainableReason.YIELDING_BEHIND_LEGACY_SOURCE: _BEHIND_LEGACY})
).alias("reasons")
_STREAM_EDGES = _stream_edges()
