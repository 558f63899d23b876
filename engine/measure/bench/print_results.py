"""Summarise, print, store and compare results of benchmarks."""

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
from penstock.engine.measure.bench.planners import current_name
from penstock.engine.output.people import is_terminal, print_table
from penstock.engine.output.print_line import print_line
from penstock.plans.errors import InputError
from penstock.plans.printable import printable_lines, reason_of
from penstock.plans.vocabulary import Layer

# Medians over repetitions and their uncertainty: one row per suite, size and planner.


Row = dict[str, Any]
PHASES = ("read", "planning", "seconds", "hand_over", "other")
FLINK = "flink"
SLOWER = 1.25
"""Ratio of new to old median above which a planner counts as slower."""


def summarise(records: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return one row per (suite, size, planner), in order of first appearance.

    `cold` and `warm` are medians by phase and layer (warm: over repetitions of the median in a process), null
    if nothing was measured. `points` are the repetitions' seconds of planning, warm if there are warm plans;
    `interval` (see interval_of_median) is the interval of their median, `spread` their range as a share of
    it. `cpu_seconds` and `wall_seconds` are medians of whole processes, start-up and all plans. For planning,
    `operators_per_second`, and `ratio`, the speed as a multiple of Flink's, or of the slowest planner's if
    Flink was not measured: the median over repetitions, in each of which both took turns; `ratio_interval` is
    its [low, high].
    """
    groups: dict[tuple[str, int, str], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["suite"], record["size"], record["planner"]), []).append(record)
    rows = [_row(group) for group in groups.values()]
    for row in rows:
        peers = [r for r in rows if (r["suite"], r["size"]) == (row["suite"], row["size"])]
        _relate(row, [peer for peer in peers if best_planning(peer)], groups)
    return rows


def best_planning(row: Mapping[str, Any]) -> float | None:
    """Return seconds of planning, warm if measured, else cold."""
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
    """Map repetitions to seconds of planning, warm if any repetition has warm plans."""
    measured = [record for record in records if record["cold"] or record["warm"]]
    any_warm = any(record["warm"] for record in measured)
    seconds = {}
    for record in measured:
        times = _medians(record["warm"]) if any_warm else record["cold"]
        if times:
            seconds[record["repetition"]] = times["planning"]
    return seconds


def _spread(points: Sequence[float]) -> float | None:
    """Return the range as a share of the median; None for fewer than two points."""
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
    points, other_points = (
        _points(groups[measured_row["suite"], measured_row["size"], measured_row["planner"]])
        for measured_row in (row, base)
    )
    interval = interval_of_median(
        other_points[turn] / points[turn] for turn in points if turn in other_points and points[turn]
    )
    row["ratio_to"] = base["planner"]
    if interval is None:  # they were never measured in the same repetition
        row["ratio"] = round((best_planning(base) or 0) / (best_planning(row) or 1), 3)
    else:
        row["ratio"] = round(interval.median, 3)
        row["ratio_interval"] = [round(interval.low, 3), round(interval.high, 3)]


def compare_results(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Compare each (suite, size, planner) that both summaries have; return a row for each.

    `ratio` is new/old of the median of everything but start-up, warm if both have warm plans, else cold;
    `slower` if it is above SLOWER. A planner that failed is slower if it succeeded in the old results; else
    it is left out.
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


# Confidence intervals of medians of few measurements.


WANTED = 0.95


class Interval(NamedTuple):
    """An interval; `confidence` is the share of such intervals that contain the true median, 0 to 1."""

    median: float
    low: float
    high: float
    confidence: float


def interval_of_median(values: Iterable[float]) -> Interval | None:
    """Return the narrowest interval between order statistics that contains the median with WANTED confidence.

    Fewer than six values cannot reach it: their interval is from the least to the largest, with its actual
    confidence (0.75 for three, 0 for one). None without values. Only independence of the values is assumed,
    not their distribution.

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
    """Return the confidence of the interval that omits that many values per side (binomial distribution)."""
    return 1 - 2 * sum(comb(count, below) for below in range(left_out + 1)) / 2**count if count > 1 else 0.0


# Answers of a benchmark, and doubts about them.


NOISY_SPREAD = 0.25
"""Spread, as a share of the median, above which repetitions of one planner are noisy."""

NOISY_SECONDS = 0.1
"""Smaller differences do not indicate a noisy machine."""

BUSY_SHARE = 0.1
"""Share of the cores that others may use without a warning."""


def answers(rows: Sequence[Row]) -> list[str]:
    """Write one sentence per suite about the largest size that any planner planned: the fastest planner."""
    sentences = []
    for suite, suite_rows in groupby(rows, key=lambda row: str(row["suite"])):
        planned = [row for row in suite_rows if best_planning(row) is not None]
        if planned:
            largest = max(row["operators"] for row in planned)
            sentences.append(_answer(suite, [row for row in planned if row["operators"] == largest]))
    return sentences


def _answer(suite: str, rows: Sequence[Row]) -> str:
    first, *others = sorted(rows, key=lambda row: best_planning(row) or 0)
    text = (
        f"{suite}, {first['operators']:,} operators: {first['planner']} plans them in "
        f"{_seconds_text(best_planning(first))} s{_between(first['interval'], '', ' s')}"
    )
    if not others:
        return f"{text}; nothing to compare with."
    base = next((row for row in others if row["planner"] == first["ratio_to"]), others[-1])
    interval = first["ratio_interval"] if first["ratio_to"] == base["planner"] else None
    ratio = first["ratio"] if interval else (best_planning(base) or 0) / (best_planning(first) or 1)
    text += f", {ratio:,.3g} times as fast as {base['planner']}{_between(interval, '', '')}."
    near = [row["planner"] for row in others if overlap(first["interval"], row["interval"])]
    if near:
        text += f" Within the noise of {' and '.join(near)}: repeat more often (--repeat)."
    return text


def _between(interval: Sequence[float] | None, before: str, after: str) -> str:
    """Format the ends of an interval, if it has two different ends."""
    if interval is None or interval[0] == interval[1]:
        return ""
    low, high = (f"{value:,.3g}" for value in interval[:2])
    return f" ({before}{low} to {high}{after})"


def overlap(first: Sequence[float] | None, other: Sequence[float] | None) -> bool:
    """Return whether two intervals of more than one measurement overlap."""
    if first is None or other is None or not first[2] or not other[2]:
        return False
    return first[0] <= other[1] and other[0] <= first[1]


def doubts(results: Mapping[str, Any]) -> list[str]:
    """Return reasons to doubt figures, such as an early stop, too few repetitions, noise and other load.

    Empty if there are none.
    """
    rows: Sequence[Row] = results["summary"]
    measurements, cores = results["measurements"], results["machine"]["cores"]
    repeat, turns = results["repeat"], results.get("turns", 0)
    reasons = []
    if len(measurements) < turns:
        reasons.append(
            f"stopped early: {len(measurements):,} of {turns:,} measurements were taken (--resume continues)"
        )
    if repeat < 3:
        counted = "1 repetition" if repeat == 1 else f"{repeat} repetitions"
        reasons.append(f"{counted} cannot distinguish noise from a difference: --repeat 3 or more")
    noisy = [
        f"{row['suite']} {row['operators']:,} {row['planner']} {row['spread']:.0%}"
        for row in rows
        if (row["spread"] or 0) > NOISY_SPREAD and max(row["points"]) - min(row["points"]) > NOISY_SECONDS
    ]
    if noisy:
        shown = ", ".join(noisy[:3]) + (f" and {len(noisy) - 3:,} more" if len(noisy) > 3 else "")
        reasons.append(
            f"noisy: repetitions of the same work lie far apart, as shares of their median: {shown}"
        )
    for name, who in (("others_cores", "other processes"), ("stolen_cores", "other virtual machines")):
        known = [record[name] for record in measurements if record.get(name) is not None]
        if known and median(known) > BUSY_SHARE * cores:
            reasons.append(f"other load: {who} used {median(known):.1f} of {cores} cores meanwhile")
    return reasons


def _seconds_text(seconds: float | None) -> str:
    """Seconds with about three digits; a dash if nothing was measured."""
    if seconds is None:
        return "-"
    return f"{seconds:,.1f}" if seconds >= 100 else f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"


# Results in a folder: lines as measured, one JSON document, and rows of a Delta table.


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
"""Keyed by (date, suite, size, planner, repetition, place); `place` 0 is the cold plan, larger ones are warm;
-1 is a failure before or after them."""


def append_line(folder: Path, record: Mapping[str, Any]) -> None:
    """Append a measurement to results.jsonl, so that a stopped run keeps its measurements."""
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(record) + "\n")


