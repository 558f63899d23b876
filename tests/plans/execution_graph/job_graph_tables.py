"""Tables of reference jobs, for the kernels over tasks."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.reference.jobs import PlannedJob, job_of_topology
from tests.reference.random_topologies import MODES, random_topology
from tests.reference.refusal import FlinkRefusalError
from tests.reference.slot_groups import MUST_BE_PIPELINED, pipelined_regions

_FLINK = Path(__file__).parents[2] / "plans" / "slots" / "flink_slots.jsonl.gz"
TaskNumbers = dict[str, list[int]]
"""Vertex id to the numbers of its subtasks."""

_ROWS = pa.schema(
    [
        ("topology_id", pa.int64()),
        *((name, pa.int32()) for name in ("vertex", "target", "order", "parallelism", "slot_sharing_group")),
        ("co_location_group", pa.int32()),
        ("pipelined_region", pa.int32()),
        ("all_to_all", pa.bool_()),
        ("pipelined", pa.bool_()),
    ]
)


def job_graph_tables(jobs: Mapping[int, PlannedJob], seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """The job_graph_rows of several topologies by topology_id, sorted by it; otherwise in any order."""
    rng = Random(seed)
    rows = []
    for topology_id, planned in sorted(jobs.items()):
        of_topology = [*_vertex_rows(topology_id, planned), *_edge_rows(topology_id, planned)]
        rng.shuffle(of_topology)
        rows += of_topology
    both = pa.Table.from_pylist(rows, _ROWS)
    is_edge = both.column("target").is_valid()
    return both.filter(pc.invert(is_edge)), both.filter(is_edge)


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
            "order": order,
            "parallelism": planned.execution.parallelism[vertex.id],
            "slot_sharing_group": planned.groups.slot_sharing[vertex.id],
            "co_location_group": planned.groups.co_location.get(vertex.id, -1),
            "pipelined_region": first_of_region.setdefault(region_of[vertex.id], order),
        }


def _edge_rows(topology_id: int, planned: PlannedJob) -> Iterator[dict[str, Any]]:
    for vertex in planned.job.topological_order:
        for index, edge in enumerate(vertex.inputs):
            yield {
                "topology_id": topology_id,
                "vertex": edge.data_set.producer.chain.head,
                "target": vertex.chain.head,
                "order": index,
                "all_to_all": not edge.data_set.pointwise,
                "type": edge.data_set.type,
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
