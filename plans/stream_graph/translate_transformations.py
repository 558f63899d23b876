"""Translate physical transformations to stream nodes, and give stream edges their partitioners."""

import numpy as np
import polars as pl

from penstock.operators.kinds import OPERATOR_KINDS, OperatorKind
from penstock.plans.frames.arrays import Flags, Ints
from penstock.plans.frames.polars_frames import look_up
from penstock.plans.stream_graph.choose_partitioners import (
    ALIGNED,
    CLASSES,
    DEFAULT_SLOT_SHARING_GROUP,
    DEGREES,
    KEYED,
    NO_GROUP,
    PLACES,
    POINTWISE,
    SOURCE_ATTRIBUTES,
    TARGET_ATTRIBUTES,
    UNSPECIFIED_FORWARD,
    inherited_groups,
)
from penstock.plans.stream_graph.resolve_virtual_nodes import OF_DETAILS, is_kind, node_rows
from penstock.plans.stream_graph.transformation_details import DETAILS_TYPE, details_of, has_details
from penstock.plans.tables import STREAM_NODES
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.vocabulary import (
    FORWARD_CLASSES,
    SOURCE_KINDS,
    ChainingStrategy,
    JobType,
    Kind,
    ManagedMemoryUseCase,
    Partitioner,
    StreamExchangeMode,
)

# Partitioners of stream edges, and attributes of the nodes at both ends.


_VERDICTS = ("chainable", "chained_source", "not_chainable_reasons")
_PARTITIONERS = list(Partitioner)
_CLASSES = pl.Series([*(CLASSES[p] for p in _PARTITIONERS), UNSPECIFIED_FORWARD])
_IDS_AT_A_TIME = 1_000_000
_DENSE = 4
_FEW_NUMBERS = 1 << 20


def choose_partitioners(
    resolved_inputs: pl.DataFrame,
    edge_ends: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    job_settings: pl.DataFrame,
    given_stream_edges: pl.DataFrame,
) -> pl.DataFrame:
    """The StreamGraph's edges, each with the attributes of its ends and its job that decide chaining.

    In: resolved_inputs, edge_ends, stream_nodes, job_settings, given_stream_edges (schema STREAM_EDGES; edges
    of topologies given as StreamGraphs, passed on). Out (key topology_id, target, in_index), translated edges
    first: the columns of STREAM_EDGES except the verdicts on chaining, and source_*/target_* attributes of
    the ends, in_degree (edges into the target), input_degree (edges into the same input) and out_degree.

    An edge without a partitioner is forward between equal parallelisms and rebalance otherwise.

    Source: StreamGraph.createActualEdge, StreamEdge, PartitionTransformationTranslator (BATCH exchange counts
    in BATCH mode only), StreamGraphGenerator.generate (unaligned checkpoints).

    Example: tests/passes/fixtures/edges_with_ends.txt.
    """
    settings = job_settings.select(_EDGE_SETTINGS).rechunk()
    count = len(resolved_inputs)
    ends = _attributes(stream_nodes, edge_ends[:count])
    chosen = look_up(resolved_inputs.hstack(ends), settings, {}).with_columns(_CHOICES)
    if not set(OF_DETAILS) & set(resolved_inputs.columns):
        chosen = chosen.with_columns(_WITHOUT_DETAILS)
    translated = chosen.with_columns(*_partitioner_names(chosen), _edge_ids(chosen)).select(_EDGES)
    if given_stream_edges.is_empty():
        return translated
    given_edges = given_edges_with_ends(given_stream_edges, edge_ends[count:], stream_nodes, job_settings)
    return pl.concat([translated, given_edges], rechunk=True)


def given_edges_with_ends(
    given_stream_edges: pl.DataFrame,
    edge_ends: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    job_settings: pl.DataFrame,
) -> pl.DataFrame:
    """The edges of topologies given as StreamGraphs with the columns of choose_partitioners."""
    given_edges = given_stream_edges.drop(_VERDICTS).with_columns(_GIVEN_EDGE_COLUMNS)
    with_attributes = given_edges.hstack(_attributes(stream_nodes, edge_ends))
    with_settings = look_up(with_attributes, job_settings.select(_EDGE_SETTINGS).rechunk(), {})
    return with_settings.select(c if isinstance(c, str) else c.meta.output_name() for c in _EDGES)


