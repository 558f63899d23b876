"""Slot sharing strategies: small jobs, random ones against the reference, and what Flink 2.3.0 says.

flink_slots.jsonl.gz holds 300 topologies: 250 random ones of all modes, with parallelisms up to 40 and 34 of
them with co-location groups; and 50 batch jobs of pointwise edges that are pipelined or blocking, in 18 of
which blocking edges close a cycle of regions. Per topology, for every vertex in topological order: `slots`
(of the task balanced strategy, numbered by first appearance) and `regions` (numbered by their first task).
They were made with a copy of the oracle (FlinkOracle.java) whose dumpSlots creates
TaskBalancedPreferredSlotSharingStrategy.Factory instead of LocalInputPreferredSlotSharingStrategy.Factory,
and writes getExecutionSlotSharingGroup of every task in the order of getVerticesTopologically, with
getPipelinedRegionOfVertex of the scheduling topology beside it. The slots of the other strategy are in
../../golden.
"""

import gzip
import json
from pathlib import Path

import pytest

from penstock.plans.slots import strategies
from penstock.plans.slots.assign_slots import share_slots
from penstock.plans.slots.strategies import deal_in_turn, prefer_producers_slots
from tests.plans.execution_graph.job_graph_tables import (
    flink_tasks,
    job_graph_tables,
    jobs_of_random_topologies,
    numbers_of_jobs,
)
from tests.reference import slot_strategies, slots
from tests.reference.jobs import Edge, PlannedJob, job_of_topology, make_job, random_job

GOLDEN = sorted(
    path
    for path in (Path(__file__).parents[2] / "golden").glob("*.jsonl.gz")
    if not path.name.startswith("settings")  # wrong ones, which the reference planner does not know
)
BLOCKING = "BLOCKING"
STRATEGIES = {
    "prefer_local_inputs": (prefer_producers_slots, slots.prefer_local_inputs),
    "balance_tasks": (deal_in_turn, slot_strategies.balance_tasks),
}
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


def slots_of(jobs, kernel, seed=0):
    (strategy,) = (name for name, known in strategies.STRATEGIES.items() if known is kernel)
    found = share_slots(*job_graph_tables(jobs, seed), slot_sharing_strategy=strategy)
    return numbers_of_jobs(found.to_dicts(), jobs, "slots")


def slots_by_hand(kernel, *args, **kwargs):
    """Of a job by hand, by vertex in topological order."""
    (found,) = slots_of({1: make_job(*args, **kwargs)}, kernel)
    return [found[vertex] for vertex in sorted(found)]


def preferred(*args, **kwargs):
    return slots_by_hand(prefer_producers_slots, *args, **kwargs)


def balanced(*args, **kwargs):
    return slots_by_hand(deal_in_turn, *args, **kwargs)


def reference(planned, share):
    """Vertex id to its subtasks' slots, numbered as `share` creates them."""
    found = {v.id: [-1] * planned.execution.parallelism[v.id] for v in planned.job.topological_order}
    for number, tasks in enumerate(share(planned.job, planned.groups, planned.execution)):
        for vertex_id, subtask in tasks:
            found[vertex_id][subtask] = number
    return found


def by_first_appearance(numbers):
    places: dict[int, int] = {}
    return [[places.setdefault(slot, len(places)) for slot in of_vertex] for of_vertex in numbers]


def test_pointwise_consumers_are_where_the_first_of_their_producers_is():
    assert preferred([5, 2], [Edge(0, 1, pointwise=True)]) == [[0, 1, 2, 3, 4], [0, 2]]


def test_of_consumers_of_one_producer_the_first_shares_its_slot():
    """The others are left over, and take the oldest free slots in the end: here those are new."""
    assert preferred([2, 5], [Edge(0, 1, pointwise=True)]) == [[0, 1], [0, 2, 3, 1, 4]]


def test_what_is_left_over_takes_the_oldest_free_slots_before_new_ones():
    edges = [Edge(0, 1, pointwise=True), Edge(1, 2, pointwise=True)]
    assert preferred([3, 2, 4], edges) == [[0, 1, 2], [0, 1], [0, 2, 1, 3]]


