"""Physical transformations become stream nodes."""

import polars as pl

from operators.kinds import OPERATOR_KINDS, OperatorKind
from plans.columnar.frames import TOPOLOGY, rename
from plans.columnar.look_up import look_up
from plans.schema import STREAM_NODES
from plans.stream_graph.inherit_slot_sharing_groups import DEFAULT_SLOT_SHARING_GROUP
from plans.vocabulary import SOURCE_KINDS, ChainingStrategy, JobType, Kind, ManagedMemoryUseCase

_KIND = pl.col("kind")
_KIND_NUMBER = _KIND.cast(pl.Enum(list(OPERATOR_KINDS))).to_physical()
_IS_NODE = pl.col("read") | _KIND.is_in(sorted(OPERATOR_KINDS.keys() - SOURCE_KINDS))
_WEIGHTS = pl.Map(pl.String, pl.Int32)
_REQUIREMENTS = pl.Map(pl.Int32, pl.String)


def translate_nodes(
    transformations: pl.DataFrame,
    job_settings: pl.DataFrame,
    resolved_inputs: pl.DataFrame,
    inherited_groups: pl.DataFrame,
    given_stream_nodes: pl.DataFrame,
) -> pl.DataFrame:
    """The StreamGraph's nodes; nodes of topologies given as StreamGraphs are passed on.

    As plans.stream_graph.translate_nodes.
    """
    # A node's first output edge says that it is read, its first input edge whether it is keyed.
    read = resolved_inputs.filter(pl.col("out_index") == 0).select(TOPOLOGY, "source", read=True)
    keyed = resolved_inputs.filter(pl.col("keyed") & (pl.col("in_index") == 0))
    operators = look_up(transformations, read, {"id": "source"}).filter(_IS_NODE)
    groups = rename(inherited_groups, id="id", effective_group="slot_sharing_group")
    with_keys = look_up(operators, keyed.select(TOPOLOGY, "target", "keyed"), {"id": "target"})
    with_groups = look_up(with_keys, groups, {"id": "id"})
    with_settings = look_up(with_groups, job_settings.select(_SETTINGS), {})
    translated = with_settings.select(_NODES)
    if given_stream_nodes.is_empty():
        return translated
    # In one piece: rows are gathered from these columns, ten times slower from two.
    return pl.concat([translated, given_stream_nodes.select(STREAM_NODES.names)], rechunk=True)


def _of_kind(attribute: str) -> pl.Expr:
    """The attribute of OperatorKind that belongs to the row's kind."""
    index = OperatorKind._fields.index(attribute)
    values = pl.Series([properties[index] for properties in OPERATOR_KINDS.values()], dtype=pl.String)
    return pl.lit(values).gather(_KIND_NUMBER)


def _node_columns() -> list[pl.Expr]:
    keyed = pl.col("keyed").fill_null(False)
    sorts = pl.col("batch") & keyed
    chaining = pl.coalesce("chaining", _of_kind("chaining"))
    heads_instead = chaining.is_in([ChainingStrategy.ALWAYS.value, ChainingStrategy.HEAD_WITH_SOURCES.value])
    sorts_with_memory = sorts & pl.col("sort_inputs")
    weight = pl.struct(
        pl.lit(ManagedMemoryUseCase.OPERATOR.value).alias("key"),
        pl.col("sorted_inputs_memory_mebibytes").alias("value"),
    )
    state_backend = pl.lit([ManagedMemoryUseCase.STATE_BACKEND.value], pl.List(pl.String))
    columns = {
        "name": pl.concat_str(_of_kind("name_prefix"), "name"),
        "parallelism": pl.coalesce("parallelism", "job_parallelism"),
        "max_parallelism": pl.coalesce("max_parallelism", "job_max_parallelism"),
        "parallelism_configured": pl.col("parallelism").is_not_null(),
        "slot_sharing_group": pl.col("effective_group").fill_null(DEFAULT_SLOT_SHARING_GROUP),
        "buffer_timeout": pl.when(pl.col("buffer_timeout") >= 0)
        .then("buffer_timeout")
        .otherwise("job_buffer_timeout"),
        "chaining": pl.when(sorts & heads_instead)
        .then(pl.lit(ChainingStrategy.HEAD.value))
        .otherwise(chaining),
        "source": _KIND == Kind.SOURCE,
        "legacy_source": _KIND == Kind.LEGACY_SOURCE,
        "yielding": _KIND == Kind.ASYNC,
        "coordinated": _KIND == Kind.SOURCE,
        "invokable": _of_kind("invokable"),
        "operator_factory": _of_kind("operator_factory"),
        "input_format": pl.lit(False),
        "output_format": pl.lit(False),
        "no_output_until_end_of_input": pl.lit(False),
        "supports_concurrent_execution_attempts": pl.lit(True),
        "managed_memory": pl.when(sorts_with_memory & (pl.col("managed_memory").map.len() == 0))
        .then(pl.concat_list(weight).cast(_WEIGHTS))
        .otherwise("managed_memory"),
        "slot_scope": pl.when(keyed)
        .then(pl.col("slot_scope").list.concat(state_backend).list.unique(maintain_order=True))
        .otherwise("slot_scope"),
        "input_requirements": pl.when(sorts_with_memory)
        .then(pl.lit({0: "SORTED"}, _REQUIREMENTS))
        .otherwise(pl.lit({}, _REQUIREMENTS)),
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
