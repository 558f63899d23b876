"""Events of Spark's event log, as far as benchmarks read them."""


def job(number, submitted, completed, *stages, step=""):
    """The events of a job, `step` its description; those of its stages are not among them."""
    times = {"Submission Time": 1000 * submitted}, {"Completion Time": 1000 * completed}
    start = {"Event": "SparkListenerJobStart", "Job ID": number, "Stage IDs": stages} | times[0]
    start["Properties"] = {"spark.job.description": step} if step else {}
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
