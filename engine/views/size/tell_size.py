"""What jobs need of a cluster, as people read it."""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.table import Column

from penstock.engine.output.people import print_table
from penstock.engine.output.pieces import Styled
from penstock.engine.output.say import say
from penstock.engine.views.size.size_cluster import NUMBERS, TaskManagers, sums_of_jobs
from penstock.plans.resources.place_jobs import MODES

MOST = 10
"""Lines of a table that lists jobs."""

_MEMORY = "memory of pending TaskManagers"
MODE_WORDS = ("session cluster", "one cluster per job")
_TEXT = ("", "jobs not placed", "largest jobs", "largest vertex")
_GIBIBYTE, _MEBIBYTE = 2**30, 2**20


def tell_cluster(source: str, task_managers: TaskManagers) -> None:
    """Print whose jobs they are, and what TaskManagers there are."""
    available = task_managers.available
    limit = "no limit" if available is None else f"{available:,} available"
    say(
        Styled(source, "bold"),
        f": TaskManagers of {_slots(task_managers.slots)} and {_exact(task_managers.process_bytes)}, {limit}",
    )


def tell_fleet(placed: pl.DataFrame, task_managers: TaskManagers) -> None:
    """Print sums over all jobs, those that are not placed, and the largest."""
    totals = totals_by_mode(placed, task_managers)
    _print_table(("", *MODE_WORDS), [(label, *values) for label, values in totals.items()])
    _print_not_placed(placed)
    _print_largest(placed)


def totals_by_mode(placed: pl.DataFrame, task_managers: TaskManagers) -> dict[str, list[str]]:
    """Sums over all jobs by what they are, one for each of MODES."""
    sums = sums_of_jobs(placed)
    modes = [_totals(sums, mode, task_managers.slots, task_managers.process_bytes) for mode in MODES]
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
        **{f"TaskManagers {n}": f"{sums[f'{mode}_{n}']:,}" for n in NUMBERS},
        "TaskManagers that would hold all jobs": f"{for_all:,}",
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
            say(f"… and {more:,} more")


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


def tell_job(
    name: str,
    groups: pl.DataFrame,
    sizes: Sequence[Mapping[str, Any]],
    task_managers: TaskManagers,
) -> None:
    """Print what a job needs. `groups`: its required_slots, with `named`, the name of the largest vertex."""
    if not sizes:
        say(f"{name} is refused and needs no slots; penstock rejected says why")
        return
    job = sizes[0]
    say(Styled(name, "bold"), f": {_slots(job['slots'])}")
    columns = ("slot_sharing_group", "slots", "tasks", "vertices")
    in_order = groups.sort("slots", "slot_sharing_group", descending=[True, False])
    rows = [
        (str(row["slot_sharing_group"]), *(f"{row[c]:,}" for c in columns[1:]), row["named"])
        for row in in_order.select(*columns, "named").rows(named=True)
    ]
    if rows:
        _print_table((*(column.replace("_", " ") for column in columns), "largest vertex"), rows)
    numbers = [(f"TaskManagers {n}", *(f"{job[f'{mode}_{n}']:,}" for mode in MODES)) for n in NUMBERS]
    placed = ("placed", *("yes" if job[f"{mode}_placed"] else "no" for mode in MODES))
    used = (_rounded_memory(job[f"{mode}_pending"] * task_managers.process_bytes) for mode in MODES)
    _print_table(("", *MODE_WORDS), [placed, *numbers, (_MEMORY, *used)])


def _slots(count: int) -> str:
    return f"{count:,} slot{'' if count == 1 else 's'}"


def _exact(memory: int) -> str:
    return f"{memory:,} bytes" if memory % _MEBIBYTE else f"{memory // _MEBIBYTE:,} MiB"


def _rounded_memory(memory: int) -> str:
    return f"{memory / _GIBIBYTE:,.1f} GiB"


def _print_table(columns: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    say()
    print_table(
        [Column(name) if name in _TEXT else Column(name, justify="right", no_wrap=True) for name in columns],
        rows,
    )
