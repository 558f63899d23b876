"""Turn the calls of a script into the job that PyFlink submits: lowered, aligned, fused, translated.

Source: pyflink.datastream.StreamExecutionEnvironment._generate_stream_graph,
pyflink.datastream.DataStream.execute_and_collect.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from penstock.engine.run.lowering.lower_calls import (
    KEY_BY_MAP,
    KEYED_VALUES,
    PARTITION_CUSTOM_MAP,
    LoweredCalls,
)
from penstock.engine.run.lowering.plan_job import generate_stream_graph
from penstock.engine.run.lowering.transformations import (
    RUNTIME_MODE,
    Call,
    GeneratedGraph,
    LostSetting,
    LoweredJob,
    LoweredTransformation,
    PythonOperator,
    Transformation,
    UnfusedPair,
    take_ids,
)
from penstock.plans.errors import JobCompileError
from penstock.plans.topology.flink_options import SCHEDULER, parse_boolean
from penstock.plans.vocabulary import JobType

# Consecutive Python operators are fused into one, which runs in one Python process.
#
# Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer, and
# org.apache.flink.api.common.operators.ResourceSpec.merge.


#: The kinds of operators that a process operator may be fused with; a window only in thread mode, in which
#: it has its own kind.
_CARRIERS = frozenset(PythonOperator) - {PythonOperator.BROADCAST}

#: PythonOptions.PYTHON_OPERATOR_CHAINING_ENABLED.
_OPERATOR_FUSING = "python.operator-chaining.enabled"

Outputs = dict[int, dict[int, LoweredTransformation]]

#: Ids of fused operators, by the ids of the two that were fused.
KnownIds = dict[tuple[int, int], int]


def _fuse_operators(
    transformations: Sequence[LoweredTransformation],
    target: LoweredTransformation | None,
    known_ids: KnownIds,
) -> tuple[list[LoweredTransformation], LoweredTransformation | None, list[UnfusedPair]]:
    """Fuse operators; return the list of transformations, the fused `target`, and the pairs not fused.

    `known_ids`: ids of the fused operators that an earlier plan of the same job has made of the same pairs.
    With `target`, only the operators that it reads are fused, and all others leave the list
    (execute_and_collect).
    """
    outputs = _outputs(transformations)
    fused: dict[int, LoweredTransformation] = {}
    done: set[int] = set()
    parts: dict[int, int] = {}
    not_fused: list[UnfusedPair] = []
    waiting = deque(transformations if target is None else [target])
    while waiting:
        operator = waiting.popleft()
        if operator.id in done:
            continue
        done.add(operator.id)
        upstream = _python_input(operator)
        reasons = [] if upstream is None else _reasons_against(upstream, operator, outputs)
        result = operator
        if upstream is not None and not reasons:
            result = _fused(upstream, operator, known_ids)
            for reader in outputs.get(operator.id, {}).values():
                _replace_input(reader, operator, result)
            if operator.id in outputs:
                outputs[result.id] = outputs[operator.id]
        elif upstream is not None:
            not_fused.append(UnfusedPair(source=upstream.id, target=operator.id, reasons=tuple(reasons)))
        fused.setdefault(result.id, result)
        if result is not operator:
            assert upstream is not None
            for old in (upstream, operator):
                fused.pop(old.id, None)
                done.add(old.id)
                parts[old.id] = result.id
            if operator is target:
                target = result
        waiting.append(result)
        waiting.extend(result.inputs)
    return list(fused.values()), target, _between_whole_operators(not_fused, parts)


def _between_whole_operators(not_fused: Iterable[UnfusedPair], parts: dict[int, int]) -> list[UnfusedPair]:
    """Rename the operators of `not_fused` to those after fusing; `parts`: fused operator by part."""

    def whole(operator_id: int) -> int:
        while operator_id in parts:
            operator_id = parts[operator_id]
        return operator_id

    ends = {(whole(pair.source), whole(pair.target)): pair.reasons for pair in not_fused}
    return [
        UnfusedPair(source=source, target=target, reasons=reasons)
        for (source, target), reasons in ends.items()
    ]


def _outputs(transformations: Iterable[LoweredTransformation]) -> Outputs:
    """Return the readers of each transformation, by id."""
    outputs: Outputs = {}
    waiting, seen = deque(transformations), set()
    while waiting:
        reader = waiting.popleft()
        if reader.id not in seen:
            seen.add(reader.id)
            for read in reader.inputs:
                outputs.setdefault(read.id, {})[reader.id] = reader
            waiting.extend(reader.inputs)
    return outputs


def _python_input(operator: LoweredTransformation) -> LoweredTransformation | None:
    """Return the Python operator that `operator` reads, directly or through forward partitions; None unless
    both are Python operators and `operator` has one input.
    """
    if operator.python is None or operator.kind != "one_input":
        return None
    upstream = operator.inputs[0]
    while upstream.python is None:
        if upstream.kind != "partition" or upstream.partitioner != "forward":
            return None
        upstream = upstream.inputs[0]
    return upstream


def _reasons_against(up: LoweredTransformation, down: LoweredTransformation, outputs: Outputs) -> list[str]:
    reasons = []
    if up.parallelism != down.parallelism:
        reasons.append(f"parallelism {up.parallelism} and {down.parallelism}")
    if up.max_parallelism != down.max_parallelism:
        reasons.append(f"max parallelism {up.max_parallelism} and {down.max_parallelism} (-1: not set)")
    groups = [(operator.slot_sharing_group is None, operator.slot_resources) for operator in (up, down)]
    if groups[0] != groups[1]:  # SlotSharingGroup.equals does not look at names
        names = [operator.slot_sharing_group or "not set" for operator in (up, down)]
        reasons.append(f"slot sharing group {names[0]} and {names[1]}")
    if up.chaining == "NEVER":
        reasons.append(f"chaining is disabled for {up.name}")
    if down.chaining != "ALWAYS":
        reasons.append(f"{down.name} starts a chain (chaining strategy {down.chaining})")
    if up.python not in _CARRIERS:
        reasons.append(f"{up.name} has broadcast state: no operator is fused with it")
    if up.thread_mode != down.thread_mode:
        modes = ["thread" if operator.thread_mode else "process" for operator in (up, down)]
        reasons.append(f"execution mode {modes[0]} and {modes[1]}")
    if down.python is not PythonOperator.PROCESS:
        reasons.append(f"{down.name} is a {down.python} operator, which is never fused with the one before")
    readers = len(outputs.get(up.id, (down,)))  # PyFlink fails if an earlier job has run both
    if readers != 1:
        reasons.append(f"{up.name} has {readers} readers")
    return reasons


def _fused(
    up: LoweredTransformation, down: LoweredTransformation, known_ids: KnownIds
) -> LoweredTransformation:
    if (up.id, down.id) not in known_ids:
        known_ids[up.id, down.id] = take_ids()
    weights = dict(up.managed_memory)
    for use_case, weight in down.managed_memory.items():
        weights[use_case] = weight + weights.get(use_case, 0)
    descriptions = [operator.description for operator in (up, down) if operator.description is not None]
    return LoweredTransformation(
        id=known_ids[up.id, down.id],
        kind=up.kind,
        name=f"{up.name}, {down.name}",
        inputs=list(up.inputs),
        description=", ".join(descriptions) if descriptions else None,
        parallelism=up.parallelism,
        max_parallelism=up.max_parallelism,
        slot_sharing_group=up.slot_sharing_group,
        slot_resources=up.slot_resources,
        co_location_group=up.co_location_group,
        uid=up.uid,
        uid_hash=up.uid_hash,
        buffer_timeout=min(up.buffer_timeout, down.buffer_timeout),
        chaining=up.chaining,
        managed_memory=weights,
        slot_scope=up.slot_scope | down.slot_scope,
        min_resources=_merged(up.min_resources, down.min_resources),
        preferred_resources=_merged(up.preferred_resources, down.preferred_resources),
        python=up.python,
        thread_mode=up.thread_mode,
        keyed_inputs=up.keyed_inputs,
        output_type=down.output_type,
        steps=up.steps + down.steps,
    )


def _merged(resources: dict[str, Any] | None, other: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the sum of two resources; None if one of them is unknown."""
    if resources is None or other is None:
        return None
    return {key: resources.get(key, 0) + other.get(key, 0) for key in {**resources, **other}}


