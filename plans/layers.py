"""The layers of a plan: their order and their tables."""

from plans.vocabulary import Layer


def layers_until(until: Layer) -> list[Layer]:
    """The layers from the first up to and including that one."""
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
"""Layer to its tables: the name in plans.tables, and the name of the table of passes that holds the rows."""
