"""Results for a person at a terminal."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from math import comb, log
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from jinja2 import Environment, PackageLoader, StrictUndefined
from rich.table import Column

from penstock.engine.machine.replace_file import replace_file
from penstock.engine.output.people import is_terminal, print_table
from penstock.engine.output.print_line import print_line
from penstock.plans.errors import InputError
from penstock.plans.printable import printable_lines
from penstock.plans.vocabulary import Layer

# Medians over repetitions, and how sure they are: one row per suite, size and planner.


Row = dict[str, Any]
PHASES = ("read", "planning", "seconds", "hand_over", "other")
FLINK = "flink"
SLOWER = 1.25
"""A median of more than this many times the old one is a regression."""


def summarise(records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row per (suite, size, planner), in order of first appearance.

    `cold` and `warm` are medians by phase and layer (warm: over repetitions of the median in a process), null
    where nothing was measured; `points` are the repetitions' seconds of planning, warm if there is warm, and
    `interval` (see interval_of_median) that of their median; `spread` is their range as a share of it;
    `cpu_seconds` and `wall_seconds` are medians of whole processes, start-up and all plans.
    `operators_per_second` is of planning, and `ratio` how many times faster than Flink, or than the slowest
    planner of the case where Flink has no figure: the median over repetitions, in each of which both took
    their turns; `ratio_interval` is [low, high] of it.
    """
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["suite"], record["size"], record["planner"]), []).append(record)
    rows = [_row(of_group) for of_group in groups.values()]
    for row in rows:
        peers = [r for r in rows if (r["suite"], r["size"]) == (row["suite"], row["size"])]
        _relate(row, [peer for peer in peers if best_planning(peer)], groups)
    return rows


def best_planning(row: Mapping[str, Any]) -> float | None:
    """Seconds of planning, warm if there is warm, else cold."""
    return _planning(row["warm"] or row["cold"])


def _planning(times: Mapping[str, Any] | None) -> float | None:
    return None if times is None else times["planning"]


def _row(records: Sequence[Mapping[str, Any]]) -> Row:
    first = records[0]
    row: Row = {key: first[key] for key in ("suite", "size", "operators", "topologies", "planner")}
    row["repetitions"] = len(records)
    starts = [r["start_up_seconds"] for r in records if r["start_up_seconds"] is not None]
    row["start_up_seconds"] = median(starts) if starts else None
    row["cold"] = _medians([r["cold"] for r in records if r["cold"]])
    in_process = [_medians(r["warm"]) for r in records if r["warm"]]
    row["warm"] = _medians([times for times in in_process if times])
    peaks = [r["peak_memory_bytes"] for r in records if r["peak_memory_bytes"]]
    row["peak_memory_bytes"] = max(peaks) if peaks else None
    for used in ("cpu_seconds", "wall_seconds"):
        values = [r[used] for r in records if r.get(used)]
        row[used] = round(median(values), 3) if values else None
    row["points"] = list(_points(records).values())
    interval = interval_of_median(row["points"])
    row["interval"] = None if interval is None else [interval.low, interval.high, interval.confidence]
    row["spread"] = _spread(row["points"])
    spent = best_planning(row)
    row["operators_per_second"] = round(first["operators"] / spent) if spent else None
    row["failures"] = [r["failure"] for r in records if r["failure"]]
    return row


def _medians(times: Sequence[Mapping[str, Any]]) -> Row | None:
    if not times:
        return None
    layers = [layer for layer in times[0]["layers"] if all(layer in t["layers"] for t in times)]
    by_phase: Row = {}
    for phase in PHASES:
        values = [t[phase] for t in times if t[phase] is not None]
        by_phase[phase] = round(median(values), 6) if values else None
    by_phase["layers"] = {layer: round(median(t["layers"][layer] for t in times), 6) for layer in layers}
    return by_phase


