"""Topologies that Flink refuses while it translates transformations."""

import polars as pl

from penstock.operators.kinds import OPERATOR_KINDS
from penstock.plans.errors import ILLEGAL_ARGUMENT, ILLEGAL_STATE, UNSUPPORTED_OPERATION
from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.frames.polars_refusals import (
    NO_REASON,
    first_refusals,
    refusals,
    refused_settings,
    settings_refused_at,
)
from penstock.plans.stream_graph.not_chainable_reasons import NotChainableReason
from penstock.plans.stream_graph.transformation_details import has_details
from penstock.plans.tables.column_types import TOPOLOGY
from penstock.plans.topology.job_settings import SettingStep
from penstock.plans.vocabulary import SOURCE_KINDS, VIRTUAL_KINDS, JobType, Kind, Layer, ManagedMemoryUseCase

# The point of the translation at which Flink reads each setting.


MAX_PARALLELISM, BEFORE_INPUTS, INPUT_COUNT, EDGES, TIMEOUT, UID, MEMORY = range(7)
"""The steps of the translation of one operator; its inputs are translated before the third."""

AFTER_ALL = 2**31 - 1
"""Precedence of settings that Flink reads after all operators; others have an operator's id."""

CACHED_FILES, CHAINING, CHAINED_MAX_PARALLELISM = range(3)
STEP_OF_OPERATOR = {
    SettingStep.MAX_PARALLELISM: MAX_PARALLELISM,
    SettingStep.BUFFER_TIMEOUT: TIMEOUT,
    SettingStep.AUTO_GENERATE_UIDS: UID,
}
CHAINING_UNREAD = (NotChainableReason.SEVERAL_INPUTS,)
"""Reasons for which Flink skips the check whether chaining is enabled."""

MAX_PARALLELISM_UNREAD = (
    NotChainableReason.CHAINING_DISABLED,
    NotChainableReason.DIFFERENT_SLOT_SHARING_GROUP,
    NotChainableReason.YIELDING_BEHIND_LEGACY_SOURCE,
)
"""Reasons for which Flink skips the check whether operators of different max parallelism may chain."""


# Settings that Flink refuses while it translates transformations, and the point at which it reads them.


_STEP = pl.col("step")


