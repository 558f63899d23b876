"""Counts the TaskManagers that jobs take, placed one after the other, over Arrow batches."""

from collections.abc import Callable, Iterator

import polars as pl
import pyarrow as pa

from penstock.operators.common.without_pandas import without_pandas
from penstock.plans.errors import ConfigurationError
from penstock.plans.frames.polars_frames import from_arrow, join_topology
from penstock.plans.tables.column_types import BOOL, INT, LONG, STR, TOPOLOGY

MODES = ("session", "job")
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
        *(pa.field(f"{mode}_{column}", kind, False) for mode in MODES for column, kind in _OF_MODE),
    ]
)

Place = Callable[[int], tuple[int, int, int, bool]]
"""Slots of the next job to the TaskManagers wanted, pending and missing, and whether the job is placed."""


def require_task_managers(slots_per_task_manager: int, available: int | None) -> None:
    """Raises ConfigurationError for less than one slot per TaskManager and for less than no TaskManagers."""
    if slots_per_task_manager < 1:
        raise ConfigurationError(
            f"slots per TaskManager: found {slots_per_task_manager}, allowed 1 and more",
            "taskmanager.numberOfTaskSlots of the cluster",
        )
    if available is not None and available < 0:
        raise ConfigurationError(
            f"available TaskManagers: found {available}, allowed 0 and more", "leave it out for no limit"
        )


def place_batches(
    batches: Iterator[pa.RecordBatch], slots_per_task_manager: int, available: int | None
) -> Iterator[pa.RecordBatch]:
    """Batches of the first columns of PLACED, jobs in order, to batches of PLACED."""
    of_modes = [placer(slots_per_task_manager, available, mode == "session") for mode in MODES]
    for batch in batches:
        slots = batch.column("slots").to_pylist()
        placed = [
            pa.array([row[column] for row in rows], pa.bool_() if kind == BOOL else pa.int64())
            for rows in ([place(job) for job in slots] for place in of_modes)
            for column, (_, kind) in enumerate(_OF_MODE)
        ]
        yield pa.RecordBatch.from_arrays([*batch.columns, *placed], names=PLACED.names)


def placer(slots_per_task_manager: int, available: int | None, shared: bool) -> Place:
    """A function that places one job after another; later ones get free slots if the cluster is `shared`."""
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
    """Jobs on TaskManagers of `slots_per_task_manager` slots; there are `available` of them (None: no limit).

    In: topologies, required_slots. Out (key topology_id, in the order in which they are placed): name, slots,
    largest_slot_sharing_group and largest_slots (of the group that needs most); and for each of `session`
    (one cluster for all) and `job` (one each) the TaskManagers wanted, pending and missing, and whether it
    is placed.
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