def _points(records: Iterable[Mapping[str, Any]]) -> dict[int, float]:
    """Repetition to its seconds of planning: warm where any repetition has warm plans."""
    measured = [record for record in records if record["cold"] or record["warm"]]
    any_warm = any(record["warm"] for record in measured)
    seconds = {}
    for record in measured:
        times = _medians(record["warm"]) if any_warm else record["cold"]
        if times:
            seconds[record["repetition"]] = times["planning"]
    return seconds


def _spread(points: Sequence[float]) -> float | None:
    """The distance from the least to the largest, as a share of the median; None for fewer than two."""
    if len(points) < 2 or not median(points):
        return None
    return round((max(points) - min(points)) / median(points), 4)


def _relate(
    row: Row, peers: Sequence[Row], groups: Mapping[tuple[str, int, str], Sequence[Mapping[str, Any]]]
) -> None:
    row["ratio"], row["ratio_to"], row["ratio_interval"] = None, None, None
    if best_planning(row) is None or not peers:
        return
    base = next((p for p in peers if p["planner"] == FLINK), None) or max(
        peers, key=lambda peer: best_planning(peer) or 0
    )
    own, other = (
        _points(groups[measured_row["suite"], measured_row["size"], measured_row["planner"]])
        for measured_row in (row, base)
    )
    interval = interval_of_median(other[turn] / own[turn] for turn in own if turn in other and own[turn])
    row["ratio_to"] = base["planner"]
    if interval is None:  # they were never measured in the same repetition
        row["ratio"] = round((best_planning(base) or 0) / (best_planning(row) or 1), 3)
    else:
        row["ratio"] = round(interval.median, 3)
        row["ratio_interval"] = [round(interval.low, 3), round(interval.high, 3)]


def compare_results(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Row]:
    """One row per (suite, size, planner) that both summaries have: `ratio` new/old of the median of all but
    start-up, warm if both have warm, else cold; `slower` if it is above SLOWER.

    A planner that failed is slower if it did not fail in the old results; else it is left out.
    """
    before = {(row["suite"], row["size"], row["planner"]): row for row in old}
    rows = []
    for row in new:
        was = before.get((row["suite"], row["size"], row["planner"]))
        kind = next((k for k in ("warm", "cold") if was and was[k] and row[k]), None)
        compared: Row = {key: row[key] for key in ("suite", "size", "operators", "planner")}
        if was and kind:
            old_seconds, new_seconds = was[kind]["seconds"], row[kind]["seconds"]
            ratio = new_seconds / old_seconds if old_seconds else 1.0
            slower = ratio > SLOWER or (bool(row["failures"]) and not was["failures"])
            compared |= {"old": old_seconds, "new": new_seconds, "ratio": round(ratio, 3), "kind": kind}
            rows.append({**compared, "slower": slower})
        elif was and (was["warm"] or was["cold"]) and not was["failures"]:
            old_seconds = (was["warm"] or was["cold"])["seconds"]
            rows.append(
                {**compared, "old": old_seconds, "new": None, "ratio": None, "kind": None, "slower": True}
            )
    return rows


# How far from the true median the median of a few measurements may lie.


WANTED = 0.95


class Interval(NamedTuple):
    """`confidence`: the share of such intervals that hold the true median, 0 to 1."""

    median: float
    low: float
    high: float
    confidence: float


def interval_of_median(values: Iterable[float]) -> Interval | None:
    """The narrowest interval between order statistics that holds the median with WANTED confidence.

    Fewer than six values cannot give that much: theirs is from the least to the largest, with the confidence
    that this has (0.75 for three, 0 for one). None without values. It assumes nothing of how the values are
    distributed, only that they are independent.

    Source: Le Boudec, Performance Evaluation of Computer and Communication Systems (EPFL Press, 2010),
    theorem 2.1.
    """
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return None
    middle = count // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    left_out = 0  # values on either side that lie outside of the interval
    while left_out + 1 < (count + 1) // 2 and _confidence(count, left_out + 1) >= WANTED:
        left_out += 1
    return Interval(
        median, ordered[left_out], ordered[count - 1 - left_out], round(_confidence(count, left_out), 4)
    )


