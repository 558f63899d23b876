"""Medians over repetitions, and how sure they are: one row per suite, size and planner."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from math import comb
from statistics import median
from typing import Any, NamedTuple

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
        f"{seconds_text(best_planning(first))} s{_between(first['interval'], '', ' s')}"
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


def seconds_text(seconds: float | None) -> str:
    """Seconds with about three digits; a dash if nothing was measured."""
    if seconds is None:
        return "-"
    return f"{seconds:,.1f}" if seconds >= 100 else f"{seconds:.2f}" if seconds >= 1 else f"{seconds:.3f}"
