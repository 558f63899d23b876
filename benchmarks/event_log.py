"""What Spark's event log says of the stages of an application."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_STEP = "spark.job.description"


class Stage(NamedTuple):
    """A stage of the run: times are seconds since the epoch, `tasks` the seconds of each, `rows` those read.

    `reads` are the numbers of the stages whose shuffles it reads, `job` is when its job was submitted and
    completed, `step` the description of that job, which `name` has, or else what Spark calls the stage.
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
    """The events of an application: `log` is the file that holds them, not compressed, or its folder.

    Raises FileNotFoundError if there is none, ValueError if there are those of several applications.
    """
    files = sorted(log.glob("**/events_*"), key=_number) if log.is_dir() else [log]
    if not files:
        raise FileNotFoundError(f"no event log in {log}")
    if len({file.parent for file in files}) > 1:
        raise ValueError(f"event logs of several applications in {log}: name the folder of one")
    for file in files:
        with file.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _number(file: Path) -> int:
    """Of a file of a log that Spark writes into several, events_NUMBER_APPLICATION."""
    return int(file.name.split("_")[1])


def stages_of(of_application: Iterable[dict[str, Any]]) -> list[Stage]:
    """The stages that were completed, by submission, out of the events of an application."""
    tasks: dict[tuple[int, int], list[tuple[int, float, int, int]]] = defaultdict(list)
    submitted: dict[int, float] = {}
    completed: dict[int, float] = {}
    steps: dict[int, str] = {}
    job_of: dict[int, int] = {}
    found = []
    for event in of_application:
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
                    found.append(info)

    def stage(info: dict[str, Any]) -> Stage:
        number = info["Stage ID"]
        times = info["Submission Time"] / 1000, info["Completion Time"] / 1000
        of_stage = sorted(tasks[number, info["Stage Attempt ID"]])
        job = job_of.get(number, -1)
        return Stage(
            f"{number} {steps.get(job) or info['Stage Name']}",
            *times,
            [spent for _, spent, *_ in of_stage],
            [read for _, _, read, _ in of_stage],
            sum(written for *_, written in of_stage),
            number,
            frozenset(info.get("Parent IDs", ())),
            (submitted.get(job, times[0]), completed.get(job, times[1])),
            steps.get(job, ""),
        )

    return sorted(map(stage, found), key=lambda stage: stage.submitted)


def _metric(metrics: Mapping[str, Any], group: str, name: str) -> int:
    return int((metrics.get(group) or {}).get(name, 0))
