"""The layers of a plan, their tables, and the options of planning."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.plans.resources.divide_memory import TaskManager
from penstock.plans.resources.memory_and_buffers import FLINK_2_3, NetworkOptions
from penstock.plans.topology.input_errors import MAX_LINE_BYTES
from penstock.plans.topology.job_defaults import NO_DEFAULTS, JobDefaults
from penstock.plans.vocabulary import DEFAULT_SLOT_SHARING_STRATEGY, Layer, SlotSharingStrategy


def layers_until(until: Layer) -> list[Layer]:
    """Return the layers from the first up to and including `until`."""
    return list(Layer)[: list(Layer).index(until) + 1]


LAYER_TABLES: dict[Layer, dict[str, str]] = {
    Layer.TOPOLOGY: {
        "topologies": "topologies",
        "transformations": "transformations",
        "job_settings": "job_settings",
    },
    Layer.STREAM_GRAPH: {"stream_nodes": "stream_nodes", "stream_edges": "stream_edges"},
    Layer.JOB_GRAPH: {
        "job_vertices": "job_vertices",
        "chained_operators": "chained_operators",
        "job_edges": "connected_edges",
        "intermediate_data_sets": "intermediate_data_sets",
        "slot_sharing_groups": "slot_sharing_groups",
        "co_location_groups": "co_location_groups",
    },
    Layer.EXECUTION_GRAPH: {
        "execution_job_vertices": "execution_job_vertices",
        "execution_vertices": "execution_vertices",
        "intermediate_results": "intermediate_results",
        "intermediate_result_partitions": "intermediate_result_partitions",
        "execution_edges": "execution_edges",
    },
    Layer.SLOTS: {
        "execution_slot_sharing_groups": "execution_slot_sharing_groups",
        "required_slots": "required_slots",
        "network_buffers": "network_buffers",
        "managed_memory": "managed_memory",
    },
}
"""Layer to its tables: the name in plans.tables to the name that passes use for the rows."""


if TYPE_CHECKING:
    import polars as pl

    from penstock.plans.custom_planners.decisions import Decision


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to plan: what a plan depends on besides its topologies.

    `until` is the last layer. Slot sharing strategy, network and TaskManager are the configuration of Flink's
    cluster, on which the slots layer depends. `decided`: validated answers of custom planners, by decision
    (see plans.custom_planners); blocks do not follow them. `job_defaults` apply to settings that topologies
    leave unset, and a longer line of a file than `max_line_bytes` is rejected. `recorded` is what stores
    keep of all this: of `job_defaults` only the requested parallelism, because a topology's fingerprint
    follows from the rest.
    """

    until: Layer = Layer.SLOTS
    slot_sharing_strategy: SlotSharingStrategy = DEFAULT_SLOT_SHARING_STRATEGY
    network: NetworkOptions = FLINK_2_3
    task_manager: TaskManager = field(default_factory=TaskManager)
    decided: "tuple[tuple[Decision, pl.DataFrame], ...]" = ()
    job_defaults: JobDefaults = field(default=NO_DEFAULTS, hash=False)
    max_line_bytes: int = MAX_LINE_BYTES
    recorded: dict[str, str] = field(default_factory=dict, hash=False)


DEFAULT_OPTIONS = PlanOptions()
"""All layers, on a cluster with Flink's defaults."""
