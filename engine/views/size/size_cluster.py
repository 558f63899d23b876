"""How many TaskManagers the jobs of a plan need, and of which kind these are."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from penstock.engine.configuration.cluster_settings import (
    NO_CLUSTER_SETTINGS,
    ClusterSettings,
    recorded_cluster,
)
from penstock.engine.planning.plan_options import configured_task_manager, plan_options
from penstock.plans.errors import ConfigurationError
from penstock.plans.resources.place_jobs import MODES, place_jobs, require_task_managers
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.topology.flink_values import parse_memory_size

NUMBERS = ("wanted", "pending", "missing")
LABELS = ("session_cluster", "cluster_per_job")
"""The names of MODES in results."""


class TaskManagers(NamedTuple):
    """Slots and process memory of a TaskManager, and how many there may be (None: no limit)."""

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
    """The TaskManagers that a plan was made for (`recorded`: its options), but for what is given now.

    Raises ConfigurationError for slots, a memory or a number that no cluster has; `memory_argument` is how
    the memory is given.
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
        raise ConfigurationError(f"{argument} {text!r}: found no memory", "e.g. 1728m or 4g")
    return size


def jobs_placed(
    topologies: pl.DataFrame, required_slots: pl.DataFrame, task_managers: TaskManagers
) -> pl.DataFrame:
    """The table PLACED: what each job needs. In: topology_id and name; the table required_slots."""
    return place_jobs(topologies, required_slots, task_managers.slots, task_managers.available)


def sums_of_jobs(placed: pl.DataFrame) -> dict[str, int]:
    """`jobs`, their `slots`, and for each mode the jobs placed, their slots, and sums of TaskManagers."""
    counted = [pl.len().alias("jobs"), pl.col("slots").sum()]
    for mode in MODES:
        is_placed = pl.col(f"{mode}_placed")
        counted += [
            is_placed.sum().alias(f"{mode}_jobs"),
            pl.col("slots").filter(is_placed).sum().alias(f"{mode}_slots"),
            *(pl.col(f"{mode}_{n}").sum() for n in NUMBERS),
        ]
    return placed.select(counted).row(0, named=True)


def size_in_json(placed: pl.DataFrame, task_managers: TaskManagers, topology: str | None) -> dict[str, Any]:
    """The TaskManagers, and what jobs need of them: sums by mode of all jobs, or the named job."""
    said: dict[str, Any] = {
        "task_manager": {"slots": task_managers.slots, "process_bytes": task_managers.process_bytes},
        "available_task_managers": task_managers.available,
    }
    if topology is None:
        sums = sums_of_jobs(placed)
        said |= {"jobs": sums["jobs"], "slots": sums["slots"]}
        columns: dict[str, tuple[str, ...]] = dict.fromkeys(MODES, ("jobs", "slots", *NUMBERS))
    else:
        sums = next(iter(placed.filter(pl.col("name") == topology).rows(named=True)), {})
        said |= {"topology": topology, "slots": sums.get("slots")}
        columns = dict.fromkeys(MODES, ("placed", *NUMBERS))
    for mode, label in zip(MODES, LABELS, strict=True):
        said[label] = {name: sums[f"{mode}_{name}"] for name in columns[mode]} if sums else None
    return said
