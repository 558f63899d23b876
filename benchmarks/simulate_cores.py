"""How long a run on Spark would take on other numbers of cores: its tasks, scheduled again.

    penstock plan DIR --out STORE --planner joins \\
        --conf spark.eventLog.enabled=true --conf spark.eventLog.dir=DIR
    python -m benchmarks.simulate_cores LOG [--cores 1,2,16,100,1000] [--skew 2]

LOG is the event log of an application (not compressed, not rolled). Every task takes the seconds that it
took in the run, so the run should have had a core for each task that ran at once. The tasks of a stage are
given to cores as they become free, in the order of the log; a stage begins when the stages that were
complete at its submission are complete; what the driver does while no stage runs stays as it is. Exchanges
cost what they cost in the run: networks are not simulated. A stage with fewer tasks than cores leaves cores
idle, which is what limits a run sooner or later: the stages that take longest on the most cores are listed,
and those with a task above `--skew` times the mean.
"""

import argparse
import heapq
import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
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
    """A stage of the run: times are seconds since the epoch, `tasks` are the seconds of each."""

    name: str
    submitted: float
    completed: float
    tasks: Sequence[float]
    shuffled_bytes: int

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
    tasks: dict[Key, list[tuple[int, float, int]]] = defaultdict(list)
    found = []
    for event in events:
        match event["Event"]:
            case "SparkListenerTaskEnd":
                info, metrics = event["Task Info"], event.get("Task Metrics") or {}
                if not info["Failed"] and not info.get("Killed"):
                    written = (metrics.get("Shuffle Write Metrics") or {}).get("Shuffle Bytes Written", 0)
                    spent = (info["Finish Time"] - info["Launch Time"]) / 1000
                    key = event["Stage ID"], event["Stage Attempt ID"]
                    tasks[key].append((info["Launch Time"], spent, written))
            case "SparkListenerStageCompleted":
                info = event["Stage Info"]
                if "Completion Time" in info:
                    found.append(info)
    return sorted(
        (_stage(info, sorted(tasks[info["Stage ID"], info["Stage Attempt ID"]])) for info in found),
        key=lambda stage: stage.submitted,
    )


def _stage(info: dict[str, Any], tasks: Sequence[tuple[int, float, int]]) -> Stage:
    times = info["Submission Time"] / 1000, info["Completion Time"] / 1000
    name = f"{info['Stage ID']} {info['Stage Name']}"
    return Stage(name, *times, [spent for _, spent, _ in tasks], sum(written for *_, written in tasks))


def seconds_on(stages: Sequence[Stage], cores: int) -> float:
    """The run's seconds from its first stage to its last, on that many cores.

    Stages that overlapped in the run share the cores: none of them is given less than its tasks need alone,
    and together they take no less than all their tasks need.
    """
    total, end = 0.0, None
    for group in _overlapping(stages):
        begun = min(stage.submitted for stage in group)
        total += 0.0 if end is None else begun - end
        end = max(stage.completed for stage in group)
        together = sum(sum(stage.tasks) for stage in group) / cores
        total += max(together, _longest_way(group, cores))
    return total


def _longest_way(group: Sequence[Stage], cores: int) -> float:
    """The longest sum of stages of which each was submitted when the one before was complete."""
    ends: list[tuple[float, float]] = []
    for stage in group:
        before = max((end for completed, end in ends if completed <= stage.submitted), default=0.0)
        ends.append((stage.completed, before + stage.seconds_on(cores)))
    return max(end for _, end in ends)


def _overlapping(stages: Sequence[Stage]) -> Iterable[list[Stage]]:
    """Stages by stretches of time in which there always was one."""
    group: list[Stage] = []
    for stage in stages:
        if group and stage.submitted > max(other.completed for other in group):
            yield group
            group = []
        group.append(stage)
    if group:
        yield group


def skewed(stages: Sequence[Stage], times: float) -> list[tuple[Stage, float]]:
    """Stages with a task above `times` the mean, and how many times it is; short tasks do not count."""
    found = [
        (stage, max(stage.tasks) / mean(stage.tasks))
        for stage in stages
        if stage.tasks and max(stage.tasks) >= LEAST_SKEWED_SECONDS
    ]
    return [(stage, ratio) for stage, ratio in found if ratio > times]


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
    for stage, ratio in skewed(stages, times):
        console.print(f"skewed: {stage.name[:60]}: a task takes {ratio:.1f} times the mean")


if __name__ == "__main__":
    main()
