"""The cluster that a stored plan was made for."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.engine.configuration.cluster_options import CLUSTER_OPTIONS, NETWORK_FIELDS, STATE_BACKEND
from penstock.engine.configuration.memory_options import memory_options
from penstock.engine.configuration.option import Option
from penstock.plans.resources.network_options import PROFILES, NetworkOptions
from penstock.plans.resources.task_manager import TaskManager


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
