"""A run's tasks, scheduled on other numbers of cores."""

import pytest

from benchmarks.simulate_cores import seconds_on, skewed, stages_of


def stage(number, submitted, completed, tasks, failed=()):
    """The events of a stage; times in seconds, a task each of `tasks` seconds."""
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
            "Task Metrics": {"Shuffle Write Metrics": {"Shuffle Bytes Written": 10}},
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


def test_skew_counts_where_it_costs_time():
    stages = stages_of([*stage(0, 0, 9, [1, 1, 1, 5]), *stage(1, 9, 10, [0.01, 0.3]), *stage(2, 10, 12, [2])])
    ((found, ratio),) = skewed(stages, 2)
    assert found.name == "0 collect"
    assert ratio == pytest.approx(2.5)
