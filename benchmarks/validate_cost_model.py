"""How well the cost model ranks plans: its throughput beside that of runs.

    python -m benchmarks.validate_cost_model [--on flink|penstock] [--policies NAMES] [--constants FILE]
        [--jobs N] [--only PATTERN] [--repeat N] [--seconds S] [--budget MINUTES] [--out FILE]

Runs workloads and drawn topologies under several policies: Flink's, never chaining, chaining half of the
edges, and isolated slots; or those of --policies: names of benchmarks/policies_to_compare.py, or
module:function.
Operators spin for the time that their costs say, sources are generated, and records have the bytes that the
costs say. With --budget, no job begins after that many minutes; topologies that lack a policy are left out.

--on flink: on the MiniCluster of the real Flink. Needs the extra `flink` and a JDK. The machine's cores are
those of all slots, so the model is told as many `cores`, and `slot_cores` alike. --on penstock: on Penstock's
own runtime, on Spark. It runs vertices one after the other, as many subtasks of a vertex at a time as there
are cores, so the model is told as many `cores` as a vertex has subtasks, and that no thread is full before
these are. Slots have no meaning there, so isolated slots are left out.

Two throughputs are measured. `wall`: records/s of all sources. `processor`: what these runs would reach if
they had the cores for themselves: one second, divided by the processor time that a record takes in the
busiest subtask (on Flink), or in all threads over all cores, whichever is more. Where others use the machine,
only the second is sound.

Prints Kendall's tau-b over all runs, and over the policies of each job; the share of pairs of policies that
differ by more than the runs' spread and that the model puts in the right order; and the relative error.
"""

import argparse
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import median

import polars as pl

from benchmarks.compare_with_runs import print_comparison
from benchmarks.jobs_to_compare import chosen_topologies, planned_jobs
from penstock.engine.measure.calibration.run_jobs_on_penstock import JobRun, MeasuredJob, run_measured_jobs
from penstock.plans.metrics.rates_and_loads import CONSTANTS, Constants, read_constants

POLICIES = {"flink": ("flink", "never", "half", "isolated"), "penstock": ("flink", "never", "half")}
FIRST_JOBS = 8
"""Jobs that run once more before the others, so that the JVM has compiled what they need."""


def main() -> None:
    """Measure, compare and print."""
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--on", choices=list(POLICIES), default="flink")
    arguments.add_argument("--policies")
    arguments.add_argument("--constants", type=Path)
    arguments.add_argument("--repeat", type=int, default=3)
    arguments.add_argument("--seconds", type=float, default=1.0)
    arguments.add_argument("--jobs", type=int, default=40)
    arguments.add_argument("--only", default="", help="Topologies in whose names this is found.")
    arguments.add_argument("--budget", type=float, default=float("inf"))
    arguments.add_argument("--out", type=Path)
    given = arguments.parse_args()
    until = time.monotonic() + 60 * given.budget
    cores = len(os.sched_getaffinity(0))
    constants = CONSTANTS if given.constants is None else read_constants(given.constants)
    policies = given.policies.split(",") if given.policies else list(POLICIES[given.on])
    topologies = [line for line in chosen_topologies(given.jobs) if re.search(given.only, line["name"])]
    jobs: list[MeasuredJob] = []
    predicted: dict[str, float] = {}
    used: dict[str, int] = {}
    for parallelism in sorted({line["parallelism"] for line in topologies}):
        some = [line for line in topologies if line["parallelism"] == parallelism]
        usable = cores if given.on == "flink" else min(cores, parallelism)
        planned, rates = planned_jobs(some, policies, _told(constants, given.on, usable))
        jobs += planned
        predicted |= rates
        used |= dict.fromkeys(rates, usable)
    place = {line["name"]: number for number, line in enumerate(topologies)}
    jobs.sort(key=lambda job: place[job.name.rpartition("/")[0]])
    jobs = [job._replace(seconds=given.seconds, warm_up_seconds=0.8 * given.seconds) for job in jobs]
    rows = _rows(_runs(given.on, jobs, given.repeat, until), predicted, used)
    complete = rows.filter(pl.col("policy").n_unique().over("job") == len(policies))
    if given.out is not None:
        given.out.write_text(json.dumps(complete.to_dicts(), indent=1) + "\n", encoding="utf-8")
    print_comparison(complete)


def _told(constants: Constants, on: str, cores: int) -> Constants:
    if on == "flink":
        return constants._replace(slot_cores=float(cores), cores=float(cores))
    return constants._replace(slot_cores=float("inf"), cores=float(cores))


def _runs(on: str, jobs: list[MeasuredJob], repeat: int, until: float) -> list[JobRun]:
    if on == "penstock":
        from penstock.engine.measure.calibration.run_jobs_on_penstock import run_jobs_on_penstock
        from penstock.engine.spark.session import get_session

        get_session(app_name="validate the cost model")
        first = jobs[:1] * 2
        return run_jobs_on_penstock([*first, *jobs * repeat], print, until)[len(first) :]
    runs: list[JobRun] = []
    for number in range(0, len(jobs), FIRST_JOBS * 4):
        if time.monotonic() > until:
            break
        some = jobs[number : number + FIRST_JOBS * 4]
        runs += run_measured_jobs([*some[:FIRST_JOBS], *some * repeat])[len(some[:FIRST_JOBS]) :]
    return runs


def _rows(runs: Iterable[JobRun], predicted: Mapping[str, float], cores: Mapping[str, int]) -> pl.DataFrame:
    """One row for each job and policy: what was predicted and measured, and the spread of the runs."""
    measured: dict[str, list[tuple[float, float]]] = {}
    for run in runs:
        if run.error is not None:
            print(f"{run.name}: not run: {run.error}")
            continue
        rate = sum(run.records_per_second.values())
        measured.setdefault(run.name, []).append(
            (rate, rate / max(_busiest(run), run.processor["process"] / cores[run.name]))
        )
    rows = []
    for name, values in measured.items():
        wall, processor = ([value[place] for value in values] for place in (0, 1))
        job, _, policy = name.rpartition("/")
        rows.append({
            "job": job, "policy": policy, "model": predicted[name],
            "wall": median(wall), "processor": median(processor),
            "spread": (max(processor) - min(processor)) / median(processor) / 2,
        })  # fmt: skip
    return pl.DataFrame(rows)


def _busiest(run: JobRun) -> float:
    """Processor seconds a second of the busiest subtask."""
    return max((share for name, share in run.processor.items() if name.startswith("subtask ")), default=0.0)


if __name__ == "__main__":
    main()
