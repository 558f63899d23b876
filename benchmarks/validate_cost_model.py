"""Validate how well the cost model ranks plans: compare its throughput with runs.

    python -m benchmarks.validate_cost_model [--on flink|penstock] [--policies NAMES] [--constants FILE]
        [--jobs N] [--only PATTERN] [--repeat N] [--seconds S] [--budget MINUTES] [--out FILE]

Runs workloads and drawn topologies under several policies: Flink's, never chaining, chaining half of the
edges, and isolated slots; or the policies of --policies: names of benchmarks/policies_to_compare.py, or
module:function.

Operators spin for the time in their costs, sources are generated, and records have the bytes in the costs.
With --budget, no job begins after that many minutes; topologies that lack a policy are left out.

--on flink: on the MiniCluster of the real Flink. Requires the extra `flink` and a JDK. All slots share the
machine's cores, so the model gets this number as `cores` and as `slot_cores`. --on penstock: on Penstock's
own runtime, on Spark. It runs vertices one after the other, with as many subtasks at a time as there are
cores, so the model gets the number of a vertex's subtasks as `cores`, and no limit per thread. Slots have no
meaning there, so isolated slots are left out.

Two throughputs are measured. `wall`: records/s of all sources. `processor`: the throughput that these runs
would reach with exclusive cores: one second, divided by the processor time of a record in the busiest subtask
(on Flink), or in all threads over all cores, whichever is more. If other processes use the machine, only the
second is reliable.

Prints Kendall's tau-b over all runs, and over the policies of each job; the share of pairs of policies that
differ by more than the runs' spread and that the model orders correctly; and the relative error.
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
"""Jobs that run once more before the others, so that the JVM has compiled their code."""


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
    arguments.add_argument("--only", default="", help="Only topologies whose names contain this pattern.")
    arguments.add_argument("--budget", type=float, default=float("inf"))
    arguments.add_argument("--out", type=Path)
    options = arguments.parse_args()
    until = time.monotonic() + 60 * options.budget
    cores = len(os.sched_getaffinity(0))
    constants = CONSTANTS if options.constants is None else read_constants(options.constants)
    policies = options.policies.split(",") if options.policies else list(POLICIES[options.on])
    topologies = [line for line in chosen_topologies(options.jobs) if re.search(options.only, line["name"])]
    jobs: list[MeasuredJob] = []
    predicted: dict[str, float] = {}
    used: dict[str, int] = {}
    for parallelism in sorted({line["parallelism"] for line in topologies}):
        part = [line for line in topologies if line["parallelism"] == parallelism]
        usable = cores if options.on == "flink" else min(cores, parallelism)
        planned, rates = planned_jobs(part, policies, _constants_for(constants, options.on, usable))
        jobs += planned
        predicted |= rates
        used |= dict.fromkeys(rates, usable)
    place = {line["name"]: number for number, line in enumerate(topologies)}
    jobs.sort(key=lambda job: place[job.name.rpartition("/")[0]])
    jobs = [job._replace(seconds=options.seconds, warm_up_seconds=0.8 * options.seconds) for job in jobs]
    rows = _rows(_runs(options.on, jobs, options.repeat, until), predicted, used)
    complete = rows.filter(pl.col("policy").n_unique().over("job") == len(policies))
    if options.out is not None:
        options.out.write_text(json.dumps(complete.to_dicts(), indent=1) + "\n", encoding="utf-8")
    print_comparison(complete)


def _constants_for(constants: Constants, on: str, cores: int) -> Constants:
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
        part = jobs[number : number + FIRST_JOBS * 4]
        runs += run_measured_jobs([*part[:FIRST_JOBS], *part * repeat])[len(part[:FIRST_JOBS]) :]
    return runs


def _rows(runs: Iterable[JobRun], predicted: Mapping[str, float], cores: Mapping[str, int]) -> pl.DataFrame:
    """Return one row per job and policy: predicted and measured throughput, and the spread of the runs."""
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
    """Return the processor seconds per second of the busiest subtask."""
    return max((share for name, share in run.processor.items() if name.startswith("subtask ")), default=0.0)


if __name__ == "__main__":
    main()