def _confidence(count: int, left_out: int) -> float:
    """The confidence of the interval that drops that many values on either side (binomial distribution)."""
    return 1 - 2 * sum(comb(count, below) for below in range(left_out + 1)) / 2**count if count > 1 else 0.0


# How sure a benchmark is of its answer, and what the answer is.


NOISY_SPREAD = 0.25
"""Repetitions of one planner that lie further apart than this share of their median are noisy."""

NOISY_SECONDS = 0.1
"""Differences of less than this are no sign of a noisy machine."""

BUSY_SHARE = 0.1
"""Share of the cores that others may use."""


def answers(rows: Sequence[Row]) -> list[str]:
    """One sentence for each suite, of its largest size that any planner has planned: who plans it fastest."""
    said = []
    for suite, of_suite in groupby(rows, key=lambda row: str(row["suite"])):
        planned = [row for row in of_suite if best_planning(row) is not None]
        if planned:
            largest = max(row["operators"] for row in planned)
            said.append(_answer(suite, [row for row in planned if row["operators"] == largest]))
    return said


def _answer(suite: str, rows: Sequence[Row]) -> str:
    first, *others = sorted(rows, key=lambda row: best_planning(row) or 0)
    text = (
        f"{suite}, {first['operators']:,} operators: {first['planner']} plans them in "
        f"{_seconds_text(best_planning(first))} s{_between(first['interval'], '', ' s')}"
    )
    if not others:
        return f"{text}; nothing to compare with."
    base = next((row for row in others if row["planner"] == first["ratio_to"]), others[-1])
    told = first["ratio_interval"] if first["ratio_to"] == base["planner"] else None
    ratio = first["ratio"] if told else (best_planning(base) or 0) / (best_planning(first) or 1)
    text += f", {ratio:,.3g} times as fast as {base['planner']}{_between(told, '', '')}."
    near = [row["planner"] for row in others if overlap(first["interval"], row["interval"])]
    if near:
        text += f" Within the noise of {' and '.join(near)}: repeat more often (--repeat)."
    return text


def _between(interval: Sequence[float] | None, before: str, after: str) -> str:
    """The ends of an interval, if it has two that differ."""
    if interval is None or interval[0] == interval[1]:
        return ""
    low, high = (f"{value:,.3g}" for value in interval[:2])
    return f" ({before}{low} to {high}{after})"


def overlap(first: Sequence[float] | None, other: Sequence[float] | None) -> bool:
    """Whether two intervals of more than one measurement share a value."""
    if first is None or other is None or not first[2] or not other[2]:
        return False
    return first[0] <= other[1] and other[0] <= first[1]


def doubts(results: Mapping[str, Any]) -> list[str]:
    """Why figures may be off: stopped early, too few repetitions, noise, others on the machine. Empty if
    nothing says so.
    """
    rows: Sequence[Row] = results["summary"]
    measurements, cores = results["measurements"], results["machine"]["cores"]
    repeat, turns = results["repeat"], results.get("turns", 0)
    said = []
    if len(measurements) < turns:
        said.append(
            f"stopped early: {len(measurements):,} of {turns:,} measurements were taken (--resume goes on)"
        )
    if repeat < 3:
        counted = "1 repetition" if repeat == 1 else f"{repeat} repetitions"
        said.append(f"{counted} cannot tell noise from a difference: --repeat 3 or more")
    noisy = [
        f"{row['suite']} {row['operators']:,} {row['planner']} {row['spread']:.0%}"
        for row in rows
        if (row["spread"] or 0) > NOISY_SPREAD and max(row["points"]) - min(row["points"]) > NOISY_SECONDS
    ]
    if noisy:
        shown = ", ".join(noisy[:3]) + (f" and {len(noisy) - 3:,} more" if len(noisy) > 3 else "")
        said.append(f"noisy: repetitions of the same work lie far apart, as shares of their median: {shown}")
    for name, who in (("others_cores", "other processes"), ("stolen_cores", "other virtual machines")):
        known = [record[name] for record in measurements if record.get(name) is not None]
        if known and median(known) > BUSY_SHARE * cores:
            said.append(f"not alone: {who} used {median(known):.1f} of {cores} cores meanwhile")
    return said


