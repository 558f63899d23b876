"""What does not fit in memory is named, as far as its names are still there."""

import polars as pl

from penstock.plans.execution_graph.refuse_execution_graphs import name_most_tasks
from penstock.plans.tables.column_types import TOPOLOGY

VERTICES = pl.DataFrame({TOPOLOGY: [7, 7, 8], "vertex": [1, 2, 1], "parallelism": [2, 5, 6]})


def test_the_topology_with_most_tasks_and_its_widest_vertex_are_named():
    names = {
        "topologies": pl.DataFrame({TOPOLOGY: [7, 8], "name": ["orders", "clicks"]}),
        "job_vertices": pl.DataFrame(
            {TOPOLOGY: [7, 7, 8], "vertex": [1, 2, 1], "name": ["in", "join", "in"]}
        ),
    }
    assert name_most_tasks({"ordered_vertices": VERTICES, **names}) == (
        "topology orders has 7 tasks in 2 vertices, 5 of them in vertex 2 (join)"
    )
    assert name_most_tasks({"ordered_vertices": VERTICES}) == (
        "topology id 7 has 7 tasks in 2 vertices, 5 of them in vertex 2"
    )
