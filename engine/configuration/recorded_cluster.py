"""The cluster that a stored plan was made for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from engine.configuration.cluster_options import NETWORK_FIELDS, STATE_BACKEND
from engine.configuration.contradictions import memory_options
from engine.configuration.model import OPTIONS, typed_values
from plans.resources.network_options import PROFILES, NetworkOptions
from plans.resources.task_manager import TaskManager


class RecordedCluster(NamedTuple):
    """Its TaskManagers and network options."""

    task_manager: TaskManager
    network: NetworkOptions


def recorded_cluster(recorded: Mapping[str, str]) -> RecordedCluster:
    """What `recorded`, the options that a store records of a plan, say of its cluster."""
    keys = {option.key for option in OPTIONS}
    values, _ = typed_values({key: text for key, text in recorded.items() if key in keys})
    network = {field: values[key] for key, field in NETWORK_FIELDS.items() if key in recorded}
    return RecordedCluster(
        TaskManager(
            recorded["task_manager_memory"],
            int(recorded["slots_per_task_manager"]),
            memory_options(values),
            values[STATE_BACKEND.key] if STATE_BACKEND.key in recorded else None,
        ),
        replace(PROFILES[recorded["network"]], **network),
    )
