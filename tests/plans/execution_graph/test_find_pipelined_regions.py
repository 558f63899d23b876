"""Scheduling regions: small jobs, random ones against the reference, and what Flink 2.3.0 says.

../slots/test_slot_sharing.py says how Flink's were made.
"""

from itertools import count

import pytest

from penstock.plans.execution_graph.find_pipelined_regions import find_pipelined_regions
from tests.plans.execution_graph.job_graph_tables import (
    flink_tasks,
    job_graph_tables,
    jobs_of_random_topologies,
    numbers_of_jobs,
)
from tests.reference.execution_graph import consumed_partitions
from tests.reference.jobs import Edge, job_of_topology, make_job, random_job
from tests.reference.scheduling_regions import scheduling_regions

BLOCKING = "BLOCKING"


def regions_of(jobs, seed=0):
    found = find_pipelined_regions(*job_graph_tables(jobs, seed))
    return numbers_of_jobs(found.to_dicts(), jobs, "regions")


def regions(*args, **kwargs):
    """Of a job by hand, by vertex in topological order."""
    (found,) = regions_of({1: make_job(*args, **kwargs)})
    return [found[vertex] for vertex in sorted(found)]


def reference(planned):
    job, parallelism = planned.job, planned.execution.parallelism
    region_of = scheduling_regions(job, parallelism, consumed_partitions)
    numbers = count()
    first: dict[tuple[str, int], int] = {}
    return {
        v.id: [first.setdefault(region_of.find((v.id, i)), next(numbers)) for i in range(parallelism[v.id])]
        for v in job.topological_order
    }


def test_pipelined_all_to_all_edges_make_one_region():
    assert regions([2, 3], [Edge(0, 1)]) == [[0, 0], [0, 0, 0]]


def test_tasks_that_nothing_connects_are_regions_of_their_own():
    assert regions([2, 3], [Edge(0, 1, BLOCKING)]) == [[0, 1], [2, 3, 4]]


@pytest.mark.parametrize(
    ("parallelisms", "expected"),
    [
        ([2, 2], [[0, 1], [0, 1]]),
        ([3, 2], [[0, 1, 1], [0, 1]]),
        ([2, 5], [[0, 1], [0, 0, 0, 1, 1]]),
        ([3, 2, 3], [[0, 1, 1], [0, 1], [0, 0, 1]]),
        ([2, 3, 2], [[0, 0], [0, 0, 0], [0, 0]]),
        ([3, 4, 2], [[0, 1, 1], [0, 0, 1, 1], [0, 1]]),
    ],
)
def test_pipelined_pointwise_edges_connect_tasks(parallelisms, expected):
    edges = [Edge(i, i + 1, pointwise=True) for i in range(len(parallelisms) - 1)]
    assert regions(parallelisms, edges) == expected


def test_a_blocking_all_to_all_edge_inside_a_logical_region_makes_it_one_region():
    """Without it 0 and 2 would be connected by subtask."""
    pointwise = [Edge(0, 1, pointwise=True), Edge(1, 2, pointwise=True)]
    assert regions([2, 2, 2], pointwise) == [[0, 1]] * 3
    assert regions([2, 2, 2], [*pointwise, Edge(0, 2, BLOCKING)]) == [[0, 0]] * 3


def test_blocking_edges_that_close_a_cycle_merge_regions():
    """2 to 3 leads from the first region into the second, 0 to 2 back."""
    pipelined = [Edge(a, b, pointwise=True) for a, b in ((0, 1), (1, 2), (0, 3))]
    forth, back = Edge(2, 3, BLOCKING, True), Edge(0, 2, BLOCKING, True)
    two = [[0, 1, 1], [0, 1], [0, 0, 1], [0, 1]]
    for blocking in ([], [forth], [back]):
        assert regions([3, 2, 3, 2], [*pipelined, *blocking]) == two
    assert regions([3, 2, 3, 2], [*pipelined, forth, back]) == [[0] * 3, [0] * 2, [0] * 3, [0] * 2]


def test_an_all_to_all_edge_elsewhere_does_not_make_a_logical_region_whole():
    edges = [Edge(0, 1, pointwise=True), Edge(1, 2, BLOCKING), Edge(2, 3)]
    assert regions([2, 1, 2, 1], edges) == [[0, 0], [0], [3, 3], [3]]


def test_numbers_begin_anew_in_each_topology_whatever_the_order_of_rows():
    job = make_job([3, 2, 3], [Edge(0, 1, pointwise=True)])
    alone = {"0000": [0, 1, 1], "0001": [0, 1], "0002": [5, 6, 7]}
    for seed in range(5):
        assert regions_of({7: job, -3: job, 2**40: job}, seed) == [alone] * 3


@pytest.mark.parametrize("most_subtasks", [3, 9, 40])
def test_random_jobs_have_the_references_regions(most_subtasks):
    jobs = {seed: random_job(seed, 1 + seed % 25, most_subtasks=most_subtasks) for seed in range(250)}
    assert regions_of(jobs) == [reference(planned) for planned in jobs.values()]


def test_cycles_of_random_jobs_are_the_references():
    jobs = {seed: random_job(seed, 16, most_subtasks=20, only_pointwise=True) for seed in range(200)}
    assert regions_of(jobs) == [reference(planned) for planned in jobs.values()]


def test_topologies_have_the_references_regions():
    jobs = jobs_of_random_topologies()
    assert regions_of(jobs) == [reference(planned) for planned in jobs.values()]


def test_topologies_have_flinks_regions():
    lines = flink_tasks()
    jobs = {i: job_of_topology(line["topology"]) for i, line in enumerate(lines)}
    found = regions_of(jobs)
    names = [line["topology"]["name"] for line in lines]
    wrong = [
        name
        for name, line, planned, numbers in zip(names, lines, jobs.values(), found, strict=True)
        if [numbers[v.id] for v in planned.job.topological_order] != line["regions"]
    ]
    assert wrong == []
