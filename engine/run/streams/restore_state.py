"""The state and watermarks of the last version, mapped to the operators of a job.

Source: org.apache.flink.runtime.checkpoint.{Checkpoints.loadAndValidateCheckpoint,StateAssignmentOperation}.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.operators.common.typeinfo import TypeInformation
from penstock.operators.connectors.dataframe_source import DataFrameSource
from penstock.operators.connectors.recover_sinks import needs_commit, recovery_of
from penstock.operators.connectors.state_sink import store_key
from penstock.operators.process.keyed_operator import KeyedOperator
from penstock.operators.process.keyed_process_operators import BroadcastProcessOperator
from penstock.operators.records.aggregate_batches import PartialAggregateOperator
from penstock.operators.state.state_segments import SegmentRecord
from penstock.operators.state.stored_state import OperatorRecord, TableRecord
from penstock.operators.task.build_chain import OperatorSpec
from penstock.operators.task.report import StreamSettings
from penstock.plans.errors import JobCompileError
from penstock.plans.frames.polars_frames import from_arrow
from penstock.plans.restore_savepoint import (
    JOB_COLUMNS,
    Job,
    SavepointState,
    jobs_to_restore,
    restore_savepoint,
)

Manifest = dict[str, Any]


def require_streamable(name: str, compiled: CompiledJob, *, batch: bool) -> None:
    """Raise JobCompileError, with all reasons, if the job `name` cannot run batch by batch."""
    problems = []
    if batch:
        problems.append(
            "its runtime mode must be STREAMING, got BATCH; penstock.transform with mode='BATCH' computes "
            "each batch by itself"
        )
    for vertex in compiled.vertices:
        for spec in vertex.chain.operators:
            why = _problem_of(spec, compiled.classes.get(spec.node, object))
            if why is None and not vertex.chain.gates and _is_keyed(compiled, spec):
                why = "is keyed without an exchange before it; key the stream by key_by"
            if why is not None:
                problems.append(f"operator {spec.name!r} {why}")
    for terminal in compiled.terminals:
        if needs_commit(terminal.sink) and recovery_of(terminal.sink) is None:
            problems.append(
                f"sink {terminal.name!r} is of a class of yours, whose commit a later batch cannot "
                "finish; use files, Delta, or into="
            )
    if problems:
        raise JobCompileError(
            f"job {name!r} cannot run in foreach_batch:\n" + "\n".join(f"  {problem}" for problem in problems)
        )


def _problem_of(spec: OperatorSpec, operator_class: type) -> str | None:
    if spec.source:
        if isinstance(spec.operator, DataFrameSource):
            return None
        return "is a source of its own, which every batch would read again; join its rows to the DataFrame"
    if issubclass(operator_class, PartialAggregateOperator):
        return "has results at the end of the input, which a stream does not have; use a window or reduce"
    return None


def operators_with_state(compiled: CompiledJob) -> Iterator[tuple[CompiledVertex, OperatorSpec]]:
    """Yield the operators with keyed or broadcast state, each after its vertex."""
    for vertex in compiled.vertices:
        for spec in vertex.chain.operators:
            operator_class = compiled.classes.get(spec.node, object)
            if issubclass(operator_class, KeyedOperator | BroadcastProcessOperator):
                yield vertex, spec


def _is_keyed(compiled: CompiledJob, spec: OperatorSpec) -> bool:
    return issubclass(compiled.classes.get(spec.node, object), KeyedOperator)


def watermark_keys(compiled: CompiledJob) -> dict[int, str]:
    """Return for each operator the name under which its watermark is stored."""
    keys: dict[int, str] = {}
    for vertex in compiled.vertices:
        parts: Counter[str] = Counter()
        for spec in vertex.chain.operators:
            operator_id = spec.operator_ids[-1]
            keys[spec.node] = f"{operator_id}:{parts[operator_id]}"
            parts[operator_id] += 1
    return keys


# The state of a version in a new job, by the rules of savepoints.


def states_of(manifest: Manifest) -> list[SavepointState]:
    """Return the state of each operator in a version as an entry of a savepoint."""
    return [
        SavepointState(entry["operator_id"], entry["max_parallelism"], empty=not _has_segments(entry))
        for entry in manifest["operators"]
    ]


def job_to_restore(tables: Mapping[str, pa.Table]) -> Job:
    """Return the only job of `tables` (all layers) for the rules of savepoints."""
    (job,) = jobs_to_restore(
        {name: from_arrow(tables[name].select(JOB_COLUMNS[name])) for name in JOB_COLUMNS}
    ).values()
    return job


def require_restorable(manifest: Manifest, new: Job, *, allow_non_restored_state: bool) -> None:
    """Raise JobCompileError, with Flink's reason, if `new` cannot take over the state of a version."""
    failure = restore_savepoint(states_of(manifest), new, allow_non_restored_state)
    if failure is None:
        return
    lines, hint = lost_operators(manifest, new), "give operators the uid that they had before; "
    hint += "allow_non_restored_state=True drops the state"
    if allow_non_restored_state or not lines:
        lines = [
            f"{_described(entry)} has max parallelism {entry['max_parallelism']}"
            for entry in manifest["operators"]
        ]
        hint = "keep the max parallelism that the state has, and a parallelism up to it"
    raise JobCompileError(
        f"the state of version {manifest['version']} is not restored ({failure.error}): {failure.message}"
        + "".join(f"\n  {line}" for line in lines),
        hint,
    )