def _attributes(nodes: pl.DataFrame, edge_ends: pl.DataFrame) -> list[pl.Series]:
    """Return the attributes of an edge's ends that decide chaining, one column each."""
    return [
        nodes[attribute][edge_ends[f"{end}_row"]].alias(f"{end}_{attribute}")
        for end, attributes in (("source", SOURCE_ATTRIBUTES), ("target", TARGET_ATTRIBUTES))
        for attribute in attributes
    ]


def _choices() -> list[pl.Expr]:
    unspecified_forward = pl.col("source_parallelism") == pl.col("target_parallelism")
    forward, rebalance = (
        pl.lit(_PARTITIONERS.index(p), pl.UInt8) for p in (Partitioner.FORWARD, Partitioner.REBALANCE)
    )
    exchange_mode = pl.col("exchange_mode")
    ignored = ~pl.col("batch") & (exchange_mode == StreamExchangeMode.BATCH)
    return [
        pl.col("partitioner")
        .to_physical()
        .fill_null(pl.when(unspecified_forward).then(forward).otherwise(rebalance))
        .alias("chosen"),
        (pl.col("partitioner").is_null() & unspecified_forward & pl.col("dynamic")).alias("unspecified"),
        pl.when(exchange_mode.is_null() | ignored)
        .then(pl.lit(str(StreamExchangeMode.UNDEFINED)))
        .otherwise(exchange_mode)
        .alias("exchange_mode"),
    ]


def _partitioner_names(edges: pl.DataFrame) -> list[pl.Series]:
    """Return partitioner, partitioner_class, partitioner_key."""
    chosen = edges["chosen"].to_numpy()
    keyed = np.isin(chosen, [_PARTITIONERS.index(p) for p in KEYED])
    classes = np.where(edges["unspecified"].to_numpy(), len(_PARTITIONERS), chosen)
    printed = pl.Series([p.upper() for p in _PARTITIONERS]).gather(chosen)
    keyed_edges = pl.DataFrame([printed.alias("partitioner"), edges["partition"]]).filter(
        pl.Series(values=keyed)
    )
    keys = keyed_edges.select(pl.concat_str("partitioner", "partition", separator="#")).to_series()
    key = np.where(keyed, len(_CLASSES) - 1 + np.cumsum(keyed), classes)
    return [
        printed.alias("partitioner"),
        _CLASSES.gather(classes).alias("partitioner_class"),
        pl.concat([_CLASSES, keys], rechunk=True).gather(key).alias("partitioner_key"),
    ]


def _edge_ids(edges: pl.DataFrame) -> pl.Series:
    """Return edge_id. Each number is converted to text once, because copying the text is faster."""
    highest = edges.select(pl.max_horizontal(pl.col(*_NUMBERS).max())).item() or 0
    if highest < _DENSE * len(edges) + _FEW_NUMBERS:
        known = pl.int_range(highest + 1, eager=True)
    else:  # node ids that a topology sets may be far above their number
        known = pl.concat([edges[name].cast(pl.Int64) for name in _NUMBERS]).unique().sort()
        edges = edges.with_columns(known.search_sorted(edges[name]).alias(name) for name in _NUMBERS)
    numbers = known.cast(pl.String)
    ends = "-" + numbers + "_"
    edge_id = pl.concat_str(
        "source_name",
        pl.lit(ends).gather("source"),
        "target_name",
        pl.lit(ends).gather("target"),
        pl.lit(numbers).gather("type_number"),
        pl.lit(_BETWEEN_NUMBERS).gather("chosen"),
        pl.lit(numbers).gather("unique_id"),
    )
    # In slices: the pieces take twice the memory of the ids.
    starts = range(0, len(edges) or 1, _IDS_AT_A_TIME)
    ids = [edges.slice(start, _IDS_AT_A_TIME).select(edge_id=edge_id).to_series() for start in starts]
    return pl.concat(ids, rechunk=True)


def _is_one_of(*partitioners: Partitioner) -> pl.Expr:
    return pl.any_horizontal(pl.col("chosen") == _PARTITIONERS.index(p) for p in partitioners)


