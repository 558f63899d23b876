"""Read the stages of an application from Spark's event log."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_STEP = "spark.job.description"


class Stage(NamedTuple):
    """A stage of the run; times are seconds since the epoch.

    `tasks` are the seconds of each task, `rows` the rows that each read. `reads` are the numbers of the
    stages whose shuffles it reads, `job` is the submission and completion time of its job, `step` the
    description of that job, which `name` contains, or else Spark's name of the stage.
    """

    name: str
    submitted: float
    completed: float
    tasks: Sequence[float]
    rows: Sequence[int]
    shuffled_bytes: int
    number: int
    reads: frozenset[int]
    job: tuple[float, float]
    step: str


def events(log: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of an application; `log` is its uncompressed file, or its folder.

    Raises FileNotFoundError if there is no log, ValueError for logs of several applications.
    """
    files = sorted(log.glob("**/events_*"), key=_number) if log.is_dir() else [log]
    if not files:
        raise FileNotFoundError(f"no event log in {log}")
    if len({file.parent for file in files}) > 1:
        raise ValueError(f"{log} must have the event log of only one application: name its folder")
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _number(file: Path) -> int:
    """Return the number of a file in a log of several, events_NUMBER_APPLICATION."""
    return int(file.name.split("_")[1])


def stages_of(application_events: Iterable[dict[str, Any]]) -> list[Stage]:
    """Return the completed stages, by submission, from the events of an application."""
    tasks: dict[tuple[int, int], list[tuple[int, float, int, int]]] = defaultdict(list)
    submitted: dict[int, float] = {}
    completed: dict[int, float] = {}
    steps: dict[int, str] = {}
    job_of: dict[int, int] = {}
    stage_infos = []
    for event in application_events:
        match event["Event"]:
            case "SparkListenerJobStart":
                submitted[event["Job ID"]] = event["Submission Time"] / 1000
                steps[event["Job ID"]] = (event.get("Properties") or {}).get(_STEP, "")
                for number in event["Stage IDs"]:
                    job_of.setdefault(number, event["Job ID"])
            case "SparkListenerJobEnd":
                completed[event["Job ID"]] = event["Completion Time"] / 1000
            case "SparkListenerTaskEnd":
                info, metrics = event["Task Info"], event.get("Task Metrics") or {}
                if not info["Failed"] and not info.get("Killed"):
                    written = _metric(metrics, "Shuffle Write Metrics", "Shuffle Bytes Written")
                    read = _metric(metrics, "Shuffle Read Metrics", "Total Records Read")
                    read += _metric(metrics, "Input Metrics", "Records Read")
                    spent = (info["Finish Time"] - info["Launch Time"]) / 1000
                    key = event["Stage ID"], event["Stage Attempt ID"]
                    tasks[key].append((info["Launch Time"], spent, read, written))
            case "SparkListenerStageCompleted":
                info = event["Stage Info"]
                if "Completion Time" in info:
                    stage_infos.append(info)

    def stage(info: dict[str, Any]) -> Stage:
        number = info["Stage ID"]
        times = info["Submission Time"] / 1000, info["Completion Time"] / 1000
        stage_tasks = sorted(tasks[number, info["Stage Attempt ID"]])
        job = job_of.get(number, -1)
        return Stage(
            f"{number} {steps.get(job) or info['Stage Name']}",
            *times,
            [spent for _, spent, *_ in stage_tasks],
            [read for _, _, read, _ in stage_tasks],
            sum(written for *_, written in stage_tasks),
            number,
            frozenset(info.get("Parent IDs", ())),
            (submitted.get(job, times[0]), completed.get(job, times[1])),
            steps.get(job, ""),
        )

    return sorted(map(stage, stage_infos), key=lambda stage: stage.submitted)


def _metric(metrics: Mapping[str, Any], group: str, name: str) -> int:
    return int((metrics.get(group) or {}).get(name, 0))
