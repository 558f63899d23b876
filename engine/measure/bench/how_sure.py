"""How sure a benchmark is of its answer, and what the answer is."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from statistics import median
from typing import Any

from penstock.engine.measure.bench.summarise import Row, best_planning

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
