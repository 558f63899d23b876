"""Tables of reference jobs, for the kernels over tasks."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from tests.reference.jobs import PlannedJob, job_of_topology
from tests.reference.random_topologies import MODES, random_topology
from tests.reference.refusal import FlinkRefusalError
from tests.reference.slot_groups import MUST_BE_PIPELINED, pipelined_regions

_FLINK = Path(__file__).parents[2] / "plans" / "slots" / "flink_slots.jsonl.gz"
TaskNumbers = dict[str, list[int]]
"""Vertex id to the numbers of its subtasks."""


def job_graph_tables(jobs: Mapping[int, PlannedJob], seed: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    """ordered_vertices and placed_edges by topology_id; edges otherwise in any order."""
    rng = Random(seed)
    vertices: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    for topology_id, planned in sorted(jobs.items()):
        vertices += _vertex_rows(topology_id, planned)
        of_topology = [*_edge_rows(topology_id, planned)]
        rng.shuffle(of_topology)
        edges += of_topology
    return pl.DataFrame(vertices, _VERTICES), pl.DataFrame(edges, _EDGES)


_VERTICES = {
    "topology_id": pl.Int64,
    **dict.fromkeys(
        ("vertex", "parallelism", "slot_sharing_group", "co_location_group", "pipelined_region"), pl.Int32
    ),
}
_EDGES = {
    "topology_id": pl.Int64,
    **dict.fromkeys(("source_rank", "target_rank", "input_index"), pl.Int32),
    **dict.fromkeys(("all_to_all", "pipelined"), pl.Boolean),
}


def numbers_of_jobs(rows: Iterable[Any], jobs: Mapping[int, PlannedJob], column: str) -> list[TaskNumbers]:
    """The task numbers of each job. Every vertex has exactly one row."""
    found: dict[int, TaskNumbers] = {topology_id: {} for topology_id in jobs}
    for row in rows:
        of_topology = found[row["topology_id"]]
        vertex_id = jobs[row["topology_id"]].job.vertices[row["vertex"]].id
        assert vertex_id not in of_topology
        of_topology[vertex_id] = row[column]
    return list(found.values())


def _vertex_rows(topology_id: int, planned: PlannedJob) -> Iterator[dict[str, Any]]:
    region_of = pipelined_regions(planned.job)
    first_of_region: dict[str, int] = {}
    for order, vertex in enumerate(planned.job.topological_order):
        yield {
            "topology_id": topology_id,
            "vertex": vertex.chain.head,
            "parallelism": planned.execution.parallelism[vertex.id],
            "slot_sharing_group": planned.groups.slot_sharing[vertex.id],
            "co_location_group": planned.groups.co_location.get(vertex.id, -1),
            "pipelined_region": first_of_region.setdefault(region_of[vertex.id], order),
        }


def _edge_rows(topology_id: int, planned: PlannedJob) -> Iterator[dict[str, Any]]:
    rank = {vertex.chain.head: place for place, vertex in enumerate(planned.job.topological_order)}
    for vertex in planned.job.topological_order:
        for index, edge in enumerate(vertex.inputs):
            yield {
                "topology_id": topology_id,
                "source_rank": rank[edge.data_set.producer.chain.head],
                "target_rank": rank[vertex.chain.head],
                "input_index": index,
                "all_to_all": not edge.data_set.pointwise,
                "pipelined": edge.data_set.type in MUST_BE_PIPELINED,
            }


def flink_tasks() -> list[dict[str, Any]]:
    """Topologies with the slots and regions of their tasks by Flink 2.3.0: see test_slot_sharing.py."""
    with gzip.open(_FLINK, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def jobs_of_random_topologies() -> dict[int, PlannedJob]:
    """The jobs of random topologies of every mode that Flink does not refuse."""
    jobs: dict[int, PlannedJob] = {}
    for mode in MODES:
        for seed in range(70):
            try:
                jobs[len(jobs)] = job_of_topology(random_topology(seed, 3 + seed % 40, mode=mode))
            except FlinkRefusalError:
                continue
    assert len(jobs) > 180
    return jobs