def _refuse_settings_of_transformations(
    transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> list[pl.DataFrame]:
    """The reasons that refused settings give where Flink reads them for transformations.

    Source: the options that the translators and StreamGraphGenerator.generate read (see SettingStep).
    """
    settings = refused_settings(job_settings)
    if settings.is_empty():
        return []
    return [
        refuse_operator_settings(transformations, resolved_inputs, settings),
        _refuse_input_settings(transformations, resolved_inputs, settings),
        _refuse_cached_files(settings),
    ]


def refuse_settings_of_edges(stream_edges: pl.DataFrame, job_settings: pl.DataFrame) -> list[pl.DataFrame]:
    """The reasons that refused settings give where Flink reads them for edges."""
    settings = refused_settings(job_settings)
    return [] if settings.is_empty() else [_refuse_edge_settings(stream_edges, settings)]


def refuse_operator_settings(
    transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, settings: pl.DataFrame
) -> pl.DataFrame:
    """Refuse settings that Flink reads for an operator that does not set the value itself."""
    reads = (
        ((_STEP == SettingStep.MAX_PARALLELISM) & pl.col("max_parallelism").is_null())
        | ((_STEP == SettingStep.BUFFER_TIMEOUT) & (pl.col("buffer_timeout").fill_null(-1) < 0))
        | (_STEP == SettingStep.AUTO_GENERATE_UIDS)
    )
    operators = transformations.select(
        TOPOLOGY, "id", "transformation", "kind", "max_parallelism", "buffer_timeout"
    ).filter(pl.col("kind").is_in(list(OPERATOR_KINDS)))
    read = _joined(operators, settings).filter(reads)
    uses = resolved_inputs.filter(pl.col("out_index") == 0).select(TOPOLOGY, "source", "target", "in_index")
    placed = _with_target_transformation(join_topology(read, uses, {"id": "source"}, "left"), transformations)
    is_source = pl.col("kind").is_in(sorted(SOURCE_KINDS))
    own_step = _STEP.replace_strict(
        {str(step): place for step, place in STEP_OF_OPERATOR.items()}, return_dtype=pl.Int32
    )
    order = [
        pl.when(is_source).then("target_transformation").otherwise("transformation"),
        pl.when(is_source).then("target").otherwise("id"),
        pl.when(is_source).then(BEFORE_INPUTS).otherwise(own_step),
        pl.when(is_source).then("in_index").otherwise(0),
        own_step,
    ]
    translated = placed.filter(~is_source | pl.col("target").is_not_null())
    return settings_refused_at(translated, Layer.STREAM_GRAPH, order)


def _refuse_input_settings(
    transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, settings: pl.DataFrame
) -> pl.DataFrame:
    """Refuse settings read for inputs.

    Virtual transformations have no max parallelism of their own; keyed inputs are sorted in memory.
    """
    virtual = (
        pl.col("partitioner").is_not_null()
        | pl.col("output_tag").is_not_null()
        | pl.col("selected_names").is_not_null()
        | (pl.col("input_degree") > 1)
    )
    is_max_parallelism, is_memory = (
        step == _STEP for step in (SettingStep.MAX_PARALLELISM, SettingStep.SORTED_INPUTS_MEMORY)
    )
    inputs = resolved_inputs.select(TOPOLOGY, "target", "in_index", "keyed", virtual.alias("virtual"))
    read = _joined(inputs, settings).filter(
        (is_max_parallelism & pl.col("virtual")) | (is_memory & pl.col("keyed"))
    )
    order = [
        pl.col("target_transformation"),
        pl.col("target"),
        pl.when(is_max_parallelism).then(BEFORE_INPUTS).otherwise(MEMORY),
        pl.when(is_max_parallelism).then("in_index").otherwise(0),
        pl.lit(MAX_PARALLELISM),
    ]
    placed = _with_target_transformation(read, transformations)
    return settings_refused_at(placed, Layer.STREAM_GRAPH, order)


def _refuse_cached_files(settings: pl.DataFrame) -> pl.DataFrame:
    read = settings.filter(_STEP == SettingStep.CACHED_FILES)
    return settings_refused_at(read, Layer.STREAM_GRAPH, [pl.lit(AFTER_ALL), pl.lit(CACHED_FILES)])


def _refuse_edge_settings(stream_edges: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    is_chaining, is_max_parallelism = (
        step == _STEP for step in (SettingStep.OPERATOR_CHAINING, SettingStep.CHAIN_DIFFERENT_MAX_PARALLELISM)
    )
    read = _joined(stream_edges.select(TOPOLOGY, "not_chainable_reasons"), settings).filter(
        ~_has_reason(CHAINING_UNREAD)
        & (is_chaining | (is_max_parallelism & ~_has_reason(MAX_PARALLELISM_UNREAD)))
    )
    order = [pl.lit(AFTER_ALL), pl.when(is_chaining).then(CHAINING).otherwise(CHAINED_MAX_PARALLELISM)]
    return settings_refused_at(read, Layer.STREAM_GRAPH, order)


def _with_target_transformation(rows: pl.DataFrame, nodes: pl.DataFrame) -> pl.DataFrame:
    """Add `target_transformation`, the transformation from which Flink creates the target.

    Flink translates all operators of a sink together with the sink, regardless of their ids.
    """
    origins = nodes.select(TOPOLOGY, "id", target_transformation="transformation")
    return join_topology(rows, origins, {"target": "id"}, "left")


def _joined(rows: pl.DataFrame, settings: pl.DataFrame) -> pl.DataFrame:
    """Repeat each row for each refused setting of its topology."""
    return rows.join(settings, on=TOPOLOGY)


def _has_reason(reasons: tuple[NotChainableReason, ...]) -> pl.Expr:
    listed = pl.col("not_chainable_reasons").cast(pl.List(pl.String))
    return pl.any_horizontal(listed.list.contains(reason.value) for reason in reasons)


# Messages for topologies whose StreamGraph Flink refuses.


MAX_INPUTS = 63
FORWARD_CHANGES_PARALLELISM = (
    "Forward partitioning does not allow change of parallelism. Upstream operation: ",
    " parallelism: ",
    ", downstream operation: ",
    " parallelism: ",
    " You must use another partitioning strategy, such as broadcast, rebalance, shuffle or global.",
)
"""The text before, between and after the operations and their parallelisms."""
MISSING_UID = "Auto generated UIDs have been disabled but no UID or hash has been assigned to operator "
STEP_HAS_UID = (
    "Sink ",
    " requires to set a uid since its customized topology has set uid for some operators.",
)
"""The text before and after the name of the sink."""
TWO_RESOURCES = (
    "The slot sharing group ",
    " has been configured with two different resource spec.",
)
"""The text before and after the name of the group."""
CACHES_OPERATORS = "Cache can only be called with physical transformation or side output transformation"
TOO_MANY_INPUTS = f"Only up to {MAX_INPUTS} inputs are supported at once, while encountered "
CONFLICTING_WEIGHTS = (
    "Conflict managed memory consumer weights for 'OPERATOR' were configured: '",
    "' and '",
    "'.",
)
"""The text before, between and after the weights."""


_INPUTS = pl.col("inputs").list.len()
_TOO_MANY_INPUTS = (pl.col("kind") == Kind.MULTI_INPUT) & (_INPUTS > MAX_INPUTS)
_CHANGES_PARALLELISM = (pl.col("partitioner") == "FORWARD") & (
    pl.col("source_parallelism") != pl.col("target_parallelism")
)
_EDGE_COLUMNS = (
    TOPOLOGY,
    "source",
    "target",
    "in_index",
    "partitioner",
    "edge_id",
    "source_name",
    "source_parallelism",
    "target_name",
    "target_parallelism",
)
_STRICT = ~pl.col("auto_generate_uids")
_SORTS = (pl.col("job_type") == JobType.BATCH) & pl.col("sort_inputs")
_WEIGHS = pl.col("managed_memory").map.len() > 0
_TRANSFORMATION = pl.concat_str(pl.lit("transformation "), "transformation")


def refuse_transformations(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The reasons (see refusals) that transformations give before there are nodes and edges.

    A separate pass, so that nothing reads `transformations` once its nodes are created.
    """
    return pl.concat(
        [
            missing_uids(expanded_transformations, resolved_inputs, job_settings),
            _uids_of_steps(expanded_transformations),
            _too_many_inputs(expanded_transformations),
            _caches_of_virtual(expanded_transformations),
            _two_resources(expanded_transformations),
            _conflicting_weights(expanded_transformations, resolved_inputs, job_settings),
            *_refuse_settings_of_transformations(expanded_transformations, resolved_inputs, job_settings),
        ]
    )


def refuse_stream_graphs(
    transformation_reasons: pl.DataFrame,
    stream_nodes: pl.DataFrame,
    marked_edges: pl.DataFrame,
    stream_edges: pl.DataFrame,
    job_settings: pl.DataFrame,
) -> pl.DataFrame:
    """One row per refused topology (see first_refusals).

    In: transformation_reasons (see refuse_transformations), stream_nodes, marked_edges, stream_edges,
    job_settings. Flink translates operators in creation order, the sources of each just before it; the first
    reason in this order counts.

    Source: StreamGraph.createActualEdge, SinkTransformationTranslator.SinkExpander,
    StreamGraphUtils.validateTransformationUid, MultipleInputSelectionHandler.checkSupportedInputCount,
    ManagedMemoryUtils.validateUseCaseWeightsNotConflict.

    Example: tests/passes/fixtures/stream_graph_refusals.txt.
    """
    return first_refusals(
        [
            transformation_reasons,
            forward_changes(marked_edges, stream_nodes),
            *refuse_settings_of_edges(stream_edges, job_settings),
        ]
    )


def forward_changes(marked_edges: pl.DataFrame, stream_nodes: pl.DataFrame) -> pl.DataFrame:
    """The reasons that forward edges between different parallelisms are."""
    changes = marked_edges.select(_EDGE_COLUMNS).filter(_CHANGES_PARALLELISM)
    if changes.is_empty():
        return NO_REASON
    changes = _with_target_transformation(changes, stream_nodes)
    before, source_text, downstream, target_text, after = map(pl.lit, FORWARD_CHANGES_PARALLELISM)
    message = pl.concat_str(
        before,
        pl.concat_str("source_name", "source", separator="-"),
        source_text,
        "source_parallelism",
        downstream,
        pl.concat_str("target_name", "target", separator="-"),
        target_text,
        "target_parallelism",
        after,
    )
    turn = pl.coalesce("target_transformation", "target")
    order = [turn, pl.col("target"), pl.lit(EDGES), pl.col("in_index")]
    location = pl.concat_str(pl.lit("edge "), "edge_id")
    return refusals(changes, Layer.STREAM_GRAPH, order, UNSUPPORTED_OPERATION, message, location)


def missing_uids(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    """The reasons that operators without a uid are where each needs one."""
    strict = job_settings.filter(_STRICT).select(TOPOLOGY)
    if strict.is_empty():
        return NO_REASON
    kind = pl.col("kind")
    named = expanded_transformations.select(
        TOPOLOGY, "id", "transformation", "kind", "name", "uid", "uid_hash"
    )
    missing = join_topology(named, strict, {}, "semi").filter(
        kind.is_in(list(OPERATOR_KINDS)) & pl.col("uid").is_null() & pl.col("uid_hash").is_null()
    )
    uses = resolved_inputs.filter(pl.col("out_index") == 0).select(TOPOLOGY, "source", "target", "in_index")
    placed = _with_target_transformation(
        join_topology(missing, uses, {"id": "source"}, "left"), expanded_transformations
    )
    is_source = kind.is_in(sorted(SOURCE_KINDS))
    message = pl.concat_str(pl.lit(MISSING_UID), "name")
    order = [
        pl.when(is_source).then("target_transformation").otherwise("transformation"),
        pl.when(is_source).then("target").otherwise("id"),
        pl.when(is_source).then(BEFORE_INPUTS).otherwise(UID),
        pl.when(is_source).then("in_index").otherwise(0),
        pl.lit(UID),
    ]
    translated = placed.filter(~is_source | pl.col("target").is_not_null())
    return refusals(translated, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _TRANSFORMATION)


def _uids_of_steps(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    """Refuse sinks whose steps have uids although the sink, and so its writer, has none."""
    is_writer = pl.col("kind") == Kind.WRITER
    of_sinks = expanded_transformations.filter(is_writer).select(TOPOLOGY, "transformation")
    rows = expanded_transformations.filter(pl.col("kind") != Kind.UNION)
    steps = join_topology(rows, of_sinks, {"transformation": "transformation"}, "semi")
    with_uid = steps.filter((pl.col("kind") == Kind.ONE_INPUT) & (pl.col("uid") != ""))
    writers = steps.filter(is_writer & pl.col("uid").is_null())
    if with_uid.is_empty() or writers.is_empty():
        return NO_REASON
    refused = join_topology(writers, with_uid, {"transformation": "transformation"}, "semi")
    physical = steps.filter(pl.col("kind") != Kind.PARTITION)
    first = physical.group_by(TOPOLOGY, "transformation").agg(first=pl.col("id").min())
    sinks = expanded_transformations.filter(pl.col("kind") == Kind.UNION).select(
        TOPOLOGY, "transformation", sink_name="name"
    )
    rows = join_topology(
        join_topology(
            refused.select(TOPOLOGY, "transformation"), first, {"transformation": "transformation"}
        ),
        sinks,
        {"transformation": "transformation"},
    )
    before, after = map(pl.lit, STEP_HAS_UID)
    message = pl.concat_str(before, "sink_name", after)
    order = [pl.col("transformation"), pl.col("first"), pl.lit(INPUT_COUNT), pl.lit(0)]
    return refusals(rows, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _TRANSFORMATION)


def _caches_of_virtual(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    """Refuse caches of streams that Flink's API cannot cache (SingleOutputStreamOperator.cache)."""
    caches = expanded_transformations.filter(pl.col("kind").is_in([Kind.CACHE, Kind.CACHE_WRITE]))
    if caches.is_empty():
        return NO_REASON
    virtual = VIRTUAL_KINDS - {Kind.SIDE_OUTPUT, Kind.CACHE}
    refused_inputs = expanded_transformations.filter(pl.col("kind").is_in(sorted(virtual)))
    read = caches.select(TOPOLOGY, "transformation", input=pl.col("inputs").list.first())
    rows = join_topology(read, refused_inputs.select(TOPOLOGY, "id"), {"input": "id"}, "semi")
    order = [pl.lit(-1), pl.col("transformation"), pl.lit(INPUT_COUNT), pl.lit(0)]
    return refusals(rows, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, pl.lit(CACHES_OPERATORS), _TRANSFORMATION)


def _two_resources(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    if not has_details(expanded_transformations):
        return NO_REASON
    return different_resources(with_resources(expanded_transformations))


def with_resources(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    """Return the rows that give their slot sharing group `resources`."""
    resources = pl.col("details").str.json_path_match("$.slot_resources")
    return expanded_transformations.select(
        TOPOLOGY, "id", "transformation", "position", "slot_sharing_group", resources=resources
    ).drop_nulls("resources")


def different_resources(given: pl.DataFrame) -> pl.DataFrame:
    """Refuse slot sharing groups with different resources (StreamGraphGenerator.translate).

    In: rows of with_resources.
    """
    first = pl.col("resources").first().over(TOPOLOGY, "slot_sharing_group")
    refused = given.sort(TOPOLOGY, "position").filter(pl.col("resources") != first)
    before, after = map(pl.lit, TWO_RESOURCES)
    message = pl.concat_str(before, "slot_sharing_group", after)
    order = [pl.col("transformation"), pl.col("id"), pl.lit(INPUT_COUNT), pl.lit(0)]
    return refusals(refused, Layer.STREAM_GRAPH, order, ILLEGAL_ARGUMENT, message, _TRANSFORMATION)


def _too_many_inputs(expanded_transformations: pl.DataFrame) -> pl.DataFrame:
    wide = expanded_transformations.select(TOPOLOGY, "id", "transformation", "kind", "inputs").filter(
        _TOO_MANY_INPUTS
    )
    message = pl.concat_str(pl.lit(TOO_MANY_INPUTS), _INPUTS)
    order = [pl.col("transformation"), pl.col("id"), pl.lit(INPUT_COUNT), pl.lit(0)]
    return refusals(wide, Layer.STREAM_GRAPH, order, ILLEGAL_ARGUMENT, message, _TRANSFORMATION)


def _conflicting_weights(
    expanded_transformations: pl.DataFrame, resolved_inputs: pl.DataFrame, job_settings: pl.DataFrame
) -> pl.DataFrame:
    memory = pl.col("sorted_inputs_memory_mebibytes")
    sorting = job_settings.filter(_SORTS).select(TOPOLOGY, memory)
    if sorting.is_empty():
        return NO_REASON
    own = pl.col("managed_memory").map.get(ManagedMemoryUseCase.OPERATOR.value)
    weighing = expanded_transformations.select(TOPOLOGY, "id", "transformation", "managed_memory").filter(
        _WEIGHS
    )
    conflicting = join_topology(weighing, sorting, {}).filter(own != memory)
    keyed = resolved_inputs.filter("keyed").select(TOPOLOGY, "target")
    conflicts = join_topology(conflicting, keyed, {"id": "target"}, "semi")
    before, between, after = map(pl.lit, CONFLICTING_WEIGHTS)
    message = pl.concat_str(before, memory, between, own, after)
    order = [pl.col("transformation"), pl.col("id"), pl.lit(MEMORY), pl.lit(0)]
    return refusals(conflicts, Layer.STREAM_GRAPH, order, ILLEGAL_STATE, message, _TRANSFORMATION)
