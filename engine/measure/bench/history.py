"""The history of a benchmark's figures over the runs in one folder, and where they changed."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from deltalake import DeltaTable

from penstock.plans.errors import InputError

LEAST_RUNS = 2
"""Runs on either side of a change: one slow run is no change."""

LEAST_CHANGE = 0.05
"""A smaller change of the median, as a share of it, is not told."""

PENALTY = 2.0
"""What a change has to explain. Of steady series with normal noise, one in fifteen of ten runs is told to
have changed, and one in forty of twenty."""

MOST_RUNS = 300
"""Only the newest runs are looked at."""

_LEAST_NOISE = 0.02
_SERIES = ("suite", "size", "planner", "until", "processor")
_KEYS = (*_SERIES, "operators", "date", "repetition", "place", "planning_seconds", "penstock_version")


class BenchRun(NamedTuple):
    """What one run of the benchmark measured of a planner on one input."""

    date: str
    version: str
    seconds: float  #: of planning: median over processes, of the warm plans where there are any
    measurements: int


class ChangePoint(NamedTuple):
    """From the run of this place on, the median is another one."""

    place: int
    before: float
    after: float


class Series(NamedTuple):
    """The runs of one planner on one input on one kind of processor, oldest first."""

    suite: str
    operators: int
    planner: str
    until: str
    processor: str
    runs: tuple[BenchRun, ...]
    changes: tuple[ChangePoint, ...]


def read_history(folder: Path) -> list[Series]:
    """The series of all runs that a benchmark's folder has rows of, by suite, operators and planner.

    Runs that planned to different layers, or on other processors, are not compared. InputError where no
    benchmark has written.
    """
    table = folder / "results"
    if not DeltaTable.is_deltatable(str(table)):
        raise InputError(f"{folder} holds no results of penstock bench", "name the folder with --out")
    delta_table = DeltaTable(str(table))
    known = {field.name for field in delta_table.schema().fields}
    rows = delta_table.to_pyarrow_table(columns=[key for key in _KEYS if key in known]).to_pylist()
    by_series: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["place"] >= 0 and row["planning_seconds"]:
            by_series[tuple(row.get(key) or "" for key in _SERIES)].append(row)
    series = [_series(of_series) for of_series in by_series.values()]
    return sorted(series, key=lambda history: history[:5])


def _series(rows: Sequence[Mapping[str, Any]]) -> Series:
    by_date: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_date[row["date"]].append(row)
    runs = tuple(_run(date, by_date[date]) for date in sorted(by_date)[-MOST_RUNS:])
    first = rows[0]
    return Series(
        first["suite"],
        first["operators"],
        first["planner"],
        first.get("until") or "",
        first["processor"] or "",
        runs,
        tuple(find_changes([run.seconds for run in runs])),
    )


def _run(date: str, rows: Sequence[Mapping[str, Any]]) -> BenchRun:
    warm = [row for row in rows if row["place"] > 0] or rows
    of_process: dict[int, list[float]] = defaultdict(list)
    for row in warm:
        of_process[row["repetition"]].append(row["planning_seconds"])
    seconds = median(median(times) for times in of_process.values())
    return BenchRun(date, rows[0]["penstock_version"] or "", seconds, len(of_process))


def find_changes(seconds: Sequence[float]) -> list[ChangePoint]:
    """Where a series of medians changed its level: the division into stretches that explains it best.

    A change is told if it explains more than chance would: it must take more than PENALTY times the logarithm
    of the number of runs off the distances of the runs' logarithms from the median of their stretch, in units
    of the noise. The noise is told from how far runs are from the one before, and is at least 2 percent. One
    slow run changes no median.
    Stretches have LEAST_RUNS runs or more, and medians that differ by LEAST_CHANGE.

    Source: Jackson et al., An algorithm for optimal partitioning of data on an interval (IEEE Signal
    Processing Letters 12, 2005).
    """
    count = len(seconds)
    logs = [log(duration) for duration in seconds]
    penalty = PENALTY * _noise(logs) * log(max(count, 2))
    best: list[tuple[float, int]] = [(0.0, 0)] + [(float("inf"), 0)] * count
    for end in range(LEAST_RUNS, count + 1):
        best[end] = min(
            (best[begin][0] + _unexplained(logs[begin:end]) + penalty, begin)
            for begin in range(end - LEAST_RUNS + 1)
        )
    places, end = [], count if count >= LEAST_RUNS else 0
    while end > 0:
        end = best[end][1]
        places.append(end)
    return _told(seconds, places[-2::-1])


def _noise(logs: Sequence[float]) -> float:
    """The standard deviation that normal noise has whose runs are so far from the one before."""
    steps = [abs(after - before) for before, after in pairwise(logs)]
    return max(_LEAST_NOISE, median(steps) / 0.954 if steps else 0.0)


def _unexplained(logs: Sequence[float]) -> float:
    middle = median(logs)
    return sum(abs(value - middle) for value in logs)


def _told(seconds: Sequence[float], places: Iterable[int]) -> list[ChangePoint]:
    ends = [*places, len(seconds)]
    changes, begin = [], 0
    for place, end in pairwise(ends):
        before, after = median(seconds[begin:place]), median(seconds[place:end])
        if abs(after / before - 1) >= LEAST_CHANGE:
            changes.append(ChangePoint(place, before, after))
            begin = place
    return changes