def _seconds_text(seconds: float | None) -> str:
    """Seconds with about three digits; a dash if nothing was measured."""
    if seconds is None:
        return "-"
    return f"{seconds:,.1f}" if seconds >= 100 else f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"


# Results in a folder: lines as they come, one JSON document, and rows of a Delta table.


FORMAT = 1

_LAYERS = [layer for layer in Layer if layer != Layer.TOPOLOGY]
ROWS = pa.schema(
    [
        ("date", pa.string()),
        ("suite", pa.string()),
        ("size", pa.int64()),
        ("operators", pa.int64()),
        ("topologies", pa.int64()),
        ("planner", pa.string()),
        ("until", pa.string()),
        ("repetition", pa.int32()),
        ("place", pa.int32()),
        ("load_average", pa.float64()),
        ("start_up_seconds", pa.float64()),
        ("read_seconds", pa.float64()),
        *((f"{layer}_seconds", pa.float64()) for layer in _LAYERS),
        ("hand_over_seconds", pa.float64()),
        ("other_seconds", pa.float64()),
        ("device_seconds", pa.float64()),
        ("planning_seconds", pa.float64()),
        ("seconds", pa.float64()),
        ("peak_memory_bytes", pa.int64()),
        ("process_cpu_seconds", pa.float64()),
        ("process_wall_seconds", pa.float64()),
        ("error", pa.string()),
        ("message", pa.string()),
        ("penstock_version", pa.string()),
        ("processor", pa.string()),
    ]
)
"""Keyed by (date, suite, size, planner, repetition, place); `place` 0 is the cold plan, others are warm; -1
is a failure before or after them."""