def _replace_input(
    reader: LoweredTransformation, old: LoweredTransformation, new: LoweredTransformation
) -> None:
    if reader.kind == "cache" or reader.python is PythonOperator.BROADCAST:
        reader_name = (
            "cache()" if reader.kind == "cache" else f"{reader.name!r}, which reads a broadcast stream"
        )
        raise JobCompileError(
            f"PyFlink fuses {new.name!r}, and fails to connect it with {reader_name}: set "
            f"{_OPERATOR_FUSING} to false, or call start_new_chain() on {old.name!r}"
        )
    if reader.kind == "union":  # Flink puts the new one last
        reader.inputs.remove(old)
        reader.inputs.append(new)
        return
    reader.inputs[next(place for place, read in enumerate(reader.inputs) if read is old)] = new


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
    """Return the transformations that PyFlink submits to Flink for the calls `roots`, and their StreamGraph.

    If the last of `roots` collects records, only the operators that it reads are fused, and if fusing is
    enabled, all others leave the job. `known_ids`: see `_fuse_operators`; `slot_resources`: resources of the
    environment's slot sharing groups; `planned`: see LoweredCalls.lower. The lowered form of each call is
    stored in it, and read by later jobs and plans, unless one `lowers_all` calls again. Raises
    JobCompileError for options that PyFlink refuses.
    """
    calls = LoweredCalls(lowers_all=lowers_all)
    transformations = calls.lower(roots, planned)
    align_operators(calls.earlier, {operator.id for operator in calls.earlier})
    align_operators(transformations, {id for pair in known_ids for id in pair})
    sink = next((root for root in roots if root.call is Call.COLLECT), None)
    read = None if sink is None else calls.end_of(sink.inputs[0])
    not_fused: list[UnfusedPair] = []
    if _is_enabled(config):
        transformations, read, not_fused = _fuse_operators(transformations, read, known_ids)
    if sink is not None and read is not None:
        transformations.append(calls.collect_sink(sink, read))
    if not lowers_all:
        calls.store_lowered()
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
    next_id = take_ids(0)
    batch = config.get(RUNTIME_MODE) == JobType.BATCH
    topology: dict[str, Any] = {"name": name, "parallelism": parallelism}
    if max_parallelism is not None:
        topology["max_parallelism"] = max_parallelism
    if config:
        topology["config"] = dict(config)

    def generate(topology: Mapping[str, Any], runs_here: bool) -> GeneratedGraph:
        return generate_stream_graph(
            transformations,
            topology,
            next_id=next_id,
            batch=batch,
            slot_resources=slot_resources,
            runs_here=runs_here,
        )

    submitted = generate(topology, False)
    take_ids(submitted.next_id - next_id)
    reads_cache = any(operator.filled for operator in submitted.physical.values())
    if not submitted.stream_graph["dynamic"] and not reads_cache:
        return submitted, submitted
    # Another scheduler than the adaptive one: operators have parallelism even in BATCH mode.
    options = {**config, SCHEDULER.key: "Default"} if submitted.stream_graph["dynamic"] else config
    return submitted, generate({**topology, "config": dict(options)}, True)


