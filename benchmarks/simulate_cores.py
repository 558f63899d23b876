"""How long a run on Spark would take on other numbers of cores: its tasks, scheduled again.

    penstock plan DIR --out STORE --planner joins \\
        --conf spark.eventLog.enabled=true --conf spark.eventLog.dir=DIR
    python -m benchmarks.simulate_cores LOG [--cores 1,2,16,100,1000] [--skew 2]

LOG is the event log of an application (not compressed, not rolled). Every task takes the seconds that it
took in the run, so the run should have had a core for each task that ran at once. The tasks of a stage are
given to cores as they become free, in the order of the log, and those of the job that was submitted first
before others. A stage begins when the stages that it reads, and the jobs that were complete when its own was
submitted, are complete, and the driver has taken the time in between that it took. A job that ran beside the
one whose rows it reads is taken not to wait for it. Exchanges cost what they cost in the run: networks are
not simulated. A stage with fewer tasks than cores leaves cores idle, which is what limits a run sooner or
later: the stages that take longest on the most cores are listed, and those with a task above `--skew` times
the mean, each with the most rows that one of its tasks read, over the mean too: about 1 where tasks have the
same to do, and the first of them meet code that has not been compiled yet.
"""

import argparse
import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

Key = tuple[int, int]
"""Stage and attempt."""

LEAST_SKEWED_SECONDS = 0.5
"""A task shorter than this limits nothing, whatever the mean."""


class Stage(NamedTuple):
    """A stage of the run: times are seconds since the epoch, `tasks` the seconds of each, `rows` those read.

    `reads` are the numbers of the stages whose shuffles it reads, `job` is when its job was submitted and
    completed.
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

    def seconds_on(self, cores: int) -> float:
        """The time until the last of its tasks ends."""
        free = [0.0] * min(cores, max(1, len(self.tasks)))
        for seconds in self.tasks:
            heapq.heapreplace(free, free[0] + seconds)
        return max(free)


def main() -> None:
    """Print seconds by cores, the longest stages and the skewed ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--cores", default="1,2,4,16,100,1000")
    parser.add_argument("--skew", type=float, default=2.0, help="task over mean from which a stage is listed")
    arguments = parser.parse_args()
    with arguments.log.open(encoding="utf-8") as lines:
        stages = stages_of(map(json.loads, lines))
    _print(stages, [int(number) for number in arguments.cores.split(",")], arguments.skew)


def stages_of(events: Iterable[dict[str, Any]]) -> list[Stage]:
    """The stages that were completed, by submission, out of the events of an application."""
    tasks: dict[Key, list[tuple[int, float, int, int]]] = defaultdict(list)
    submitted: dict[int, float] = {}
    completed: dict[int, float] = {}
    job_of: dict[int, int] = {}
    found = []
    for event in events:
        match event["Event"]:
            case "SparkListenerJobStart":
                submitted[event["Job ID"]] = event["Submission Time"] / 1000
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
            f"{number} {info['Stage Name']}",
            *times,
            [spent for _, spent, *_ in of_stage],
            [read for _, _, read, _ in of_stage],
            sum(written for *_, written in of_stage),
            number,
            frozenset(info.get("Parent IDs", ())),
            (submitted.get(job, times[0]), completed.get(job, times[1])),
        )

    return sorted(map(stage, found), key=lambda stage: stage.submitted)


def _metric(metrics: Mapping[str, Any], group: str, name: str) -> int:
    return int((metrics.get(group) or {}).get(name, 0))


