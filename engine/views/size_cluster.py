"""Count the TaskManagers that the jobs of a plan need, by kind of cluster."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl
import pyarrow as pa

from penstock.engine.configuration.cluster_options import (
    NO_CLUSTER_SETTINGS,
    ClusterSettings,
    recorded_cluster,
)
from penstock.engine.output.pieces import StyledText
from penstock.engine.output.print_line import print_line
from penstock.engine.planning.plan_options import configured_task_manager, plan_options
from penstock.engine.store.plan_tables import PlanTables
from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow, join_topology
from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.tables.column_types import BOOL, INT, LONG, STR, TOPOLOGY
from penstock.plans.topology.flink_options import parse_memory_size

# Count TaskManagers of jobs placed one after the other, over Arrow batches.


_MODES = ("session", "job")
"""One cluster for all jobs; one cluster per job (per-job and application mode)."""

_GIVEN = (
    pa.field(TOPOLOGY, LONG, False),
    pa.field("name", STR, False),
    pa.field("slots", LONG, False),
    pa.field("largest_slot_sharing_group", INT, True),
    pa.field("largest_slots", INT, False),
)
_OF_MODE = (
    ("wanted", LONG),
    ("pending", LONG),
    ("missing", LONG),
    ("placed", BOOL),
)
PLACED = pa.schema(
    [
        *_GIVEN,
        *(pa.field(f"{mode}_{column}", kind, False) for mode in _MODES for column, kind in _OF_MODE),
    ]
)

Place = Callable[[int], tuple[int, int, int, bool]]
"""Maps slots of the next job to TaskManagers wanted, pending and missing, and whether the job is placed."""


def require_task_managers(slots_per_task_manager: int, available: int | None) -> None:
    """Raise ConfigurationError for less than one slot per TaskManager, or fewer than 0 TaskManagers."""
    if slots_per_task_manager < 1:
        raise ConfigurationError(
            f"slots per TaskManager must be at least 1, got {slots_per_task_manager}",
            "taskmanager.numberOfTaskSlots of the cluster",
        )
    if available is not None and available < 0:
        raise ConfigurationError(
            f"available TaskManagers must be at least 0, got {available}", "leave it out for no limit"
        )


def place_batches(
    batches: Iterator[pa.RecordBatch], slots_per_task_manager: int, available: int | None
) -> Iterator[pa.RecordBatch]:
    """Map batches with the first columns of PLACED, jobs in order, to batches of PLACED."""
    placers = [placer(slots_per_task_manager, available, mode == "session") for mode in _MODES]
    for batch in batches:
        slots = batch.column("slots").to_pylist()
        placed = [
            pa.array([row[column] for row in rows], pa.bool_() if kind == BOOL else pa.int64())
            for rows in ([place(job) for job in slots] for place in placers)
            for column, (_, kind) in enumerate(_OF_MODE)
        ]
        yield pa.RecordBatch.from_arrays([*batch.columns, *placed], names=PLACED.names)


def placer(slots_per_task_manager: int, available: int | None, shared: bool) -> Place:
    """Return a function that places jobs in turn; later jobs get free slots if the cluster is `shared`."""
    still_available, free = available, 0

    def place(slots: int) -> tuple[int, int, int, bool]:
        nonlocal still_available, free
        wanted = -(-max(0, slots - free) // slots_per_task_manager)
        if still_available is not None:
            if wanted > still_available:
                return wanted, 0, wanted - still_available, False
            still_available -= wanted
        if shared:
            free += wanted * slots_per_task_manager - slots
        return wanted, wanted, 0, True

    return place


@without_pandas()
def place_jobs(
    topologies: pl.DataFrame,
    required_slots: pl.DataFrame,
    slots_per_task_manager: int,
    available: int | None,
) -> pl.DataFrame:
    """Place jobs on `available` TaskManagers of `slots_per_task_manager` slots; None means no limit.

    In: topologies, required_slots. Out (key topology_id, in the order of placement): name, slots,
    largest_slot_sharing_group and largest_slots (of the group that needs most); and for each of `session`
    (one cluster for all) and `job` (one cluster each) the TaskManagers wanted, pending and missing, and
    whether the job is placed.
    """
    require_task_managers(slots_per_task_manager, available)
    largest = pl.col("slot_sharing_group").sort_by(-pl.col("slots"), "slot_sharing_group").first()
    sums = required_slots.group_by(TOPOLOGY).agg(
        pl.col("slots").cast(pl.Int64).sum(),
        largest.alias("largest_slot_sharing_group"),
        pl.col("slots").max().alias("largest_slots"),
    )
    jobs = join_topology(topologies.select(TOPOLOGY, "name"), sums, {}, "left").with_columns(
        pl.col("slots", "largest_slots").fill_null(0)
    )
    ordered_jobs = jobs.sort("name", TOPOLOGY).to_arrow(compat_level=pl.CompatLevel.oldest())
    batches = ordered_jobs.to_batches() or [pa.RecordBatch.from_pylist([], ordered_jobs.schema)]
    placed = place_batches(iter(batches), slots_per_task_manager, available)
    return from_arrow(pa.Table.from_batches(placed))


_NUMBERS = ("wanted", "pending", "missing")
LABELS = ("session_cluster", "cluster_per_job")
"""Names of MODES in results."""


class TaskManagers(NamedTuple):
    """Slots and process memory of a TaskManager, and the limit on their number (None: no limit)."""

    slots: int
    process_bytes: int
    available: int | None


def chosen_task_managers(
    cluster: ClusterSettings,
    recorded: Mapping[str, str],
    slots: int | None,
    memory: str | None,
    available: int | None,
    memory_argument: str,
) -> TaskManagers:
    """Return the TaskManagers of a plan from its options `recorded`, overridden by the values given now.

    Raises ConfigurationError for invalid slots, memory or number; `memory_argument` is the name of the
    argument for memory.
    """
    require_task_managers(1 if slots is None else slots, available)
    process_bytes = None if memory is None else _memory_size(memory, memory_argument)
    task_manager = _task_manager(cluster, recorded, slots)
    return TaskManagers(
        task_manager.slots, task_manager.process_bytes if process_bytes is None else process_bytes, available
    )


def _task_manager(cluster: ClusterSettings, recorded: Mapping[str, str], slots: int | None) -> TaskManager:
    before = recorded_cluster({**plan_options().recorded, **recorded}).task_manager
    chosen = slots or cluster.slots or before.slots
    if cluster.process_size is None and cluster.memory == NO_CLUSTER_SETTINGS.memory:
        return replace(before, slots=chosen)
    return configured_task_manager(cluster, chosen)


def _memory_size(text: str, argument: str) -> int:
    try:
        size = parse_memory_size(text)
    except ValueError as error:
        raise ConfigurationError(
            f"{argument} {text!r}: {error}", "Flink's memory sizes, e.g. 1728m or 4g"
        ) from error
    if size == 0:
        raise ConfigurationError(f"{argument} must be above 0, got {text!r}", "e.g. 1728m or 4g")
    return size


def jobs_placed(plan: PlanTables, task_managers: TaskManagers) -> pl.DataFrame:
    """Return the needs of each planned job as the table PLACED; rejected ones never run."""
    topologies = plan.frame("topologies", TOPOLOGY, "name")
    required_slots = plan.frame("required_slots", TOPOLOGY, "slot_sharing_group", "slots")
    return place_jobs(topologies, required_slots, task_managers.slots, task_managers.available)


def _sums_of_jobs(placed: pl.DataFrame) -> dict[str, int]:
    """Sum `jobs` and their `slots`, and for each mode the placed jobs, their slots, and TaskManagers."""
    counted = [pl.len().alias("jobs"), pl.col("slots").sum()]
    for mode in _MODES:
        is_placed = pl.col(f"{mode}_placed")
        counted += [
            is_placed.sum().alias(f"{mode}_jobs"),
            pl.col("slots").filter(is_placed).sum().alias(f"{mode}_slots"),
            *(pl.col(f"{mode}_{n}").sum() for n in _NUMBERS),
        ]
    return placed.select(counted).row(0, named=True)


def size_in_json(placed: pl.DataFrame, task_managers: TaskManagers, topology: str | None) -> dict[str, Any]:
    """Return the TaskManagers, and the needs of all jobs by mode or of the named job."""
    result: dict[str, Any] = {
        "task_manager": {"slots": task_managers.slots, "process_bytes": task_managers.process_bytes},
        "available_task_managers": task_managers.available,
    }
    if topology is None:
        sums = _sums_of_jobs(placed)
        result |= {"jobs": sums["jobs"], "slots": sums["slots"]}
        columns: dict[str, tuple[str, ...]] = dict.fromkeys(_MODES, ("jobs", "slots", *_NUMBERS))
    else:
        sums = next(iter(placed.filter(pl.col("name") == topology).rows(named=True)), {})
        result |= {"topology": topology, "slots": sums.get("slots")}
        columns = dict.fromkeys(_MODES, ("placed", *_NUMBERS))
    for mode, label in zip(_MODES, LABELS, strict=True):
        result[label] = {name: sums[f"{mode}_{name}"] for name in columns[mode]} if sums else None
    return result


# Needs of jobs as tables for people.


MOST = 10
"""Rows of a table that lists jobs."""

_MEMORY = "memory of pending TaskManagers"
MODE_WORDS = ("session cluster", "one cluster per job")
_TEXT = ("", "jobs not placed", "largest jobs", "largest vertex")
_GIBIBYTE, _MEBIBYTE = 2**30, 2**20


def print_cluster(source: str, task_managers: TaskManagers) -> None:
    """Print the source of the jobs, and the TaskManagers."""
    available = task_managers.available
    limit = "no limit" if available is None else f"{available:,} available"
    print_line(
        StyledText(source, "bold"),
        f": TaskManagers of {_slots(task_managers.slots)} and {_exact(task_managers.process_bytes)}, {limit}",
    )


def print_fleet_size(placed: pl.DataFrame, task_managers: TaskManagers) -> None:
    """Print sums over all jobs, the jobs that are not placed, and the largest jobs."""
    totals = totals_by_mode(placed, task_managers)
    _print_table(("", *MODE_WORDS), [(label, *values) for label, values in totals.items()])
    _print_not_placed(placed)
    _print_largest(placed)


def totals_by_mode(placed: pl.DataFrame, task_managers: TaskManagers) -> dict[str, list[str]]:
    """Return sums over all jobs by meaning, one for each of MODES."""
    sums = _sums_of_jobs(placed)
    modes = [_totals(sums, mode, task_managers.slots, task_managers.process_bytes) for mode in _MODES]
    return {label: [mode[label] for mode in modes] for label in modes[0]}


def _totals(sums: Mapping[str, int], mode: str, slots_per_task_manager: int, memory: int) -> dict[str, str]:
    used, pending = sums[f"{mode}_slots"], sums[f"{mode}_pending"]
    started = pending * slots_per_task_manager
    # Without a limit a session cluster never starts a TaskManager while a slot is free.
    for_all = -(-sums["slots"] // slots_per_task_manager) if mode == "session" else sums["job_wanted"]
    return {
        "jobs": f"{sums['jobs']:,}",
        "jobs placed": f"{sums[f'{mode}_jobs']:,}",
        "slots of all jobs": f"{sums['slots']:,}",
        "slots in use": f"{used:,}",
        "slots free": f"{started - used:,}",
        "utilisation of slots": f"{used / started:.1%}" if started else "-",
        **{f"TaskManagers {n}": f"{sums[f'{mode}_{n}']:,}" for n in _NUMBERS},
        "TaskManagers to hold all jobs": f"{for_all:,}",
        _MEMORY: _rounded_memory(pending * memory),
    }


def _print_not_placed(placed: pl.DataFrame) -> None:
    without = placed.filter(~pl.col("session_placed") | ~pl.col("job_placed"))
    columns = ("session_wanted", "session_missing", "job_wanted", "job_missing")
    rows = [
        (row["name"], f"{row['slots']:,}", *(f"{row[column]:,}" for column in columns))
        for row in without.sort("name").head(MOST).rows(named=True)
    ]
    if rows:
        _print_table(("jobs not placed", "slots", *(column.replace("_", " ") for column in columns)), rows)
        more = len(without) - len(rows)
        if more:
            print_line(f"… and {more:,} more")


def _print_largest(placed: pl.DataFrame) -> None:
    rows = [
        (
            row["name"],
            f"{row['slots']:,}",
            "-" if row["largest_slot_sharing_group"] is None else str(row["largest_slot_sharing_group"]),
            f"{row['largest_slots']:,}",
            f"{row['session_wanted']:,}",
            f"{row['job_wanted']:,}",
        )
        for row in placed.sort("slots", "name", descending=[True, False]).head(MOST).rows(named=True)
    ]
    if rows:
        columns = ("slots", "largest group", "its slots", "session wanted", "job wanted")
        _print_table(("largest jobs", *columns), rows)


def print_job_size(
    name: str,
    groups: pl.DataFrame,
    sizes: Sequence[Mapping[str, Any]],
    task_managers: TaskManagers,
) -> None:
    """Print the needs of a job. `groups`: its required_slots, with `named`, the largest vertex's name."""
    if not sizes:
        print_line(f"{name} is refused and needs no slots; penstock rejected shows the reason")
        return
    job = sizes[0]
    print_line(StyledText(name, "bold"), f": {_slots(job['slots'])}")
    columns = ("slot_sharing_group", "slots", "tasks", "vertices")
    in_order = groups.sort("slots", "slot_sharing_group", descending=[True, False])
    rows = [
        (str(row["slot_sharing_group"]), *(f"{row[c]:,}" for c in columns[1:]), row["named"])
        for row in in_order.select(*columns, "named").rows(named=True)
    ]
    if rows:
        _print_table((*(column.replace("_", " ") for column in columns), "largest vertex"), rows)
    numbers = [(f"TaskManagers {n}", *(f"{job[f'{mode}_{n}']:,}" for mode in _MODES)) for n in _NUMBERS]
    placed = ("placed", *("yes" if job[f"{mode}_placed"] else "no" for mode in _MODES))
    used = (_rounded_memory(job[f"{mode}_pending"] * task_managers.process_bytes) for mode in _MODES)
    _print_table(("", *MODE_WORDS), [placed, *numbers, (_MEMORY, *used)])


def _slots(count: int) -> str:
    return f"{count:,} slot{'' if count == 1 else 's'}"


def _exact(memory: int) -> str:
    return f"{memory:,} bytes" if memory % _MEBIBYTE else f"{memory // _MEBIBYTE:,} MiB"


def _rounded_memory(memory: int) -> str:
    return f"{memory / _GIBIBYTE:,.1f} GiB"


def _print_table(columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    # imported here, because plans in Python import this module for its figures
    from rich.table import Column

    from penstock.engine.output.people import print_table

    print_line()
    print_table(
        [Column(name) if name in _TEXT else Column(name, justify="right", no_wrap=True) for name in columns],
        rows,
    )
