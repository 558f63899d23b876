"""All planners on all suites, in turn: what a benchmark measures and writes."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

from penstock.engine.bench.describe_machine import describe_machine, describe_versions
from penstock.engine.bench.how_sure import answers, doubts
from penstock.engine.bench.measured_before import (
    begin_anew,
    cut_off_last_line,
    measured_before,
    still_to_do,
)
from penstock.engine.bench.planner_processes import planner_processes
from penstock.engine.bench.planners import PLANNERS, planner_named
from penstock.engine.bench.prepare_inputs import prepare_inputs
from penstock.engine.bench.run_benchmarks import Turn, compare_plans, measure_with, run_benchmarks, turns
from penstock.engine.bench.suites import Case
from penstock.engine.bench.summarise import summarise
from penstock.engine.bench.time_budget import TimeBudget
from penstock.engine.bench.write_page import write_page
from penstock.engine.bench.write_results import FORMAT, append_line, append_rows, write_results
from penstock.engine.output.progress import Report
from penstock.plans.topology.job_defaults import JobDefaults
from penstock.plans.vocabulary import Layer

Said = Callable[[Mapping[str, Any], float], None]
"""Told of each record as it is measured, and of the seconds that are left, as far as can be told."""


def stages(cases: Sequence[Case], planners: Sequence[str], repeat: int) -> int:
    """About how many stages measure_suites reports."""
    suites = {case.suite.name for case in cases}
    return 1 + len(cases) * len(planners) * repeat + (len(suites) if len(planners) > 1 else 0)


def measure_suites(
    cases: Sequence[Case],
    planners: Sequence[str],
    unavailable: Mapping[str, str],
    settings: Mapping[str, Any],
    out: Path,
    job_defaults: JobDefaults,
    report: Report,
    *,
    command: str,
    resume: bool = False,
    said: Said = lambda record, left: None,
) -> dict[str, Any]:
    """Measure, write results after each measurement into `out`, and give them.

    `settings`: until, repeat, repeat_in_process, timeout_seconds, options, and budget_seconds (None: all
    turns are measured; else as many as fit, small sizes and first repetitions first). `unavailable`: why
    other planners cannot run. Raises what preparing inputs and an unreadable earlier run raise.
    """
    results: dict[str, Any] = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "command": command,
        "machine": describe_machine(),
        "versions": describe_versions("flink" in planners),
        **settings,
        "suites": [[case.suite.name, case.size] for case in cases],
        "planners": list(planners),
        "includes": {name: planner_named(name).includes for name in planners},
        "unavailable": dict(unavailable),
        "equality": [],
    }
    layer, timeout, seconds = (
        Layer(settings["until"]),
        settings["timeout_seconds"],
        settings["budget_seconds"],
    )
    every = list(turns(cases, planners, settings["repeat"]))
    if seconds is not None:
        # what starts a session comes last of its size: others have figures, however slow the machine is
        every.sort(key=lambda turn: (turn.repetition, turn.case.size, planner_named(turn.planner).kept))
    of_flink = [name for name in planners if name in PLANNERS]  # those of the user give other plans
    to_compare = of_flink if len(of_flink) > 1 else []
    records = measured_before(out, results) if resume else []
    todo = still_to_do(every, records)
    left_out: list[Turn] = []
    budget = TimeBudget(seconds, every, compares=bool(to_compare))

    def write_what_there_is() -> None:
        results.update(summary=summarise(records), measurements=records, turns=len(every) - len(left_out))
        results.update(answers=answers(results["summary"]), doubts=doubts(results))
        write_results(out, results)
        write_page(out, results)

    with_lines = any(planner_named(name).reads_lines for name in planners)
    inputs = prepare_inputs(cases, out / "inputs", with_lines, report, job_defaults)
    if resume:
        cut_off_last_line(out)
    else:  # what was measured before is kept until there is something to measure
        begin_anew(out, results)
    began = monotonic()

    def has_time_for(turn: Turn) -> bool:
        nonlocal began
        began = monotonic()
        if budget.has_time_for(turn):
            return True
        left_out.append(turn)
        return False

    try:
        with planner_processes(timeout) as (ask, begin):
            measure = measure_with(ask, todo, layer, settings["repeat_in_process"])
            for done, (turn, record) in enumerate(
                run_benchmarks(todo, inputs, measure, report, has_time_for), 1
            ):
                budget.took(turn, monotonic() - began)
                append_line(out, record)
                append_rows(out, results, [record])
                records.append(record)
                write_what_there_is()
                said(record, budget.left(todo[done + len(left_out) :]))
            results["left_out"] = len(left_out)
            if to_compare:
                results["equality"] = compare_plans(inputs, to_compare, layer, begin, report)
    finally:
        write_what_there_is()
    return results