def _is_enabled(config: Mapping[str, str]) -> bool:
    try:
        return bool(parse_boolean(config.get(_OPERATOR_FUSING, "true")))
    except ValueError as error:
        raise JobCompileError(f"option {_OPERATOR_FUSING}: {error}") from error


# Settings of an author that PyFlink drops because it fuses their operator with the one before.
#
# Source: org.apache.flink.python.chain.PythonOperatorChainingOptimizer.createChainedTransformation, which
# copies the first operator's uid and hash.


def lost_settings(transformations: Iterable[LoweredTransformation]) -> tuple[LostSetting, ...]:
    """Return the uids, hashes and names of all parts of fused operators except each operator's first part."""
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


# Operators that PyFlink adds for keys get the parallelism and slot sharing group of the operator they serve.
#
# Source: org.apache.flink.python.util.PythonConfigUtil.{configPythonOperator,alignTransformation}.


def align_operators(
    transformations: Iterable[LoweredTransformation], aligned_before: Container[int] = ()
) -> None:
    """Align the operators for keys in `transformations`, a list of the environment, and let Python operators
    declare their managed memory.

    Operators for keys are recognized by name. If an author has changed the name, the operator is not aligned,
    as in PyFlink. Operators with ids in `aligned_before` have partitions already, which take no new ids.
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
    """Raise JobCompileError if `reader` has several inputs: it lacks the field `input` that PyFlink sets."""
    if reader.kind in ("two_input", "multi_input", "union", "cache"):
        raise JobCompileError(f"PyFlink fails on {reader.name!r}, which is {why} {reader.name!r}")


def _take_place_of(operator: LoweredTransformation, other: LoweredTransformation) -> None:
    if other.slot_sharing_group is not None:
        operator.slot_sharing_group, operator.slot_resources = other.slot_sharing_group, other.slot_resources
    operator.co_location_group = other.co_location_group
    operator.parallelism, operator.parallelism_configured = other.parallelism, False


def _read_forward(reader: LoweredTransformation, upstream: LoweredTransformation, partition: int) -> None:
    """Let `reader` read its first input, `upstream`, through a forward partition of the id `partition`.

    Sinks of the Sink V2 API ignore the partitioner.
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