def _edges() -> list[str | pl.Expr]:
    return [
        *PLACES,
        "partitioner",
        "partitioner_class",
        "partitioner_key",
        _is_one_of(*POINTWISE).alias("pointwise"),
        _is_one_of(Partitioner.BROADCAST).alias("broadcast"),
        "exchange_mode",
        "output_tag",
        "selected_names",
        pl.col("source_buffer_timeout").alias("buffer_timeout"),
        (~_is_one_of(*ALIGNED) & pl.col("unaligned_checkpoints")).alias("supports_unaligned_checkpoints"),
        "edge_id",
        "persistent_data_set",
        _is_one_of(Partitioner.FORWARD).alias("forward"),
        *DEGREES,
        *(f"source_{a}" for a in SOURCE_ATTRIBUTES if a != "buffer_timeout"),
        *(f"target_{a}" for a in TARGET_ATTRIBUTES),
        "chaining_enabled",
        "chain_different_max_parallelism",
    ]


def _size_of(*keys: str) -> pl.Expr:
    return pl.len().over(TOPOLOGY, *keys).cast(pl.Int32)


_EDGE_SETTINGS = (
    pl.col(TOPOLOGY),
    pl.col("dynamic"),
    (pl.col("job_type") == JobType.BATCH).alias("batch"),
    pl.col("chaining_enabled"),
    pl.col("chain_different_max_parallelism"),
)
_CHOICES = _choices()
_WITHOUT_DETAILS = (
    pl.lit(value=True).alias("unaligned_checkpoints"),
    pl.lit(None, pl.String).alias("persistent_data_set"),
)
_NUMBERS = ("source", "target", "type_number", "unique_id")
_BETWEEN_NUMBERS = pl.Series([f"_{p.upper()}_" for p in _PARTITIONERS])
_EDGES = _edges()
_GIVEN_EDGE_COLUMNS = (
    pl.col("partitioner_class").is_in(FORWARD_CLASSES).alias("forward"),
    _size_of("target").alias("in_degree"),
    _size_of("target", "type_number").alias("input_degree"),
    _size_of("source").alias("out_degree"),
)


# Slot sharing groups of stream nodes: a node's own, or the group that all of its inputs share.


def inherit_slot_sharing_groups(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame
) -> pl.DataFrame:
    """Return one row per stream node with row (the row of its transformation, ascending) and
    slot_sharing_group.

    A node without inputs and without a group of its own is in "default", as is one whose inputs disagree.

    Source: StreamGraphGenerator.determineSlotSharingGroup.

    Example: tests/passes/fixtures/inherited_groups.txt.
    """
    own_groups = expanded_transformations["slot_sharing_group"]
    default = pl.Series([DEFAULT_SLOT_SHARING_GROUP])
    names = pl.concat([default, own_groups.drop_nulls().unique(maintain_order=True)]).unique(
        maintain_order=True
    )
    numbers = own_groups.cast(pl.Enum(names)).to_physical().cast(pl.Int32).fill_null(NO_GROUP)
    groups = inherited_groups(
        numbers.to_numpy(), *(resolved_inputs[end].to_numpy() for end in ("source_row", "target_row"))
    )
    rows = node_rows(expanded_transformations, resolved_inputs)
    return pl.DataFrame({"row": rows.astype(np.int32), "slot_sharing_group": names.gather(groups[rows])})


# Attributes of stream nodes.


_FACTORIES = {
    "coordinated": ("SourceOperatorFactory", "CollectSinkOperatorFactory"),
    "yielding": ("AsyncWaitOperatorFactory", "SinkWriterOperatorFactory"),
    "input_format": ("SimpleInputFormatOperatorFactory",),
    "output_format": ("SimpleOutputFormatOperatorFactory",),
}
"""Properties of stream nodes, and the factories that have them. Source: the interfaces
CoordinatedOperatorFactory, YieldingOperatorFactory, {Input,Output}FormatOperatorFactory."""


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
    "details",
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

    In: expanded_transformations, job_settings, resolved_inputs, inherited_groups (see
    inherit_slot_sharing_groups), given_stream_nodes (schema STREAM_NODES). Out: stream_nodes, translated
    nodes first, as in inherited_groups. Sources without a reader are left out.

    Source: the translators in org.apache.flink.streaming.runtime.translators, SimpleTransformationTranslator,
    BatchExecutionUtils (keyed operators of BATCH jobs sort their input, head a chain and weigh memory).

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
        .pipe(_with_details)
        .select(_NODES)
    )
    if given_stream_nodes.is_empty():
        return translated
    # In one piece: gathering rows from two chunks is ten times slower.
    return pl.concat([translated, given_stream_nodes.select(STREAM_NODES.names)], rechunk=True)


