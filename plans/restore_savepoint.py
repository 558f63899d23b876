"""Decide, as Flink does, whether the state of one planned job can be restored in another."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import polars as pl

from penstock.operators.common.configuration import DEFAULT_TABLE, expected_tables, order_in_table
from penstock.plans.errors import ILLEGAL_STATE
from penstock.plans.frames.polars_frames import join_topology
from penstock.plans.job_graph.set_dynamic_parallelism import NOT_DECIDED
from penstock.plans.tables.column_types import TOPOLOGY

_T = TypeVar("_T")


def in_map_order(items: Iterable[_T], key: Callable[[_T], str], expected_size: int) -> list[_T]:
    """Return `items` in the iteration order of a new Java map into which they are put one after the other.

    `key`: a distinct id of 32 hex digits per item. `expected_size`: the size that the map is created for.
    """
    entries = list(items)
    hashes = np.array([_hash_code(key(item)) for item in entries], np.uint32)
    (table,) = expected_tables(np.array([expected_size]))
    return [entries[at] for at in order_in_table(hashes, int(table)).tolist()]


def _hash_code(hex_id: str) -> int:
    """AbstractID.hashCode: the xor of the id's four 32-bit words."""
    number = int(hex_id, 16)
    half = (number >> 64) ^ number
    return ((half >> 32) ^ half) & 0xFFFFFFFF


JOB_COLUMNS = {
    "topologies": (TOPOLOGY, "name"),
    "job_vertices": (TOPOLOGY, "vertex", "vertex_id", "max_parallelism", "topological_order"),
    "execution_job_vertices": (TOPOLOGY, "vertex", "parallelism", "max_parallelism"),
    "chained_operators": (
        TOPOLOGY,
        "vertex",
        "node",
        "operator_id",
        "user_defined_operator_id",
        "operator_order",
    ),
}
"""The columns read by jobs_to_restore, by table."""


class SavepointOperator(NamedTuple):
    """An operator of a chain. `order`: its position among the operator ids of its vertex, or None if it is
    absent.
    """

    node: int
    operator_id: str
    user_defined_operator_id: str | None
    order: int | None


class Task(NamedTuple):
    """A job vertex. `max_parallelism`: the effective value; `derives_it`: the author did not set it."""

    vertex_id: str
    parallelism: int
    max_parallelism: int
    derives_it: bool
    operators: list[SavepointOperator]

    @property
    def operator_ids(self) -> Iterator[tuple[str, str | None]]:
        """Yield (generated id, user-defined id) per operator without chained sources, as
        JobVertex.getOperatorIDs.
        """
        listed = (operator for operator in self.operators if operator.order is not None)
        for operator in sorted(listed, key=lambda operator: operator.order or 0):
            yield operator.operator_id, operator.user_defined_operator_id


Job = list[Task]
"""The tasks of a job in topological order."""


def jobs_to_restore(tables: Mapping[str, pl.DataFrame]) -> dict[str, Job]:
    """Return the planned topologies by name; `tables` contain JOB_COLUMNS."""
    vertices = join_topology(
        tables["job_vertices"].rename({"max_parallelism": "given_max_parallelism"}),
        tables["execution_job_vertices"].select(JOB_COLUMNS["execution_job_vertices"]),
        {"vertex": "vertex"},
    ).sort(TOPOLOGY, "topological_order")
    names = dict(tables["topologies"].select(TOPOLOGY, "name").iter_rows())
    jobs: dict[str, Job] = {name: [] for name in names.values()}
    tasks: dict[tuple[int, int], Task] = {}
    chosen = vertices.select(
        TOPOLOGY, "vertex", "vertex_id", "parallelism", "max_parallelism", "given_max_parallelism"
    )
    for (
        topology,
        vertex,
        vertex_id,
        parallelism,
        max_parallelism,
        given_max_parallelism,
    ) in chosen.iter_rows():
        task = Task(vertex_id, parallelism, max_parallelism, given_max_parallelism == NOT_DECIDED, [])
        tasks[topology, vertex] = task
        jobs[names[topology]].append(task)
    operators = tables["chained_operators"].select(JOB_COLUMNS["chained_operators"])
    for topology, vertex, *operator in operators.iter_rows():
        tasks[topology, vertex].operators.append(SavepointOperator(*operator))
    return jobs


