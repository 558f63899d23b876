"""The calls of a script become the job that PyFlink submits: lowered, aligned, fused, translated.

Source: pyflink.datastream.StreamExecutionEnvironment._generate_stream_graph,
pyflink.datastream.DataStream.execute_and_collect.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from penstock.engine.run.lowering.fuse_operators import OPERATOR_FUSING, KnownIds, fuse_operators
from penstock.engine.run.lowering.generate_stream_graph import StreamGraphGenerator
from penstock.engine.run.lowering.lower_calls import (
    KEY_BY_MAP,
    KEYED_VALUES,
    PARTITION_CUSTOM_MAP,
    LoweredCalls,
)
from penstock.engine.run.lowering.stream_edges import refused
from penstock.engine.run.runtime.errors import JobCompileError
from penstock.engine.run.runtime.lowered_transformation import (
    GeneratedGraph,
    LostSetting,
    LoweredJob,
    LoweredTransformation,
    NotFused,
)
from penstock.engine.run.runtime.transformations import Call, Transformation, take_ids
from penstock.plans.topology.flink_values import parse_boolean
from penstock.plans.topology.job_settings import read_job_settings
from penstock.plans.topology.setting_refusals import JOB_GRAPH_STEPS, FlinkRefusal


def lower_job(
    name: str,
    roots: Sequence[Transformation],
    config: Mapping[str, str],
    *,
    parallelism: int,
    max_parallelism: int | None,
    known_ids: KnownIds,
    slot_resources: Mapping[str, tuple[Any, ...]],
    planned: Sequence[LoweredTransformation],
    lowers_all: bool,
) -> LoweredJob:
    """The transformations that PyFlink hands to Flink for the calls `roots`, and their StreamGraph.

    If the last of `roots` collects records, only what it reads is fused, and where operators are fused
    everything else leaves the job. `known_ids`: see fuse_operators; `slot_resources`: those of the
    environment's slot sharing groups; `planned`: see LoweredCalls.lower. What calls become is kept with them,
    and read by later jobs and plans, unless one `lowers_all` calls again. Raises JobCompileError for options
    that PyFlink refuses.
    """
    calls = LoweredCalls(lowers_all=lowers_all)
    transformations = calls.lower(roots, planned)
    align_operators(calls.earlier, {operator.id for operator in calls.earlier})
    align_operators(transformations, {id for pair in known_ids for id in pair})
    sink = next((root for root in roots if root.call is Call.COLLECT), None)
    read = None if sink is None else calls.end_of(sink.inputs[0])
    not_fused: list[NotFused] = []
    if _is_enabled(config):
        transformations, read, not_fused = fuse_operators(transformations, read, known_ids)
    if sink is not None and read is not None:
        transformations.append(calls.collect_sink(sink, read))
    if not lowers_all:
        calls.keep()
        if sink is not None and read is not None and sink.inputs[0].call is not Call.KEY_BY:
            sink.inputs[0].lowered = read
    submitted, to_run = _graphs(name, transformations, config, parallelism, max_parallelism, slot_resources)
    return LoweredJob(
        transformations=transformations,
        not_fused=tuple(not_fused),
        lost_settings=lost_settings(transformations),
        submitted=submitted,
        to_run=to_run,
    )


def _graphs(
    name: str,
    transformations: Sequence[LoweredTransformation],
    config: Mapping[str, str],
    parallelism: int,
    max_parallelism: int | None,
    slot_resources: Mapping[str, tuple[Any, ...]],
) -> tuple[GeneratedGraph, GeneratedGraph]:
    try:
        settings = read_job_settings(
            config,
            topology_name=name,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            chaining=True,
            transformations_have_unbounded_source=False,
        )
    except FlinkRefusal as refusal:
        raise refused(name, refusal.error, refusal.flink_message) from refusal
    for row in settings["setting_refusals"]:
        if row["step"] not in JOB_GRAPH_STEPS:
            raise refused(name, row["error"], row["message"])
    next_id = take_ids(0)

    def generate(settings: Mapping[str, Any], runs_here: bool) -> GeneratedGraph:
        generator = StreamGraphGenerator(
            name,
            settings,
            parallelism=parallelism,
            next_id=next_id,
            slot_resources=slot_resources,
            runs_here=runs_here,
        )
        return generator.generate(transformations)

    submitted = generate(settings, False)
    take_ids(submitted.next_id - next_id)
    reads_cache = any(operator.filled for operator in submitted.physical.values())
    if not settings["dynamic"] and not reads_cache:
        return submitted, submitted
    return submitted, generate({**settings, "dynamic": False}, True)


def _is_enabled(config: Mapping[str, str]) -> bool:
    try:
        return bool(parse_boolean(config.get(OPERATOR_FUSING, "true")))
    except ValueError as error:
        raise JobCompileError(f"option {OPERATOR_FUSING}: {error}") from error


# Finds what an author has set on operators that PyFlink fuses away, and so forgets.
#
# Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer.createChainedTransformation, which
# keeps the first operator's uid and hash.


def lost_settings(transformations: Iterable[LoweredTransformation]) -> tuple[LostSetting, ...]:
    """The uids, hashes and names of operators that have become a part of another one, but its first."""
    return tuple(
        LostSetting(
            setting=setting,
            value=str(value),
            name=step.name,
            fused_into=operator.name,
            line=step.call.set_at.get(setting),
        )
        for operator in transformations
        for step in operator.steps[1:]
        if step.call is not None
        for setting in ("uid", "uid_hash", "name")
        if (value := getattr(step.call, setting)) is not None
        and (setting != "name" or setting in step.call.set_at)
    )


# Operators that PyFlink adds for keys get the parallelism and place of those that they belong to.
#
# Source: org.apache.flink.python.util.PythonConfigUtil.{configPythonOperator,alignTransformation}.


def align_operators(
    transformations: Iterable[LoweredTransformation], aligned_before: Container[int] = ()
) -> None:
    """Align what `transformations`, a list of the environment, has; Python operators declare their memory.

    An operator is known by its name. If its author has changed the name, it is not aligned, as in PyFlink.
    Those of the ids `aligned_before` have their partitions already, which take no new ids.
    """
    for operator in transformations:
        if operator.inputs:
            upstream = operator.inputs[0]
            if upstream.name == KEYED_VALUES:
                _require_input(
                    operator, f"the reader of {KEYED_VALUES!r}: put a map between partition_custom() and"
                )
                _take_place_of(upstream, operator)
                _read_forward(
                    operator, upstream, -operator.id if operator.id in aligned_before else take_ids()
                )
            if operator.name in (KEY_BY_MAP, PARTITION_CUSTOM_MAP):
                _require_input(operator, "named like an operator of PyFlink's own: give another name to")
                _take_place_of(operator, upstream)
                _read_forward(
                    operator, upstream, -operator.id if operator.id in aligned_before else take_ids()
                )
        if operator.python is not None:
            operator.slot_scope.add("PYTHON")


def _require_input(reader: LoweredTransformation, why: str) -> None:
    """PyFlink sets a field `input`, which transformations of several inputs do not have."""
    if reader.kind in ("two_input", "multi_input", "union", "cache"):
        raise JobCompileError(f"PyFlink fails on {reader.name!r}, which is {why} {reader.name!r}")


def _take_place_of(operator: LoweredTransformation, other: LoweredTransformation) -> None:
    if other.slot_sharing_group is not None:
        operator.slot_sharing_group, operator.slot_resources = other.slot_sharing_group, other.slot_resources
    operator.co_location_group = other.co_location_group
    operator.parallelism, operator.parallelism_configured = other.parallelism, False


def _read_forward(reader: LoweredTransformation, upstream: LoweredTransformation, partition: int) -> None:
    """Let `reader` read its first input, `upstream`, through a forward partition of the id `partition`.

    Sinks of the Sink V2 API do not look at it.
    """
    reader.inputs[0] = LoweredTransformation(
        id=partition,
        kind="partition",
        name="Partition",
        inputs=[upstream],
        parallelism=upstream.parallelism,
        output_type=upstream.output_type,
        partitioner="forward" if reader.commits is None else None,
    )
