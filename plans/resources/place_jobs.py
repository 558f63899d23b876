"""How many TaskManagers jobs take, one after the other, over Arrow batches."""

from collections.abc import Callable, Iterator

import pyarrow as pa

from plans.errors import ConfigurationError
from plans.tables.column_types import BOOL, INT, LONG, STR, TOPOLOGY

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
    left, free = available, 0

    def place(slots: int) -> tuple[int, int, int, bool]:
        nonlocal left, free
        wanted = -(-max(0, slots - free) // slots_per_task_manager)
        if left is not None:
            if wanted > left:
                return wanted, 0, wanted - left, False
            left -= wanted
        if shared:
            free += wanted * slots_per_task_manager - slots
        return wanted, wanted, 0, True

    return place