def lost_operators(manifest: Manifest, new: Job) -> list[str]:
    """Return a description of each operator with state that `new` does not have."""
    known = {operator_id for task in new for pair in task.operator_ids for operator_id in pair}
    return [
        _described(entry)
        for entry in manifest["operators"]
        if entry["operator_id"] not in known and _has_segments(entry)
    ]


def _described(entry: Mapping[str, Any]) -> str:
    uid = "" if entry["uid"] is None else f", uid {entry['uid']!r}"
    return f"operator {entry['operator_id']} ({entry['name']!r}{uid})"


def _has_segments(entry: Mapping[str, Any]) -> bool:
    return any(table["segments"] for part in entry["parts"] for table in part["tables"])


def restored_batch(
    folder: str,
    version: int,
    compiled: CompiledJob,
    new: Job,
    manifest: Manifest | None,
    *,
    allow_non_restored_state: bool,
) -> tuple[CompiledJob, StreamSettings]:
    """Return the job with the max parallelism of its state, and what its subtasks begin with.

    `new` is the job in the form of savepoints' rules; the batch makes `version`. Raises JobCompileError as
    `require_restorable` does.
    """
    if manifest is not None:
        require_restorable(manifest, new, allow_non_restored_state=allow_non_restored_state)
        compiled = _with_max_parallelism(compiled, manifest)
    types = _key_types(compiled)
    stored = _entries(manifest)
    operators = {}
    for vertex, spec in operators_with_state(compiled):
        entry = _entry_of(spec, stored)
        operators[spec.node] = _operator_record(vertex, spec, types.get(spec.node), entry)
    before = {} if manifest is None else manifest["watermarks"]
    watermarks = {
        node: before[key] for node, key in watermark_keys(compiled).items() if before.get(key) is not None
    }
    settings = StreamSettings(
        folder=folder,
        version=version,
        key=store_key(folder),
        operators=operators,
        watermarks=watermarks,
    )
    return compiled, settings


def changes_of_state(
    manifest: Manifest, compiled: CompiledJob, new: Job
) -> list[tuple[str, str | None, str]]:
    """Return name, uid and fate of each operator with state, of a version or of the job that takes it."""
    stored = _entries(manifest)
    changes = []
    for vertex, spec in operators_with_state(compiled):
        entry = _entry_of(spec, stored)
        fate = "begins empty"
        if entry is not None:
            before, after = len(entry["parts"]), vertex.chain.parallelism
            fate = "kept"
            if before != after:
                fate += f", its key groups go from {before} to {after} subtasks"
        changes.append((spec.name, spec.uid, fate))
    known = {operator_id for task in new for pair in task.operator_ids for operator_id in pair}
    for operator_id, entry in stored.items():
        if operator_id not in known and _has_segments(entry):
            changes.append((entry["name"], entry["uid"], f"lost: no operator has the id {operator_id}"))
    return changes


def _entries(manifest: Manifest | None) -> dict[str, Mapping[str, Any]]:
    return {} if manifest is None else {entry["operator_id"]: entry for entry in manifest["operators"]}