def write_results(folder: Path, results: Mapping[str, Any]) -> None:
    """Replace results.json."""
    with replace_file(folder / "results.json") as file:
        file.write(f"{json.dumps(results, indent=1)}\n".encode())


def append_rows(folder: Path, results: Mapping[str, Any], measured: Iterable[Mapping[str, Any]]) -> None:
    """Append measurements to the table."""
    rows = [row for record in measured for row in _rows(record, results)]
    if not rows:
        return
    write_deltalake(
        str(folder / "results"), pa.Table.from_pylist(rows, ROWS), mode="append", schema_mode="merge"
    )


def read_results(path: Path) -> dict[str, Any]:
    """Read a results.json. Raises InputError for another file or format."""
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        file_format, summary = results["format"], results["summary"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{path} is not a results.json of penstock bench: {reason_of(error)}") from error
    if file_format != FORMAT:
        raise InputError(f"{path}: format must be {FORMAT}, got {file_format}")
    if not isinstance(summary, list):
        raise InputError(f"{path} is not a results.json of penstock bench: its summary is not a list")
    try:
        results["summary"] = [{**row, "planner": current_name(row["planner"])} for row in summary]
    except (TypeError, KeyError) as error:
        raise InputError(f"{path} is not a results.json of penstock bench: {reason_of(error)}") from error
    return results


def _rows(record: Mapping[str, Any], results: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    shared = {key: record[key] for key in ROWS.names if key in record}
    shared["date"], shared["until"] = results["date"], results["until"]
    shared["process_cpu_seconds"], shared["process_wall_seconds"] = (
        record.get(used) for used in ("cpu_seconds", "wall_seconds")
    )
    shared["penstock_version"] = results["versions"].get("penstock")
    shared["processor"] = results["machine"]["processor"]
    cold = [] if record["cold"] is None else [(0, record["cold"])]  # a reused session has none
    for place, times in [*cold, *enumerate(record["warm"], 1)]:
        layers = {f"{layer}_seconds": seconds for layer, seconds in times["layers"].items()}
        named = ("read", "hand_over", "other", "device", "planning")
        phases = {f"{name}_seconds": times.get(name) for name in named}
        yield {**shared, "place": place, **layers, **phases, "seconds": times["seconds"]}
    if record["failure"]:
        yield {**shared, "place": -1, **record["failure"]}


# History of figures over the runs in a folder, and their changes.


LEAST_RUNS = 2
"""Least number of runs on either side of a change: one slow run is not a change."""

LEAST_CHANGE = 0.05
"""Smaller changes of the median, as a share of it, are not reported."""

PENALTY = 2.0
"""Least gain that a change must explain. For steady series with normal noise, a false change is reported in
one of fifteen series of ten runs, and in one of forty series of twenty runs."""

MOST_RUNS = 300
"""Number of newest runs that are read."""

_LEAST_NOISE = 0.02
_SERIES = ("suite", "size", "planner", "until", "processor")
_KEYS = (*_SERIES, "operators", "date", "repetition", "place", "planning_seconds", "penstock_version")


class BenchRun(NamedTuple):
    """One run's measurements of a planner on one input."""

    date: str
    version: str
    seconds: float  #: of planning: median over processes, of warm plans if measured
    measurements: int


class ChangePoint(NamedTuple):
    """A change of the median from the run at this place on."""

    place: int
    before: float
    after: float


class Series(NamedTuple):
    """Runs of one planner on one input on one kind of processor, oldest first."""

    suite: str
    operators: int
    planner: str
    until: str
    processor: str
    runs: tuple[BenchRun, ...]
    changes: tuple[ChangePoint, ...]


def read_history(folder: Path) -> list[Series]:
    """Read the series of all runs in a benchmark's folder, by suite, operators and planner.

    Runs that planned to different layers, or on other processors, are in separate series. Raises InputError
    if the folder has no benchmark.
    """
    table = folder / "results"
    if not DeltaTable.is_deltatable(str(table)):
        raise InputError(f"{folder} holds no results of penstock bench", "name the folder with --out")
    delta_table = DeltaTable(str(table))
    known = {field.name for field in delta_table.schema().fields}
    rows = delta_table.to_pyarrow_table(columns=[key for key in _KEYS if key in known]).to_pylist()
    by_series: dict[tuple[Any, ...], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        row["planner"] = current_name(row["planner"])
        if row["place"] >= 0 and row["planning_seconds"]:
            by_series[tuple(row.get(key) or "" for key in _SERIES)].append(row)
    series = [_series(rows) for rows in by_series.values()]
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
    seconds_of_process: dict[int, list[float]] = defaultdict(list)
    for row in warm:
        seconds_of_process[row["repetition"]].append(row["planning_seconds"])
    seconds = median(median(times) for times in seconds_of_process.values())
    return BenchRun(date, rows[0]["penstock_version"] or "", seconds, len(seconds_of_process))


def find_changes(seconds: Sequence[float]) -> list[ChangePoint]:
    """Find level changes in a series of medians by the division into segments that explains it best.

    A change is reported if it explains more than chance would: it must reduce the distances of the runs'
    logarithms from the median of their segment, in units of the noise, by more than PENALTY times the
    logarithm of the number of runs. The noise is derived from the differences of successive runs, and is at
    least 2 percent. One slow run changes no median. Segments have at least LEAST_RUNS runs, and their medians
    differ by at least LEAST_CHANGE.

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
    """Return the standard deviation of normal noise with these differences between successive runs."""
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


# Page of a benchmark: one HTML document that opens without a network.


def render_template(name: str, **values: Any) -> str:
    """Render a template of this package with `values`, which are escaped unless they are Markup."""
    environment = Environment(
        loader=PackageLoader("penstock.engine.measure.bench", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return printable_lines(environment.get_template(name).render(values))


def print_results(rows: Iterable[Mapping[str, Any]]) -> None:
    """Print medians and their uncertainty; on a terminal, a table per suite that fits 80 columns."""
    listed = list(rows)
    if is_terminal():
        for suite, suite_rows in groupby(listed, key=lambda row: str(row["suite"])):
            print_line()
            print_line(suite)
            _print_suite(list(suite_rows))
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
    """Print a table of a suite. The speed, last of `figures`, lacks its reference; the page has all."""
    bases = sorted({row["ratio_to"] for row in rows if row["ratio_to"]})
    speed = f"x {' or '.join(bases)}" if bases else "speed"
    named = ("operators", "planner", "plan s", "from … to", "CPU s", "GiB", speed)
    columns = _columns(named, ("planner",))
    sizes = groupby(rows, key=lambda row: row["size"])
    print_table(columns, *([_short_cells(row) for row in rows_of_size] for _, rows_of_size in sizes))
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
    """Format the columns between planner and failures; a dash marks a missing measurement."""
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
    """Format the ends of an interval of more than one measurement."""
    if interval is None or not interval[2]:
        return "-"
    return f"{_seconds_text(interval[0])} … {_seconds_text(interval[1])}"


def failed(row: Mapping[str, Any]) -> str:
    """Describe the number of failed repetitions and their error."""
    errors = sorted({failure["error"] for failure in row["failures"]})
    return f"{len(row['failures'])} of {row['repetitions']}: {', '.join(errors)}" if errors else ""


def print_equality(equality: Iterable[Mapping[str, Any]]) -> None:
    """Print a line per suite about whether planners' plans are equal, and the first topology that differs."""
    for line in equality_lines(equality):
        print_line(line)


def equality_lines(equality: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the sentences that print_equality prints."""
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
    """Print ratios new/old of everything but start-up."""
    columns = _columns(
        ("suite", "operators", "planner", "old s", "new s", "new/old", ""), ("suite", "planner", "")
    )
    compared = []
    for row in rows:
        ratio = "-" if row["ratio"] is None else f"{row['ratio']:.2f}"
        verdict = ("slower" if row["ratio"] is not None else "failed") if row["slower"] else ""
        cells = (_seconds_text(row["old"]), _seconds_text(row["new"]), ratio, verdict)
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
    """Print the first and the newest run of each series, and a sentence for each change."""
    listed = list(series)
    named = ("suite", "operators", "planner", "runs", "since", "first s", "newest s")
    columns = _columns(named, ("suite", "planner", "since"))
    _print_table(
        columns,
        [
            (
                run_series.suite,
                f"{run_series.operators:,}",
                run_series.planner,
                f"{len(run_series.runs):,}",
                run_series.runs[0].date[:10],
                _seconds_text(run_series.runs[0].seconds),
                _seconds_text(run_series.runs[-1].seconds),
            )
            for run_series in listed
        ],
    )
    for run_series in listed:
        for change in run_series.changes:
            run, last = run_series.runs[change.place], run_series.runs[change.place - 1]
            slower = change.after > change.before
            ratio = max(change.after, change.before) / min(change.after, change.before)
            upgraded = f"; Penstock {last.version} before, {run.version} then" * (run.version != last.version)
            print_line(
                f"{run_series.suite}, {run_series.operators:,} operators: "
                f"{run_series.planner} is {ratio:.2f} times as "
                f"{'slow' if slower else 'fast'} since {run.date}: {_seconds_text(change.after)} s, "
                f"{_seconds_text(change.before)} s before{upgraded}"
            )
    if listed and not any(run_series.changes for run_series in listed):
        print_line("no change of the medians that is more than noise")