def _taken(table: pl.DataFrame, rows: Ints) -> pl.DataFrame:
    """Return the chosen rows. Columns without any value, which are frequent, are not gathered."""
    at = pl.Series(rows.astype(np.uint32))
    return pl.DataFrame([c.clear(len(at)) if c.null_count() == len(c) else c.rechunk()[at] for c in table])


def _slot_scopes(nodes: pl.DataFrame, keyed: Flags, rows: Ints) -> pl.Series:
    """Return the slot_scope of each row; keyed operators have a state backend."""
    places = np.where(keyed, len(nodes) - 1 + np.cumsum(keyed), np.arange(len(nodes)))
    with_state_backend = nodes.filter(pl.Series(values=keyed)).select(_WITH_STATE_BACKEND)
    return pl.concat([nodes, with_state_backend], rechunk=True)["slot_scope"].gather(places[rows])


def _with_details(operators: pl.DataFrame) -> pl.DataFrame:
    """Add the keys of DETAILS_TYPE as columns, and the input_requirements of `keyed`."""
    if not has_details(operators):
        absent = (
            pl.lit(None, kind).alias(field)
            for field, kind in DETAILS_TYPE.to_schema().items()
            if field != "keyed"
        )
        return operators.with_columns(*absent, pl.lit(None, _REQUIREMENTS).alias("requirements"))
    details = details_of(operators)
    requirements = [
        None
        if keyed is None
        else [
            {"key": place, "value": "SORTED" if is_keyed else "PASS_THROUGH"}
            for place, is_keyed in enumerate(keyed)
        ]
        for keyed in details["keyed"].to_list()
    ]
    entry = pl.Struct({"key": pl.Int32, "value": pl.String})
    entries = pl.Series("requirements", requirements, pl.List(entry)).cast(_REQUIREMENTS)
    return operators.hstack(details.drop("keyed")).hstack([entries])


def _attribute_of_kind(attribute: str) -> pl.Expr:
    """Return the attribute of OperatorKind for the row's kind."""
    index = OperatorKind._fields.index(attribute)
    values = pl.Series([properties[index] for properties in OPERATOR_KINDS.values()], dtype=pl.String)
    return pl.lit(values).gather(pl.col("kind_number"))


def _node_columns() -> list[pl.Expr]:
    sorts = pl.col("batch") & pl.col("keyed")
    factory = pl.coalesce("operator_factory", _attribute_of_kind("operator_factory"))
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
        "parallelism_configured": pl.col("parallelism").is_not_null()
        & pl.col("parallelism_configured").fill_null(value=True),
        "buffer_timeout": pl.when(pl.col("buffer_timeout") >= 0)
        .then("buffer_timeout")
        .otherwise("job_buffer_timeout"),
        "chaining": pl.when(sorts & heads_instead)
        .then(pl.lit(ChainingStrategy.HEAD.value))
        .otherwise(chaining),
        "source": is_kind(Kind.SOURCE),
        "legacy_source": is_kind(Kind.LEGACY_SOURCE),
        **{
            name: pl.any_horizontal(factory == name_of_factory for name_of_factory in names)
            for name, names in _FACTORIES.items()
        },
        "invokable": _attribute_of_kind("invokable"),
        "operator_factory": factory,
        "operator_class": pl.coalesce("operator_class", _attribute_of_kind("operator_class")),
        "consumes_data_set": pl.when(is_kind(Kind.CACHE_READ)).then("data_set"),
        "no_output_until_end_of_input": pl.lit(False),
        "supports_concurrent_execution_attempts": pl.coalesce(
            "supports_concurrent_execution_attempts", "concurrent_attempts"
        ),
        "managed_memory": pl.when(sorts_with_memory & (pl.col("managed_memory").map.len() == 0))
        .then(pl.concat_list(weight).cast(_WEIGHTS))
        .otherwise("managed_memory"),
        "input_requirements": pl.when(sorts_with_memory)
        .then(pl.coalesce("requirements", pl.lit({0: "SORTED"}, _REQUIREMENTS)))
        .otherwise(pl.lit({}, _REQUIREMENTS)),
        "among_sources": is_kind(*SOURCE_KINDS),
        "keyed": pl.col("keyed"),
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
