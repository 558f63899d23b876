"""Every measurement of a benchmark in turn, and the comparison of plans."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from penstock.engine.machine.temporary_folders import short_lived_folder
from penstock.engine.measure.bench.planner_processes import Ask, Begin
from penstock.engine.measure.bench.planners import planner_named
from penstock.engine.measure.bench.prepare_inputs import Input
from penstock.engine.measure.bench.run_child import USED
from penstock.engine.measure.bench.suites import Case
from penstock.engine.planning.digest_plans import Digests, find_differences
from penstock.plans.vocabulary import Layer

Measure = Callable[[str, Path], dict[str, Any]]
"""(planner, what it reads) to what engine.bench.run_child.ask_child gives."""


class Turn(NamedTuple):
    """One measurement to be taken."""

    repetition: int
    case: Case
    planner: str


def turns(cases: Sequence[Case], planners: Sequence[str], repeat: int) -> Iterator[Turn]:
    """All measurements: repetition outermost, planners side by side, another one first each time.

    Other work of the machine and what a planner leaves behind (caches, heat) then affect all planners alike.
    """
    for repetition in range(repeat):
        first = repetition % max(1, len(planners))
        for case in cases:
            for planner in (*planners[first:], *planners[:first]):
                yield Turn(repetition, case, planner)


def measure_with(ask: Ask, todo: Sequence[Turn], until: Layer, repeat_in_process: int) -> Measure:
    """A Measure that asks a planner's process, for all of `todo`.

    If the first turn of a process that is kept is repeated, it is the cold plan alone: the others are warm,
    and on Spark each plan takes long.
    """
    asked: set[str] = set()
    turns_of = Counter((turn.planner, turn.case) for turn in todo)
    first = {turn.planner: turn.case for turn in reversed(todo)}
    repeated = {planner for planner, case in first.items() if turns_of[planner, case] > 1}

    def measure(planner: str, path: Path) -> dict[str, Any]:
        cold_only = planner in repeated - asked and planner_named(planner).kept
        asked.add(planner)
        warm = 0 if cold_only else repeat_in_process
        return ask(planner, _options(path, until, "--repeat-in-process", str(warm)))

    return measure


def _options(path: Path, until: Layer, *others: str) -> tuple[str, ...]:
    return "--input", str(path), "--until", until, *others


def run_benchmarks(
    todo: Sequence[Turn],
    inputs: Mapping[Case, Input],
    measure: Measure,
    report: Callable[[str], None],
    has_time_for: Callable[[Turn], bool] = lambda turn: True,
) -> Iterator[tuple[Turn, dict[str, Any]]]:
    """Each turn with its record, unless there is no time for it.

    Once a planner timed out, its turns at that size and above are Skipped.
    """
    timed_out: dict[tuple[str, str], int] = {}
    for turn in todo:
        if not has_time_for(turn):
            continue
        suite, prepared = turn.case.suite.name, inputs[turn.case]
        report(f"{suite} {prepared.operators:,} {turn.planner}")
        record = {
            "suite": suite,
            "size": turn.case.size,
            "operators": prepared.operators,
            "topologies": prepared.topologies,
            "planner": turn.planner,
            "repetition": turn.repetition,
            "load_average": round(os.getloadavg()[0], 2),
        }
        limit = timed_out.get((suite, turn.planner))
        if limit is not None and prepared.operators >= limit:
            failure = {"error": "Skipped", "message": f"timed out at {limit:,} operators"}
            unknown: dict[str, Any] = {
                "start_up_seconds": None,
                "cold": None,
                "warm": [],
                "peak_memory_bytes": None,
                **dict.fromkeys(USED),
            }
            yield turn, {**record, **unknown, "failure": failure}
            continue
        answer = measure(turn.planner, prepared.path(planner_named(turn.planner).reads_lines))
        if answer["failure"] and answer["failure"]["error"] == "Timeout":
            timed_out[suite, turn.planner] = prepared.operators
        yield turn, {**record, **answer}


def compare_plans(
    inputs: Mapping[Case, Input],
    planners: Sequence[str],
    until: Layer,
    begin: Begin,
    report: Callable[[str], None],
) -> list[dict[str, Any]]:
    """One entry per suite: its smallest size, `pairs` (see find_differences) and `failures` by planner.

    Nothing is timed here: planners are asked side by side.
    """
    smallest: dict[str, Case] = {}
    for case, prepared in inputs.items():
        name = case.suite.name
        if name not in smallest or prepared.operators < inputs[smallest[name]].operators:
            smallest[name] = case
    entries = []
    for suite, case in smallest.items():
        report(f"{suite} compare {', '.join(planners)}")
        digests: dict[str, Digests] = {}
        failures = {}
        with short_lived_folder("bench") as folder:
            begun = {}
            for planner in planners:
                path = inputs[case].path(planner_named(planner).reads_lines)
                file = str(Path(folder) / f"{planner}.json")
                begun[planner] = begin(planner, _options(path, until, "--digests", file))
            # A kept one without a process is asked while it is waited for: the others are at work by then.
            for planner in sorted(begun, key=lambda name: not planner_named(name).kept):
                done = begun[planner]()
                if done["failure"]:
                    failures[planner] = done["failure"]
                else:
                    digests[planner] = orjson.loads((Path(folder) / f"{planner}.json").read_bytes())
        digests = {planner: digests[planner] for planner in planners if planner in digests}
        entry = {"suite": suite, "operators": inputs[case].operators, "pairs": find_differences(digests)}
        entries.append({**entry, "failures": failures})
    return entries