def append_line(folder: Path, record: Mapping[str, Any]) -> None:
    """Append one measurement to results.jsonl, so that a run that is stopped keeps what it has measured."""
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Replace results.json."""
    with replace_file(folder / "results.json") as file:
        file.write(f"{json.dumps(results, indent=1)}\n".encode())


def append_rows(folder: Path, results: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> None:
    """Append what was measured to the table."""
    rows = [row for record in measured for row in _rows(record, results)]
    if not rows:
        return
    write_deltalake(
        str(folder / "results"), pa.Table.from_pylist(rows, ROWS), mode="append", schema_mode="merge"
    )


def read_results(path: Path) -> dict[str, Any]:
    """A results.json. Raises InputError if the file is something else, or has another format."""
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        file_format, summary = results["format"], results["summary"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is no results.json of penstock bench: {error}") from error
    if file_format != FORMAT:
        raise InputError(f"{path}: found format {file_format}, allowed {FORMAT}")
    if not isinstance(summary, list):
        raise InputError(f"{path} is no results.json of penstock bench: its summary is no list")
    return results


def _rows(record: Mapping[str, Any], results: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    shared = {key: record[key] for key in ROWS.names if key in record}
    shared["date"], shared["until"] = results["date"], results["until"]
    shared["process_cpu_seconds"], shared["process_wall_seconds"] = (
        record.get(used) for used in ("cpu_seconds", "wall_seconds")
    )
    shared["penstock_version"] = results["versions"].get("penstock")
    shared["processor"] = results["machine"]["processor"]
    cold = [] if record["cold"] is None else [(0, record["cold"])]  # a session that is kept has none
    for place, times in [*cold, *enumerate(record["warm"], 1)]:
        layers = {f"{layer}_seconds": seconds for layer, seconds in times["layers"].items()}
        named = ("read", "hand_over", "other", "device", "planning")
        phases = {f"{name}_seconds": times.get(name) for name in named}
        yield {**shared, "place": place, **layers, **phases, "seconds": times["seconds"]}
    if record["failure"]:
        yield {**shared, "place": -1, **record["failure"]}


# The history of a benchmark's figures over the runs in one folder, and where they changed.


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
    return _change_points(seconds, places[-2::-1])


def _noise(logs: Sequence[float]) -> float:
    """The standard deviation that normal noise has whose runs are so far from the one before."""
    steps = [abs(after - before) for before, after in pairwise(logs)]
    return max(_LEAST_NOISE, median(steps) / 0.954 if steps else 0.0)


def _unexplained(logs: Sequence[float]) -> float:
    middle = median(logs)
    return sum(abs(value - middle) for value in logs)


def _change_points(seconds: Sequence[float], places: Iterable[int]) -> list[ChangePoint]:
    ends = [*places, len(seconds)]
    changes, begin = [], 0
    for place, end in pairwise(ends):
        before, after = median(seconds[begin:place]), median(seconds[place:end])
        if abs(after / before - 1) >= LEAST_CHANGE:
            changes.append(ChangePoint(place, before, after))
            begin = place
    return changes


# A page of a benchmark: one HTML document that opens without a network.


def render_template(name: str, **values: Any) -> str:
    """The template of this package with `values`, which are escaped unless they are Markup."""
    environment = Environment(
        loader=PackageLoader("penstock.engine.measure.bench", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return printable_lines(environment.get_template(name).render(values))


def print_results(rows: Iterable[Mapping[str, Any]]) -> None:
    """Medians and how far they may be off. On a terminal: what fits 80 columns, a table for each suite."""
    listed = list(rows)
    if is_terminal():
        for suite, of_suite in groupby(listed, key=lambda row: str(row["suite"])):
            print_line()
            print_line(suite)
            _print_suite(list(of_suite))
        return
    measured = (
        "planning s",
        "from … to",
        "cold s",
        "reading s",
        "start-up s",
        "CPU s",
        "peak GiB",
        "speed",
    )
    columns = _columns(("suite", "operators", "planner", *measured, "failed"), ("suite", "planner", "failed"))
    _print_table(columns, [_cells(row) for row in listed])


def _print_suite(rows: Sequence[Mapping[str, Any]]) -> None:
    """The speed, which is last of `figures`, without the planner that it is relative to; the page has all."""
    bases = sorted({row["ratio_to"] for row in rows if row["ratio_to"]})
    speed = f"x {' or '.join(bases)}" if bases else "speed"
    named = ("operators", "planner", "plan s", "from … to", "CPU s", "GiB", speed)
    columns = _columns(named, ("planner",))
    sizes = groupby(rows, key=lambda row: row["size"])
    print_table(columns, *([_short_cells(row) for row in of_size] for _, of_size in sizes))
    for row in rows:
        if failed(row):
            print_line(f"{row['operators']:,} {row['planner']}: failed {failed(row)}")


def _short_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    spent, ends, _, _, _, cpu, memory, _ = figures(row)
    speed = "-" if row["ratio"] is None else f"{row['ratio']:,.2f}"
    return (f"{row['operators']:,}", row["planner"], spent, ends, cpu, memory, speed)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (row["suite"], f"{row['operators']:,}", row["planner"], *figures(row), failed(row))


def figures(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns between planner and failures, as text; a dash is what was not measured."""
    cold, times = row["cold"], row["warm"] or row["cold"]
    return (
        _seconds_text(best_planning(row)),
        _ends(row["interval"]),
        _seconds_text(cold and cold["planning"]),
        _seconds_text(times and times["read"]),
        _seconds_text(row["start_up_seconds"]),
        _seconds_text(row["cpu_seconds"]),
        "-" if row["peak_memory_bytes"] is None else f"{row['peak_memory_bytes'] / 2**30:.2f}",
        "-" if row["ratio"] is None else f"{row['ratio']:,.2f} x {row['ratio_to']}",
    )