def test_consumers_of_all_producers_share_one_list():
    """The slots of 1 in their order: the first two consumers get them, the third the oldest free slot."""
    assert preferred([5, 2, 3], [Edge(0, 1, pointwise=True), Edge(1, 2)])[2] == [0, 2, 1]


def test_later_inputs_are_asked_where_earlier_ones_have_no_free_slot():
    edges = [Edge(0, 1, BLOCKING, True), Edge(0, 2), Edge(1, 3), Edge(2, 3)]
    assert preferred([4, 1, 2, 3], edges, slot_sharing={2: 0})[3] == [0, 1, 2]
    assert preferred([6, 2, 1, 3], [Edge(0, 1, pointwise=True), Edge(2, 3), Edge(1, 3)])[3] == [0, 3, 1]


def test_producers_in_other_slot_sharing_groups_do_not_count():
    edges = [Edge(0, 1), Edge(1, 2)]
    assert preferred([2, 3, 2], edges, slot_sharing={1: 1}) == [[0, 1], [2, 3, 4], [0, 1]]


def test_slots_are_numbered_as_they_are_created_whichever_group_they_are_of():
    """3 needs one more slot of the first group, when the second group has its slots already."""
    assert preferred([1, 2, 1, 2], slot_sharing={1: 9, 2: 9}) == [[0], [1, 2], [1], [0, 3]]


def test_co_located_tasks_share_a_slot_before_inputs_are_asked():
    edges = [Edge(0, 1, pointwise=True), Edge(2, 3, pointwise=True)]
    parallelisms, together = [4, 2, 3, 3], {1: 5, 3: 5}
    assert preferred(parallelisms, edges)[1::2] == [[0, 2], [0, 1, 2]]
    assert preferred(parallelisms, edges, co_location=together)[1::2] == [[0, 2], [0, 2, 1]]


def test_inputs_behind_the_first_count_where_co_located_tasks_have_its_slots():
    """5 shares slots 0 and 2 with 2; the slot its third task would take from 3 is gone, so 4 is asked."""
    edges = [Edge(0, 1), Edge(1, 2, pointwise=True), Edge(0, 3), Edge(0, 4, pointwise=True)]
    edges += [Edge(3, 5, pointwise=True), Edge(4, 5)]
    found = preferred([6, 5, 2, 3, 2, 3], edges, co_location={2: 0, 5: 0})
    assert found[2:] == [[0, 2], [0, 1, 2], [0, 3], [0, 2, 3]]


def test_all_to_all_edges_of_many_tasks_take_a_step_a_task():
    """10,000 to 10,000 edges of which none is on the diagonal; 10^8 steps would take minutes."""
    many = 10_000
    edges = [Edge(0, 1, pointwise=True), Edge(1, 2), Edge(2, 3)]
    found = preferred([2 * many, many, many + 1, many], edges)
    assert found[1] == list(range(0, 2 * many, 2))
    assert found[2] == [*found[1], 1]
    assert found[3] == found[1]


def test_balanced_vertices_go_on_where_the_one_before_stopped():
    assert balanced([3, 5, 3, 3, 5]) == [[0, 1, 2], [0, 1, 2, 3, 4], [3, 4, 0], [1, 2, 3], [0, 1, 2, 3, 4]]


def test_balanced_slot_sharing_groups_are_numbered_one_after_the_other():
    assert balanced([2, 1, 1, 1], slot_sharing={0: 4, 2: 4, 3: 4}) == [[1, 2], [0], [1], [2]]


def test_balanced_co_located_tasks_begin_in_the_least_loaded_slots():
    """1 takes 2 and 0, as 0 is the first of equals; the next vertex goes on at the least loaded, 1."""
    assert balanced([2, 2, 1, 3, 2], co_location={1: 0, 4: 0}) == [[0, 1], [2, 0], [1], [0, 1, 2], [2, 0]]