_TASKS_OF_A_NEW_GRAPH = 16


class SavepointState(NamedTuple):
    """An operator's entry in a savepoint or checkpoint.

    `collected`: its subtasks have reported to it; `empty`: they have no state.
    """

    operator_id: str
    max_parallelism: int
    collected: bool = True
    empty: bool = False


class Failure(NamedTuple):
    """The simple class name and the message of an exception that Flink would raise."""

    error: str
    message: str


def take_savepoint(
    job: Job, stateful: Collection[int] | None = None, *, with_empty: bool = False
) -> list[SavepointState]:
    """Return the states of operators whose node is in `stateful` (None: all), sorted by node.

    Each covers every subtask, with the effective max parallelism of the task. `with_empty`: include entries
    of operators without state, as Flink's savepoints do.
    """
    entries = sorted(_entries(job, stateful), key=lambda entry: entry[0])
    return [state for _, state in entries if with_empty or not state.empty]


def take_last_state(job: Job, stateful: Collection[int] | None = None) -> list[SavepointState]:
    """Return the entries of all operators in a checkpoint, in the order of the map that recovery reads.

    `stateful`: nodes with state (None: all). Source: CompletedCheckpoint, as Java's serialization reads it.
    """
    taken = [state for _, state in _entries(job, stateful)]
    # HashMap.readObject sizes the table by the number of entries to read.
    capacity = max(DEFAULT_TABLE, len(taken) * 4 // 3 + 1)
    table = 1 << (capacity - 1).bit_length()
    hashes = np.array([_hash_code(state.operator_id) for state in taken], np.uint32)
    return [taken[at] for at in order_in_table(hashes, table).tolist()]


def _entries(job: Job, stateful: Collection[int] | None) -> Iterator[tuple[int, SavepointState]]:
    """Yield each node with its entry; a task reports to its operators only if one of them has state.

    Source: PendingCheckpoint.acknowledgeTask.
    """
    for task in job:
        collected = stateful is None or any(operator.node in stateful for operator in task.operators)
        for operator in task.operators:
            empty = stateful is not None and operator.node not in stateful
            state = SavepointState(operator.operator_id, task.max_parallelism, collected, empty)
            yield operator.node, state


def restore_last_state(states: Collection[SavepointState], job: Job) -> Failure | None:
    """Return the failure with which Flink refuses to start `job` from its last checkpoint, or None if it
    starts.

    `states`: in the order of take_last_state. Every entry, even an empty one, needs an operator, and no
    option relaxes that. If several tasks fail, one of them is named, as in restore_savepoint. Source:
    CheckpointCoordinator.restoreInitialCheckpointIfPresent, StateAssignmentOperation.assignStates.
    """
    known = {operator_id for task in job for pair in task.operator_ids for operator_id in pair}
    for state in states:
        if state.operator_id not in known:
            message = f"There is no operator for the state {state.operator_id}"
            return Failure(ILLEGAL_STATE, message)
    restored = {state.operator_id: state for state in states}
    tasks = in_map_order(job, lambda task: task.vertex_id, _TASKS_OF_A_NEW_GRAPH)
    return next(filter(None, (_assign(restored, task) for task in tasks)), None)


def restore_savepoint(
    states: Iterable[SavepointState], job: Job, allow_non_restored_state: bool
) -> Failure | None:
    """Return the failure with which Flink refuses to start `job` from a savepoint, or None if it starts.

    `states`: the entries of the savepoint. `allow_non_restored_state`: skip state that matches no operator of
    the job. If several tasks fail, the result concerns one of them; Flink visits them in no fixed order.
    Source: Checkpoints.loadAndValidateCheckpoint, then StateAssignmentOperation.assignStates.
    """
    tasks = in_map_order(job, lambda task: task.vertex_id, _TASKS_OF_A_NEW_GRAPH)
    task_of = {
        operator_id: task
        for task in tasks
        for pair in task.operator_ids
        for operator_id in pair
        if operator_id is not None
    }
    restored: dict[str, SavepointState] = {}
    for state in states:
        task = task_of.get(state.operator_id)
        if task is None:
            if not allow_non_restored_state and not state.empty:
                return _no_operator(state)
        elif task.derives_it or task.max_parallelism == state.max_parallelism:
            restored[state.operator_id] = state
        else:
            return _other_max_parallelism(state, task)
    return next(filter(None, (_assign(restored, task) for task in tasks)), None)


def _assign(restored: dict[str, SavepointState], task: Task) -> Failure | None:
    """Move the states of a task out of `restored`; return the failure that Flink raises for them, if any.

    An operator without state counts with the max parallelism that the task has at that point.
    """
    states: dict[str, SavepointState] = {}
    has_state = False
    for generated, user_defined in task.operator_ids:
        chosen = user_defined if user_defined is not None and user_defined in restored else generated
        restored_state = restored.pop(chosen, None)
        has_state = has_state or (restored_state is not None and restored_state.collected)
        states[generated] = restored_state or SavepointState(chosen, task.max_parallelism)
    if not has_state:
        return None
    max_parallelism = task.max_parallelism
    ordered = in_map_order(states.items(), lambda state: state[0], sum(1 for _ in task.operator_ids))
    for _, state in ordered:
        if state.max_parallelism < task.parallelism:
            return _above_max_parallelism(state, task)
        if state.max_parallelism == max_parallelism:
            continue
        if not task.derives_it:
            return _changed_max_parallelism(state, task)
        max_parallelism = state.max_parallelism
    return None


def _no_operator(state: SavepointState) -> Failure:
    return Failure(
        ILLEGAL_STATE,
        "Failed to rollback to checkpoint/savepoint savepoint. Cannot map checkpoint/savepoint state for "
        f"operator {state.operator_id} to the new program, because the operator is not available in the new "
        "program. If you want to allow to skip this, you can set the --allowNonRestoredState option on the "
        "CLI.",
    )


def _other_max_parallelism(state: SavepointState, task: Task) -> Failure:
    return Failure(
        ILLEGAL_STATE,
        "Failed to rollback to checkpoint/savepoint Checkpoint Metadata. Max parallelism mismatch between "
        f"checkpoint/savepoint state and new program. Cannot map operator {state.operator_id} with max "
        f"parallelism {state.max_parallelism} to new program with max parallelism {task.max_parallelism}. "
        "This indicates that the program has been changed in a non-compatible way after the "
        "checkpoint/savepoint.",
    )


def _above_max_parallelism(state: SavepointState, task: Task) -> Failure:
    return Failure(
        ILLEGAL_STATE,
        f"The state for task {task.vertex_id} can not be restored. The maximum parallelism "
        f"({state.max_parallelism}) of the restored state is lower than the configured parallelism "
        f"({task.parallelism}). Please reduce the parallelism of the task to be lower or equal to the "
        "maximum parallelism.",
    )


def _changed_max_parallelism(state: SavepointState, task: Task) -> Failure:
    """Flink prints the vertex as a Java object with a number that differs from run to run; here the id's
    digits.
    """
    vertex = f"org.apache.flink.runtime.executiongraph.ExecutionJobVertex@{task.vertex_id[:8]}"
    return Failure(
        ILLEGAL_STATE,
        f"The maximum parallelism ({state.max_parallelism}) with which the latest checkpoint of the "
        f"execution job vertex {vertex} has been taken and the current maximum parallelism "
        f"({task.max_parallelism}) changed. This is currently not supported.",
    )