def _ends(interval: Sequence[float] | None) -> str:
    """The ends of an interval of more than one measurement."""
    if interval is None or not interval[2]:
        return "-"
    return f"{_seconds_text(interval[0])} … {_seconds_text(interval[1])}"


def failed(row: Mapping[str, Any]) -> str:
    """How many repetitions failed and with what."""
    errors = sorted({failure["error"] for failure in row["failures"]})
    return f"{len(row['failures'])} of {row['repetitions']}: {', '.join(errors)}" if errors else ""


def print_equality(equality: Iterable[Mapping[str, Any]]) -> None:
    """One line per suite: whether planners give equal plans, and the first topology where they differ."""
    for line in equality_lines(equality):
        print_line(line)


def equality_lines(equality: Iterable[Mapping[str, Any]]) -> list[str]:
    """The sentences that print_equality prints."""
    lines = []
    for entry in equality:
        where = f"{entry['suite']} at {entry['operators']:,} operators"
        lines += [
            f"{where}: {planner} gave no plans to compare: {failure['error']}"
            for planner, failure in entry["failures"].items()
        ]
        different = [pair for pair in entry["pairs"] if pair["differing"]]
        lines += [
            f"{where}: {' and '.join(pair['planners'])} differ at {pair['layer']} in "
            f"{pair['differing']:,} of {pair['topologies']:,} topologies, first in {pair['first']}"
            for pair in different
        ]
        planners = sorted({planner for pair in entry["pairs"] for planner in pair["planners"]})
        if planners and not different:
            lines.append(f"{where}: the plans of {' and '.join(planners)} are equal in every layer")
    return lines


def print_comparison(rows: Sequence[Mapping[str, Any]]) -> None:
    """Ratios new/old of all but start-up."""
    columns = _columns(
        ("suite", "operators", "planner", "old s", "new s", "new/old", ""), ("suite", "planner", "")
    )
    compared = []
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        said = ("slower" if row["ratio"] is not None else "failed") if row["slower"] else ""
        cells = (_seconds_text(row["old"]), _seconds_text(row["new"]), ratio, said)
        compared.append((row["suite"], f"{row['operators']:,}", row["planner"], *cells))
    _print_table(columns, compared)


def _print_table(columns: Sequence[Column], *groups: Sequence[Sequence[str]]) -> None:
    if is_terminal():
        print_line()
    print_table(columns, *groups)


def _columns(names: Sequence[str], left_aligned: Sequence[str]) -> list[Column]:
    return [
        Column(name) if name in left_aligned else Column(name, justify="right", no_wrap=True)
        for name in names
    ]


def print_history(series: Iterable[Series]) -> None:
    """The first and the newest run of each series, and a sentence for each change."""
    listed = list(series)
    named = ("suite", "operators", "planner", "runs", "since", "first s", "newest s")
    columns = _columns(named, ("suite", "planner", "since"))
    _print_table(
        columns,
        [
            (
                one_series.suite,
                f"{one_series.operators:,}",
                one_series.planner,
                f"{len(one_series.runs):,}",
                one_series.runs[0].date[:10],
                _seconds_text(one_series.runs[0].seconds),
                _seconds_text(one_series.runs[-1].seconds),
            )
            for one_series in listed
        ],
    )
    for one_series in listed:
        for change in one_series.changes:
            run, last = one_series.runs[change.place], one_series.runs[change.place - 1]
            slower = change.after > change.before
            ratio = max(change.after, change.before) / min(change.after, change.before)
            upgraded = f"; Penstock {last.version} before, {run.version} then" * (run.version != last.version)
            print_line(
                f"{one_series.suite}, {one_series.operators:,} operators: "
                f"{one_series.planner} is {ratio:.2f} times as "
                f"{'slow' if slower else 'fast'} since {run.date}: {_seconds_text(change.after)} s, "
                f"{_seconds_text(change.before)} s before{upgraded}"
            )
    if listed and not any(one_series.changes for one_series in listed):
        print_line("no change of the medians that is more than noise")
