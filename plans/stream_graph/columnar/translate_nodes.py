"""Physical transformations become stream nodes."""

import numpy as np
import polars as pl

from penstock.operators.kinds import OPERATOR_KINDS, OperatorKind
from penstock.plans.frames.arrow_walks import Flags, Ints
from penstock.plans.frames.polars_frames import look_up
from penstock.plans.stream_graph.columnar.resolve_virtual_nodes import is_kind
from penstock.plans.tables import STREAM_NODES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import SOURCE_KINDS, ChainingStrategy, JobType, Kind, ManagedMemoryUseCase

# Attributes of stream nodes that transformations do not have, for both planners.


ONLY_GIVEN = ("description", "operator_class", "function_class", "output_type", "consumes_data_set")
"""Columns of STREAM_NODES, texts, that only a stream graph which is given can fill."""


_COPIED = (
    TOPOLOGY,
    "id",
    "kind",
    "name",
    "parallelism",
    "max_parallelism",
    "co_location_group",
    "uid",
    "uid_hash",
    "buffer_timeout",
    "chaining",
    "managed_memory",
    "min_resources",
    "preferred_resources",
    "transformation",
    "concurrent_attempts",
)
_KIND_NUMBER = pl.col("kind").cast(pl.Enum(list(OPERATOR_KINDS))).to_physical().alias("kind_number")
_WITH_STATE_BACKEND = (
    pl.col("slot_scope")
    .list.concat(pl.lit([ManagedMemoryUseCase.STATE_BACKEND.value], pl.List(pl.String)))
    .list.unique(maintain_order=True)
)
_WEIGHTS = pl.Map(pl.String, pl.Int32)
_REQUIREMENTS = pl.Map(pl.Int32, pl.String)


def translate_nodes(
    expanded_transformations: pl.DataFrame,
    job_settings: pl.DataFrame,
    resolved_inputs: pl.DataFrame,
    inherited_groups: pl.DataFrame,
    given_stream_nodes: pl.DataFrame,
) -> pl.DataFrame:
    """The StreamGraph's nodes; nodes of topologies given as StreamGraphs are passed on.

    As in joins.translate_nodes; nodes that are translated come first, as in inherited_groups.

    Example: tests/passes/fixtures/stream_nodes.txt.
    """
    rows = inherited_groups["row"].to_numpy()
    keyed = np.zeros(len(expanded_transformations), bool)
    keyed[resolved_inputs["target_row"].filter(resolved_inputs["keyed"]).to_numpy()] = True
    operators = _taken(expanded_transformations.select(_COPIED), rows)
    settings = look_up(operators.select(TOPOLOGY), job_settings.select(_SETTINGS).rechunk(), {})
    translated = (
        operators.hstack(
            [
                *settings.drop(TOPOLOGY),
                pl.Series("keyed", keyed[rows]),
                inherited_groups["slot_sharing_group"],
                _slot_scopes(expanded_transformations.select("slot_scope"), keyed, rows),
            ]
        )
        .with_columns(_KIND_NUMBER)
        .select(_NODES)
    )
    if given_stream_nodes.is_empty():
        return translated
    # In one piece: rows are gathered from these columns, ten times slower from two.
    return pl.concat([translated, given_stream_nodes.select(STREAM_NODES.names)], rechunk=True)


def _taken(table: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    """The chosen rows. Columns without any value, which are frequent, are not gathered."""
    at = pl.Series(rows.astype(np.uint32))
    return pl.DataFrame([c.clear(len(at)) if c.null_count() == len(c) else c.rechunk()[at] for c in table])


def _slot_scopes(nodes: pl.DataFrame, keyed: Flags, rows: Ints) -> pl.Series:
    """The slot_scope of each row; keyed operators have a state backend."""
    places = np.where(keyed, len(nodes) - 1 + np.cumsum(keyed), np.arange(len(nodes)))
    with_state_backend = nodes.filter(pl.Series(values=keyed)).select(_WITH_STATE_BACKEND)
    return pl.concat([nodes, with_state_backend], rechunk=True)["slot_scope"].gather(places[rows])


def _attribute_of_kind(attribute: str) -> pl.Expr:
    """The attribute of OperatorKind that belongs to the row's kind."""
    index = OperatorKind._fields.index(attribute)
    values = pl.Series([properties[index] for properties in OPERATOR_KINDS.values()], dtype=pl.String)
    return pl.lit(values).gather(pl.col("kind_number"))


def _node_columns() -> list[pl.Expr]:
    sorts = pl.col("batch") & pl.col("keyed")
    chaining = pl.coalesce("chaining", _attribute_of_kind("chaining"))
    heads_instead = pl.any_horizontal(
        chaining == strategy for strategy in (ChainingStrategy.ALWAYS, ChainingStrategy.HEAD_WITH_SOURCES)
    )
    sorts_with_memory = sorts & pl.col("sort_inputs")
    weight = pl.struct(
        pl.lit(ManagedMemoryUseCase.OPERATOR.value).alias("key"),
        pl.col("sorted_inputs_memory_mebibytes").alias("value"),
    )
    columns = {
        "name": pl.concat_str(_attribute_of_kind("name_prefix"), "name"),
        "parallelism": pl.coalesce("parallelism", "job_parallelism"),
        "max_parallelism": pl.coalesce("max_parallelism", "job_max_parallelism"),
        "parallelism_configured": pl.col("parallelism").is_not_null(),
        "buffer_timeout": pl.when(pl.col("buffer_timeout") >= 0)
        .then("buffer_timeout")
        .otherwise("job_buffer_timeout"),
        "chaining": pl.when(sorts & heads_instead)
        .then(pl.lit(ChainingStrategy.HEAD.value))
        .otherwise(chaining),
        "source": is_kind(Kind.SOURCE),
        "legacy_source": is_kind(Kind.LEGACY_SOURCE),
        "yielding": is_kind(Kind.ASYNC, Kind.WRITER),
        "coordinated": is_kind(Kind.SOURCE),
        "invokable": _attribute_of_kind("invokable"),
        "operator_factory": _attribute_of_kind("operator_factory"),
        "input_format": pl.lit(False),
        "output_format": pl.lit(False),
        "no_output_until_end_of_input": pl.lit(False),
        "supports_concurrent_execution_attempts": pl.col("concurrent_attempts"),
        "managed_memory": pl.when(sorts_with_memory & (pl.col("managed_memory").map.len() == 0))
        .then(pl.concat_list(weight).cast(_WEIGHTS))
        .otherwise("managed_memory"),
        "input_requirements": pl.when(sorts_with_memory)
        .then(pl.lit({0: "SORTED"}, _REQUIREMENTS))
        .otherwise(pl.lit({}, _REQUIREMENTS)),
        "among_sources": is_kind(*SOURCE_KINDS),
        "keyed": pl.col("keyed"),
        **{name: pl.lit(None, pl.String) for name in ONLY_GIVEN},
    }
    return [columns.get(name, pl.col(name)).alias(name) for name in STREAM_NODES.names]


_NODES = _node_columns()
_SETTINGS = (
    pl.col(TOPOLOGY),
    pl.col("parallelism").alias("job_parallelism"),
    pl.col("max_parallelism").alias("job_max_parallelism"),
    pl.col("buffer_timeout").alias("job_buffer_timeout"),
    (pl.col("job_type") == JobType.BATCH).alias("batch"),
    pl.col("sort_inputs"),
    pl.col("sorted_inputs_memory_mebibytes"),
)