@every_strategy
@pytest.mark.parametrize("most_subtasks", [3, 9, 40])
def test_random_jobs_have_the_references_slots(strategy, most_subtasks):
    kernel, share = STRATEGIES[strategy]
    jobs = {seed: random_job(seed, 1 + seed % 25, most_subtasks=most_subtasks) for seed in range(250)}
    assert slots_of(jobs, kernel) == [reference(planned, share) for planned in jobs.values()]


@every_strategy
def test_two_vertices_of_any_parallelism_have_the_references_slots(strategy):
    """Widening from and narrowing to a third, so that slots are not the subtasks' numbers."""
    kernel, share = STRATEGIES[strategy]
    jobs = {
        1_000 * producers + 10 * consumers + pointwise: make_job(
            [29, producers, consumers],
            [Edge(0, 1, pointwise=True), Edge(1, 2, pointwise=bool(pointwise))],
            co_location={1: 0, 2: 0} if (producers + consumers) % 7 == 0 else None,
        )
        for producers in range(1, 41)
        for consumers in range(1, 41, 1 + producers % 3)
        for pointwise in (0, 1)
    }
    assert slots_of(jobs, kernel) == [reference(planned, share) for planned in jobs.values()]


@pytest.fixture(scope="module")
def topologies():
    return jobs_of_random_topologies()


@every_strategy
def test_topologies_have_the_references_slots(strategy, topologies):
    kernel, share = STRATEGIES[strategy]
    assert slots_of(topologies, kernel) == [reference(planned, share) for planned in topologies.values()]


@every_strategy
def test_slots_do_not_depend_on_the_order_of_rows_or_on_other_topologies(strategy):
    kernel, _ = STRATEGIES[strategy]
    jobs = {seed - 20: random_job(seed, 1 + seed % 12, most_subtasks=9) for seed in range(40)}
    alone = [slots_of({1: planned}, kernel)[0] for planned in jobs.values()]
    for seed in range(3):
        assert slots_of(jobs, kernel, seed) == alone


@every_strategy
def test_a_co_location_group_across_slot_sharing_groups_is_planned_in_parts(strategy):
    """Flink refuses it; its topology goes through the passes with the others."""
    kernel, _ = STRATEGIES[strategy]
    found = slots_by_hand(
        kernel, [2, 3, 2, 3], slot_sharing={1: 1, 3: 1}, co_location=dict.fromkeys(range(4), 0)
    )
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert not set(found[0]) & set(found[1])


def test_balanced_slots_are_flinks():
    lines = flink_tasks()
    jobs = {i: job_of_topology(line["topology"]) for i, line in enumerate(lines)}
    found = slots_of(jobs, deal_in_turn)
    wrong = [
        line["topology"]["name"]
        for line, planned, numbers in zip(lines, jobs.values(), found, strict=True)
        if by_first_appearance([numbers[v.id] for v in planned.job.topological_order]) != line["slots"]
    ]
    assert wrong == []
    assert len(lines) == 300


@pytest.mark.slow
@pytest.mark.parametrize("path", GOLDEN, ids=[path.stem for path in GOLDEN])
def test_preferred_slots_are_flinks(path):
    """A slot of golden data is its tasks `vertex_subtask`."""
    expected: list[list[str]] = []
    jobs: dict[int, PlannedJob] = {}
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            if "slots" in line["expected"]:
                jobs[len(jobs)] = job_of_topology(line["topology"])
                expected.append(line["expected"]["slots"])
    assert len(expected) >= 3
    for numbers, of_flink in zip(slots_of(jobs, prefer_producers_slots), expected, strict=True):
        tasks: dict[int, list[str]] = {}
        for vertex_id, of_vertex in numbers.items():
            for subtask, slot in enumerate(of_vertex):
                tasks.setdefault(slot, []).append(f"{vertex_id}_{subtask}")
        assert sorted(tasks) == list(range(len(tasks)))
        assert sorted(" ".join(sorted(of_slot)) for of_slot in tasks.values()) == sorted(of_flink)
