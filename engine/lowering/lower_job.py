"""The calls of a script become the job that PyFlink submits: lowered, aligned, fused, translated.

Source: pyflink.datastream.StreamExecutionEnvironment._generate_stream_graph,
pyflink.datastream.DataStream.execute_and_collect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.engine.lowering.align_operators import align_operators
from penstock.engine.lowering.fuse_operators import OPERATOR_FUSING, KnownIds, fuse_operators
from penstock.engine.lowering.generate_stream_graph import StreamGraphGenerator
from penstock.engine.lowering.lost_settings import lost_settings
from penstock.engine.lowering.lower_calls import LoweredCalls
from penstock.engine.lowering.stream_edges import refused
from penstock.engine.runtime.errors import JobCompileError
from penstock.engine.runtime.lowered_transformation import (
    GeneratedGraph,
    LoweredJob,
    LoweredTransformation,
    NotFused,
)
from penstock.engine.runtime.transformations import Call, Transformation, take_ids
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
    align_operators(calls.earlier, {one.id for one in calls.earlier})
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
    reads_cache = any(one.filled for one in submitted.physical.values())
    if not settings["dynamic"] and not reads_cache:
        return submitted, submitted
    return submitted, generate({**settings, "dynamic": False}, True)


def _is_enabled(config: Mapping[str, str]) -> bool:
    try:
        return bool(parse_boolean(config.get(OPERATOR_FUSING, "true")))
    except ValueError as error:
        raise JobCompileError(f"option {OPERATOR_FUSING}: {error}") from error
