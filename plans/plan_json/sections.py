"""The sections of a plan JSON line, one for each layer, and the keys of nodes and edges in `stream_graph`."""

from typing import NamedTuple


class Section(NamedTuple):
    """One key of a plan line: written where the plan has all of `tables`."""

    key: str
    tables: tuple[str, ...]
    empty: str  #: of a topology without operators


SECTIONS = (
    Section("stream_graph", ("stream_nodes", "stream_edges"), '{"nodes":[],"edges":[]}'),
    Section(
        "job_graph",
        ("job_vertices", "chained_operators", "job_edges", "intermediate_data_sets"),
        '{"vertices":[],"topological_order":[]}',
    ),
    Section(
        "execution_graph",
        ("job_vertices", "job_edges", "execution_job_vertices", "execution_edges"),
        '{"vertices":[]}',
    ),
    Section("slots", ("job_vertices", "execution_slot_sharing_groups"), "[]"),
)

NODE_KEYS = (
    "id",
    "name",
    "parallelism",
    "max_parallelism",
    "slot_sharing_group",
    "co_location_group",
    "uid",
    "uid_hash",
    "buffer_timeout",
    "chaining",
)
EDGE_KEYS = (
    "source",
    "target",
    "type_number",
    "partitioner",
    "exchange_mode",
    "output_tag",
    "edge_id",
    "chainable",
)
