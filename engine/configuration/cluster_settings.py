"""Settings of the cluster that jobs are planned for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.engine.configuration.cluster_options import CLUSTER_OPTIONS, NETWORK_FIELDS, STATE_BACKEND
from penstock.engine.configuration.memory_options import memory_options
from penstock.engine.configuration.option import Option
from penstock.plans.resources.memory_options import FLINK_MEMORY, MemoryOptions
from penstock.plans.resources.network_options import PROFILES, NetworkOptions
from penstock.plans.resources.task_manager import TaskManager
from penstock.plans.vocabulary import SlotSharingStrategy


class ClusterSettings(NamedTuple):
    """Settings of the cluster; None, or absence from a map, means that nobody has set it.

    `network`: fields of NetworkOptions by name. `recorded`: what a store records of the plan's cluster beside
    what the options of a command say.
    """

    slot_sharing: SlotSharingStrategy | None = None
    slots: int | None = None
    process_size: str | None = None
    memory: MemoryOptions = FLINK_MEMORY
    network: Mapping[str, int] = {}
    state_backend: str | None = None
    recorded: Mapping[str, str] = {}


NO_CLUSTER_SETTINGS = ClusterSettings()
"""Nothing is set."""


# The cluster that a stored plan was made for.


class RecordedCluster(NamedTuple):
    """Its TaskManagers and network options."""

    task_manager: TaskManager
    network: NetworkOptions


def recorded_cluster(recorded: Mapping[str, str]) -> RecordedCluster:
    """What `recorded`, the options that a store records of a plan, say of its cluster."""
    values = {option.key: _value(option, recorded) for option in CLUSTER_OPTIONS}
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


def _value(option: Option, recorded: Mapping[str, str]) -> Any:
    """The default where nothing is recorded, or a text for people only, such as "no limit"."""
    try:
        return option.parse(recorded[option.key]) if option.key in recorded else option.default
    except ValueError:
        return option.default