def _entry_of(spec: OperatorSpec, stored: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((stored[operator_id] for operator_id in spec.operator_ids if operator_id in stored), None)


def _with_max_parallelism(compiled: CompiledJob, manifest: Manifest) -> CompiledJob:
    """Return the job whose vertices have the max parallelism of their state.

    Another one than the vertex's own is only left if the author has set none.
    Source: StateAssignmentOperation.checkParallelismPreconditions.
    """
    stored = _entries(manifest)
    most = {vertex.chain.vertex: vertex.chain.max_parallelism for vertex in compiled.vertices}
    own = dict(most)
    for vertex, spec in operators_with_state(compiled):
        entry = _entry_of(spec, stored)
        if entry is not None:
            most[vertex.chain.vertex] = entry["max_parallelism"]
    if most == own:
        return compiled
    reader = {gate.edge: vertex.chain.vertex for vertex in compiled.vertices for gate in vertex.chain.gates}
    vertices = [
        replace(
            vertex,
            chain=replace(
                vertex.chain,
                max_parallelism=most[vertex.chain.vertex],
                outputs=tuple(
                    replace(output, consumer_max_parallelism=most[reader[output.edge]])
                    for output in vertex.chain.outputs
                ),
            ),
        )
        for vertex in compiled.vertices
    ]
    return replace(compiled, vertices=tuple(vertices))


def _operator_record(
    vertex: CompiledVertex, spec: OperatorSpec, key_type: TypeInformation | None, entry: Any
) -> OperatorRecord:
    most = vertex.chain.max_parallelism
    if entry is not None and entry["max_parallelism"] != most:
        raise JobCompileError(
            f"operator {spec.name!r} is chained with an operator whose state has max parallelism {most}, and "
            f"its own state has {entry['max_parallelism']}",
            "disable chaining between them",
        )
    return OperatorRecord(
        operator_id=spec.operator_ids[-1],
        uid=spec.uid,
        name=spec.name,
        max_parallelism=most,
        key_type=key_type,
        key_text=None if entry is None else entry["key_type"],
        tables={} if entry is None else tables_of(entry),
    )


def tables_of(entry: Mapping[str, Any]) -> dict[tuple[int, int], Sequence[TableRecord]]:
    """Return the tables of an operator in a manifest, by range of key groups."""
    return {
        (part["first"], part["last"]): [_table_record(table) for table in part["tables"]]
        for part in entry["parts"]
    }


def _table_record(table: Mapping[str, Any]) -> TableRecord:
    segments = tuple(SegmentRecord(**segment) for segment in table["segments"])
    return TableRecord(**{**table, "segments": segments})


def _key_types(compiled: CompiledJob) -> dict[int, TypeInformation | None]:
    outputs = {output.edge: output for vertex in compiled.vertices for output in vertex.chain.outputs}
    return {
        gate.target_node: outputs[gate.edge].key_type
        for vertex in compiled.vertices
        for gate in vertex.chain.gates
        if outputs[gate.edge].partitioner == "hash"
    }


def manifest_of_batch(
    compiled: CompiledJob,
    settings: StreamSettings,
    reports: Sequence[Mapping[str, Any]],
    before: Manifest | None,
) -> Manifest:
    """Return `rows`, `operators` and `watermarks` of a batch's manifest: its input, and the state at its end.

    Raises RuntimeError if the report of a subtask with state is missing, or came twice with another content.
    """
    by_subtask: dict[tuple[int, int], Mapping[str, Any]] = {}
    for report in reports:
        place = report["vertex"], report["subtask"]
        # a subtask that reads no row of a DataFrame may report by the number of another one; it has no state
        if report["operators"] and by_subtask.setdefault(place, report) != report:
            raise RuntimeError(f"subtask {place} has reported its state twice, differently")
    operators = []
    for vertex, spec in operators_with_state(compiled):
        record = settings.operators[spec.node]
        parts, key_text = [], None
        for subtask in range(vertex.chain.parallelism):
            report = by_subtask.get((vertex.chain.vertex, subtask), {})
            written = report.get("operators", {}).get(str(spec.node))
            if written is None:
                raise RuntimeError(f"operator {spec.name!r}: the state of subtask {subtask} is missing")
            key_text = written["key_text"]
            first, last = written["groups"]
            parts.append({"first": first, "last": last, "tables": written["tables"]})
        operators.append(
            {
                "operator_id": record.operator_id,
                "uid": record.uid,
                "name": record.name,
                "max_parallelism": record.max_parallelism,
                "key_type": key_text,
                "parts": parts,
            }
        )
    return {
        "rows": sum(report["rows"] for report in reports),
        "operators": operators,
        "watermarks": _watermarks(compiled, reports, before),
    }


def _watermarks(compiled: CompiledJob, reports: Any, before: Manifest | None) -> dict[str, int]:
    """Return the watermark of each operator: the smallest one of its subtasks, and at least the one before.

    A source that reads the rows in the order of event time ends with the last of its subtasks.
    """
    sources = {spec.node for vertex in compiled.vertices for spec in vertex.chain.operators if spec.source}
    found: dict[int, list[int]] = {}
    for report in reports:
        for node, watermark in report["watermarks"].items():
            if watermark is not None:
                found.setdefault(int(node), []).append(watermark)
    keys = watermark_keys(compiled)
    watermarks: dict[str, int] = {} if before is None else dict(before["watermarks"])
    watermarks = {key: value for key, value in watermarks.items() if key in set(keys.values())}
    for node, values in found.items():
        ends_at = max(values) if node in sources else min(values)
        watermarks[keys[node]] = max(ends_at, watermarks.get(keys[node], ends_at))
    return watermarks