def seconds_on(stages: Sequence[Stage], cores: int) -> float:
    """The run's seconds from its first stage to its last, on that many cores.

    A stage can begin as long after those it waits for as it did in the run: that is the driver's time. A core
    that becomes free takes a task of the job that was submitted first, as Spark's scheduler (FIFO) has it.
    """
    by_number = {stage.number: stage for stage in stages}
    waits = {s.number: [o for o in stages if o is not s and _waits(s, o)] for s in stages}
    awaited_by: dict[int, list[int]] = defaultdict(list)
    for number, others in waits.items():
        for other in others:
            awaited_by[other.number].append(number)
    left = {number: len(others) for number, others in waits.items()}
    running: dict[int, int] = {}
    ends: dict[int, float] = {}
    waiting: list[tuple[float, int, int]] = []
    events = [(_ready(by_number[n], [], ends, stages[0].submitted), True, n) for n in left if not left[n]]
    heapq.heapify(events)
    free = cores

    def ended(number: int, now: float) -> None:
        ends[number] = now
        for other in awaited_by[number]:
            left[other] -= 1
            if not left[other]:
                ready = _ready(by_number[other], waits[other], ends, stages[0].submitted)
                heapq.heappush(events, (ready, True, other))

    while events:
        now, is_ready, number = heapq.heappop(events)
        if is_ready:
            running[number] = len(by_number[number].tasks)
            waiting.extend((by_number[number].job[0], number, n) for n in range(running[number]))
            heapq.heapify(waiting)
        else:
            free += 1
            running[number] -= 1
        if not running[number]:
            ended(number, now)
        while free and waiting and not (events and events[0][0] <= now):
            _, of_stage, task = heapq.heappop(waiting)
            heapq.heappush(events, (now + by_number[of_stage].tasks[task], False, of_stage))
            free -= 1
    assert len(ends) == len(by_number), "stages that wait for one another"
    return max(ends.values(), default=0.0)


def _ready(stage: Stage, waits: Sequence[Stage], ends: Mapping[int, float], start: float) -> float:
    if not waits:
        return stage.submitted - start
    return max(ends[o.number] for o in waits) + stage.submitted - max(o.completed for o in waits)


def _waits(stage: Stage, other: Stage) -> bool:
    """Two jobs that were under way at once do not wait for one another, though they shared the cores."""
    return other.completed <= stage.submitted and (
        other.number in stage.reads or other.job[1] <= stage.job[0]
    )


def skewed(stages: Sequence[Stage], times: float) -> list[tuple[Stage, float, float]]:
    """Stages with a task above `times` the mean, and the most seconds and rows of a task over the mean.

    Short tasks do not count.
    """
    long = [stage for stage in stages if stage.tasks and max(stage.tasks) >= LEAST_SKEWED_SECONDS]
    found = [(stage, _most_over_mean(stage.tasks), _most_over_mean(stage.rows)) for stage in long]
    return [(stage, seconds, rows) for stage, seconds, rows in found if seconds > times]


def _most_over_mean(values: Sequence[float]) -> float:
    return max(values) / mean(values) if any(values) else 1.0


def _print(stages: Sequence[Stage], cores: Sequence[int], times: float) -> None:
    console = Console()
    alone = seconds_on(stages, 1)
    by_cores = Table("cores", "seconds", "times one core")
    for number in cores:
        seconds = seconds_on(stages, number)
        by_cores.add_row(f"{number:,}", f"{seconds:.1f}", f"{alone / seconds:.1f}" if seconds else "")
    console.print(by_cores)
    most = max(cores)
    longest = Table("stage", "tasks", "core-seconds", f"seconds on {most:,}", "MB shuffled")
    for stage in sorted(stages, key=lambda stage: -stage.seconds_on(most))[:12]:
        spent, shuffled = sum(stage.tasks), stage.shuffled_bytes / 1e6
        longest.add_row(
            stage.name[:60],
            f"{len(stage.tasks):,}",
            f"{spent:.1f}",
            f"{stage.seconds_on(most):.1f}",
            f"{shuffled:.1f}",
        )
    console.print(longest)
    for stage, seconds_ratio, rows_ratio in skewed(stages, times):
        console.print(
            f"skewed: {stage.name[:60]}: a task takes {seconds_ratio:.1f} times the mean, and reads "
            f"{rows_ratio:.1f} times the rows"
        )


if __name__ == "__main__":
    main()
