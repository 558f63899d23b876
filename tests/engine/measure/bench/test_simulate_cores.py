"""A run's tasks, scheduled on other numbers of cores."""

import json

import pytest

from benchmarks.event_log import events, stages_of
from benchmarks.simulate_cores import larger, seconds_on, skewed
from tests.engine.measure.bench.made_up_events import job, stage


def test_tasks_are_spread_and_what_the_driver_does_stays():
    stages = stages_of([*stage(0, 0, 4, [1] * 8), {"Event": "Other"}, *stage(1, 7, 10, [3], failed=[9])])
    assert [len(found.tasks) for found in stages] == [8, 1]
    assert stages[0].shuffled_bytes == 80
    by_cores = {cores: seconds_on(stages, cores) for cores in (1, 2, 8, 1000)}
    assert by_cores == {1: 8 + 3 + 3, 2: 4 + 3 + 3, 8: 1 + 3 + 3, 1000: 1 + 3 + 3}


def test_stages_side_by_side_share_cores_and_follow_each_other_as_they_did():
    beside = stages_of([*stage(0, 0, 4, [4]), *stage(1, 0, 4, [4])])
    assert [seconds_on(beside, cores) for cores in (1, 2, 9)] == [8, 4, 4]
    chained = stages_of([*stage(0, 0, 2, [2]), *stage(1, 2, 5, [3]), *stage(2, 0, 5, [1, 1])])
    assert [seconds_on(chained, cores) for cores in (1, 9)] == [7, 5]


def test_jobs_that_were_under_way_at_once_do_not_wait_for_one_another():
    """Each of two jobs reads a stage of its own; they took turns, as there was one core."""
    first = [*job(0, 0, 6, 0, 2), *stage(0, 0, 2, [2]), *stage(2, 2, 6, [2], reads=[0])]
    second = [*job(1, 0, 8, 1, 3), *stage(1, 0, 4, [2]), *stage(3, 4, 8, [2], reads=[1])]
    beside = stages_of([*first, *second])
    assert [seconds_on(beside, cores) for cores in (1, 2, 9)] == [8, 4, 4]
    then = [*job(2, 7, 10, 4), *stage(4, 7, 10, [3])]
    assert seconds_on(stages_of([*then, *first, *second]), 9) == 4 + 1 + 3


def test_cores_take_tasks_of_the_job_that_was_submitted_first():
    """The first job's second stage is ready while the other job has tasks left: it need not wait for them."""
    first = [*job(0, 0, 20, 0, 1), *stage(0, 0, 1, [1]), *stage(1, 1, 20, [10], reads=[0])]
    second = [*job(1, 0, 20, 2), *stage(2, 0, 20, [2] * 6)]
    assert seconds_on(stages_of([*first, *second]), 2) == 12


def test_skew_counts_where_it_costs_time():
    skew = stage(0, 0, 9, [1, 1, 1, 5], rows=[3, 3, 3, 11])
    stages = stages_of([*skew, *stage(1, 9, 10, [0.01, 0.3]), *stage(2, 10, 12, [2])])
    ((found, seconds, rows),) = skewed(stages, 2)
    assert found.name == "0 collect"
    assert [seconds, rows] == pytest.approx([2.5, 2])


def test_a_larger_topology_has_more_tasks_and_longer_walks():
    walk = stages_of([*stage(0, 0, 3, [3], rows=[5]), *stage(1, 3, 5, [1, 1]), *stage(2, 5, 5.2, [0.2])])
    tenfold = [larger(one, 10) for one in walk]
    assert [[len(one.tasks), sum(one.tasks)] for one in tenfold] == [[1, 30], [20, 20], [1, 0.2]]
    assert [one.shuffled_bytes for one in tenfold] == [100, 200, 10]
    assert seconds_on(tenfold, 4) == pytest.approx(30 + 5 + 0.2)


def test_a_log_may_be_a_folder(tmp_path):
    (tmp_path / "eventlog_v2_local-1").mkdir()
    with pytest.raises(FileNotFoundError, match="no event log"):
        list(events(tmp_path))
    file = tmp_path / "eventlog_v2_local-1" / "events_1_local-1"
    file.write_text(json.dumps({"Event": "Other"}) + "\n")
    assert list(events(tmp_path)) == list(events(file)) == [{"Event": "Other"}]
    (tmp_path / "eventlog_v2_local-2").mkdir()
    (tmp_path / "eventlog_v2_local-2" / "events_1_local-2").write_text("")
    with pytest.raises(ValueError, match="only one application"):
        list(events(tmp_path))
