"""The sections of a plan JSON line, one for each layer."""

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
