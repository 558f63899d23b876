"""Simulate a run on Spark on other numbers of cores: its tasks, scheduled again.

    penstock plan DIR --out STORE --planner blocks \\
        --conf spark.eventLog.enabled=true --conf spark.eventLog.dir=DIR
    python -m benchmarks.simulate_cores LOG [--cores 1,2,16,100,1000] [--times 1] [--skew 2]

LOG is the uncompressed event log of an application, or its folder. Every task takes the seconds that it took
in the run, so the run should have had a core for each task that ran at once. Free cores take the tasks of a
stage in the order of the log, and tasks of earlier jobs first. A stage begins when the stages that it reads,
and the jobs that were complete when its own was submitted, are complete, and after the driver's time in
between, as in the run. A job that ran at the same time as the job whose rows it reads is assumed not to wait
for it. Exchanges take the time of the run: networks are not simulated.

`--times N` assumes a topology N times as large: stages have N times the tasks, but a task of half a second or
more that is alone in its stage, like a walk, takes N times as long; the driver's time does not change. A
stage with fewer tasks than cores leaves cores idle, which eventually limits a run. So the output lists the
longest stages on the most cores, and the stages with a task above `--skew` times the mean, each with the most
rows that one of its tasks read, also over the mean: about 1 if tasks have equal work and the first of them
ran code that was not compiled yet.
"""

import argparse
import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

from rich.console import Console
from rich.table import Table

from benchmarks.event_log import Stage, events, stages_of

LEAST_SKEWED_SECONDS = 0.5
"""A shorter task limits nothing, whatever the mean, and is not a walk."""


def main() -> None:
    """Print seconds by cores, the longest stages and the skewed ones."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("log", type=Path)
    parser.add_argument("--cores", default="1,2,4,16,100,1000")
    parser.add_argument(
        "--skew", type=float, default=2.0, help="minimum of task over mean for a stage to be listed"
    )
    parser.add_argument("--times", type=int, default=1, help="the size of the topology, relative to the run")
    arguments = parser.parse_args()
    stages = [larger(stage, arguments.times) for stage in stages_of(events(arguments.log))]
    _print(stages, [int(number) for number in arguments.cores.split(",")], arguments.skew)


def larger(stage: Stage, times: int) -> Stage:
    """Return the stage for a topology `times` as large: a walk takes longer, others have more tasks."""
    if is_walk(stage):
        return stage._replace(tasks=[times * stage.tasks[0]], shuffled_bytes=times * stage.shuffled_bytes)
    if len(stage.tasks) == 1:
        return stage
    tasks, rows = [*stage.tasks] * times, [*stage.rows] * times
    return stage._replace(tasks=tasks, rows=rows, shuffled_bytes=times * stage.shuffled_bytes)


def is_walk(stage: Stage) -> bool:
    """Whether the stage has a single task that takes at least LEAST_SKEWED_SECONDS."""
    return len(stage.tasks) == 1 and stage.tasks[0] >= LEAST_SKEWED_SECONDS


def seconds_on(stages: Sequence[Stage], cores: int) -> float:
    """Return the run's seconds from its first stage to its last, on this many cores.

    A stage begins as long after those it waits for as in the run: that is the driver's time. A core that
    becomes free takes a task of the job that was submitted first, as in Spark's FIFO scheduler.
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
            _, stage_number, task = heapq.heappop(waiting)
            heapq.heappush(events, (now + by_number[stage_number].tasks[task], False, stage_number))
            free -= 1
    assert len(ends) == len(by_number), "stages wait for one another"
    return max(ends.values(), default=0.0)


def _ready(stage: Stage, waits: Sequence[Stage], ends: Mapping[int, float], start: float) -> float:
    if not waits:
        return stage.submitted - start
    return max(ends[o.number] for o in waits) + stage.submitted - max(o.completed for o in waits)


def _waits(stage: Stage, other: Stage) -> bool:
    """Whether a stage waits for another; jobs that ran at once share the cores, but do not wait."""
    return other.completed <= stage.submitted and (
        other.number in stage.reads or other.job[1] <= stage.job[0]
    )


def skewed(stages: Sequence[Stage], times: float) -> list[tuple[Stage, float, float]]:
    """Return stages with a task above `times` the mean, and the most seconds and rows over the mean.

    Short tasks do not count.
    """
    long = [stage for stage in stages if stage.tasks and max(stage.tasks) >= LEAST_SKEWED_SECONDS]
    ratios = [(stage, _most_over_mean(stage.tasks), _most_over_mean(stage.rows)) for stage in long]
    return [(stage, seconds, rows) for stage, seconds, rows in ratios if seconds > times]


def _most_over_mean(values: Sequence[float]) -> float:
    return max(values) / mean(values) if any(values) else 1.0


def alone_on(stage: Stage, cores: int) -> float:
    """Return the seconds until the last task of a stage ends if the stage has these cores alone."""
    free = [0.0] * min(cores, max(1, len(stage.tasks)))
    for seconds in stage.tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


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
    for stage in sorted(stages, key=lambda stage: -alone_on(stage, most))[:12]:
        spent, shuffled = sum(stage.tasks), stage.shuffled_bytes / 1e6
        longest.add_row(
            stage.name[:60],
            f"{len(stage.tasks):,}",
            f"{spent:.1f}",
            f"{alone_on(stage, most):.1f}",
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
