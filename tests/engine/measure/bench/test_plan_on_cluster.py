"""What workers took while they walked, and while they did not."""

from benchmarks.plan_on_cluster import Sample, Walk, is_walking, walks_of


def ended(stage, executor, start, end):
    """The event of a task; times in seconds."""
    info = {"Executor ID": executor, "Launch Time": 1000 * start, "Finish Time": 1000 * end}
    return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Info": info}


def test_walks_are_the_tasks_that_are_alone_in_their_stages():
    events = [
        ended(0, "1", 0, 5),
        ended(0, "2", 0, 5),
        {"Event": "Other"},
        ended(1, "2", 5, 9),
        ended(2, "1", 9, 9.5),
    ]
    walks = walks_of(events)
    assert walks == [Walk("2", 5, 9)]
    looks = [Sample(0, executor, time, 2, 1) for executor, time in (("2", 4.9), ("2", 5), ("2", 9), ("1", 7))]
    assert [is_walking(look, walks) for look in looks] == [False, True, True, False]
