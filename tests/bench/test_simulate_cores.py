"""A run's tasks, scheduled on other numbers of cores."""

import pytest

from benchmarks.simulate_cores import seconds_on, skewed, stages_of


def job(number, submitted, completed, *stages):
    """The events of a job; those of its stages are not among them."""
    times = {"Submission Time": 1000 * submitted}, {"Completion Time": 1000 * completed}
    start = {"Event": "SparkListenerJobStart", "Job ID": number, "Stage IDs": stages} | times[0]
    return [start, {"Event": "SparkListenerJobEnd", "Job ID": number} | times[1]]


def stage(number, submitted, completed, tasks, failed=(), reads=(), rows=()):
    """The events of a stage; times in seconds, a task each of `tasks` seconds and `rows` read."""
    ends = [
        {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": number,
            "Stage Attempt ID": 0,
            "Task Info": {
                "Launch Time": 1000 * submitted + place,
                "Finish Time": 1000 * (submitted + spent) + place,
                "Failed": is_failed,
            },
            "Task Metrics": {
                "Shuffle Write Metrics": {"Shuffle Bytes Written": 10},
                "Shuffle Read Metrics": {"Total Records Read": rows[place] if place < len(rows) else 0},
                "Input Metrics": {"Records Read": 1},
            },
        }
        for is_failed, of_kind in ((False, tasks), (True, failed))
        for place, spent in enumerate(of_kind)
    ]
    info = {
        "Stage ID": number,
        "Stage Attempt ID": 0,
        "Stage Name": "collect",
        "Submission Time": 1000 * submitted,
        "Completion Time": 1000 * completed,
        "Parent IDs": reads,
    }
    return [*ends, {"Event": "SparkListenerStageCompleted", "Stage Info": info}]


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
