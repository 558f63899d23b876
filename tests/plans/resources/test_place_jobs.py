"""place_jobs against TaskManagers that are filled one after the other."""

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.views.size_cluster import PLACED, place_batches, place_jobs, require_task_managers
from penstock.plans.errors import ConfigurationError

GIVEN = pa.schema(
    [
        ("topology_id", pa.int64()),
        ("name", pa.string()),
        ("slots", pa.int64()),
        ("largest_slot_sharing_group", pa.int32()),
        ("largest_slots", pa.int32()),
    ]
)


def greedy(jobs, slots_per_task_manager, available, shared):
    """For each job (wanted, pending, missing, placed); `free` holds the free slots of every TaskManager."""
    free: list[int] = []
    found = []
    for slots in jobs:
        trial, rest = [], slots
        for left in free:
            taken = min(rest, left if shared else 0)
            trial.append(left - taken)
            rest -= taken
        while rest:
            taken = min(rest, slots_per_task_manager)
            trial.append(slots_per_task_manager - taken)
            rest -= taken
        wanted = len(trial) - len(free)
        missing = 0 if available is None else max(0, len(trial) - available)
        if not missing:
            free = trial
        found.append((wanted, 0 if missing else wanted, missing, not missing))
    return found


def both_modes(jobs, slots_per_task_manager, available):
    session, own = (greedy(jobs, slots_per_task_manager, available, shared) for shared in (True, False))
    return [a + b for a, b in zip(session, own, strict=True)]


def placed_in_batches(jobs, cuts, slots_per_task_manager, available):
    """Through the Arrow pass, with batches of the lengths `cuts`."""
    table = pa.Table.from_pylist(
        [{"topology_id": i, "name": f"{i}", "slots": slots} for i, slots in enumerate(jobs)], GIVEN
    )
    batches: list[pa.RecordBatch] = []
    start = 0
    for cut in [*cuts, len(jobs)]:
        part = table.slice(start, cut).combine_chunks()
        batches += part.to_batches() or [pa.RecordBatch.from_pylist([], GIVEN)]
        start += cut
    out = pa.Table.from_batches(place_batches(iter(batches), slots_per_task_manager, available))
    assert out.column_names == PLACED.names
    assert out.column("topology_id").to_pylist() == list(range(len(jobs)))
    return list(zip(*(out.column(c).to_pylist() for c in PLACED.names[len(GIVEN) :]), strict=True))


@given(
    st.lists(st.integers(0, 12), max_size=20),
    st.lists(st.integers(0, 5), max_size=4),
    st.integers(1, 5),
    st.none() | st.integers(0, 30),
)
@settings(deadline=None, derandomize=True)
def test_jobs_are_placed_as_by_filling_task_managers(jobs, cuts, slots_per_task_manager, available):
    placed = placed_in_batches(jobs, cuts, slots_per_task_manager, available)
    assert placed == both_modes(jobs, slots_per_task_manager, available)


@given(st.lists(st.integers(0, 12), max_size=20), st.integers(1, 5))
@settings(deadline=None, derandomize=True)
def test_without_a_limit_a_session_cluster_has_no_task_manager_too_many(jobs, slots_per_task_manager):
    placed = placed_in_batches(jobs, [], slots_per_task_manager, None)
    assert sum(job[1] for job in placed) == -(-sum(jobs) // slots_per_task_manager)


def test_a_job_that_does_not_fit_takes_nothing_and_smaller_ones_come_after_it():
    """3 free slots and 1 TaskManager are left when the second job comes."""
    assert placed_in_batches([5, 8, 3, 4], [], 4, 3) == [
        (2, 2, 0, True, 2, 2, 0, True),
        (2, 0, 1, False, 2, 0, 1, False),
        (0, 0, 0, True, 1, 1, 0, True),
        (1, 1, 0, True, 1, 0, 1, False),
    ]


def test_more_slots_than_32_bits_count():
    assert placed_in_batches([2**40, 2**40], [1], 2**39 + 1, 3)[1] == (2, 0, 1, False, 2, 0, 1, False)


NAMES = ["b", "a", "é", "B", "😀", "", "a a", "z"]
GROUPS = {
    "b": [(0, 2), (1, 3), (2, 3)],
    "a": [(0, 4)],
    "é": [(1, 6), (0, 6)],
    "B": [(0, 1)],
    "😀": [(0, 40), (1, 1)],
    "": [(0, 5)],
    "a a": [(0, 2)],
}
LARGEST = {"b": (1, 3), "a": (0, 4), "é": (0, 6), "B": (0, 1), "😀": (0, 40), "": (0, 5), "a a": (0, 2)}


def tables(names):
    ids = {name: 100 - i for i, name in enumerate(NAMES)}
    groups = [
        {"topology_id": ids[name], "slot_sharing_group": group, "slots": slots}
        for name in names
        for group, slots in GROUPS.get(name, ())
    ]
    jobs = [{"topology_id": ids[name], "name": name} for name in names]
    return pl.DataFrame(jobs), pl.DataFrame(groups)


def test_jobs_come_by_name_whatever_the_order_of_rows():
    in_order = sorted(NAMES)
    slots = [sum(count for _, count in GROUPS.get(name, ())) for name in in_order]
    expected = [
        (name, count, *LARGEST.get(name, (None, 0)), *numbers)
        for name, count, numbers in zip(in_order, slots, both_modes(slots, 3, 12), strict=True)
    ]
    for names in (NAMES, NAMES[::-1]):
        topologies, required_slots = tables(names)
        placed = place_jobs(topologies, required_slots, 3, 12)
        assert placed.columns == PLACED.names
        assert [row[1:] for row in placed.rows()] == expected


def test_one_job_has_its_place_among_all():
    topologies, required_slots = tables(NAMES)
    jobs = place_jobs(topologies, required_slots, 3, None)
    assert jobs.filter(pl.col("name") == "B").select("session_wanted", "job_wanted").rows() == [(0, 1)]


@pytest.mark.parametrize(("slots", "available"), [(0, None), (-1, 3), (1, -1)])
def test_numbers_that_no_cluster_has_are_refused(slots, available):
    with pytest.raises(ConfigurationError, match=r"must be at least [01], got (0|-1)"):
        require_task_managers(slots, available)
