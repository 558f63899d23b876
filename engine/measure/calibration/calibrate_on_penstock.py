"""Constants of the cost model, measured by micro runs on Penstock's own runtime, on Spark."""

import time
from collections.abc import Callable

from penstock.engine.measure.calibration.calibrate_on_flink import (
    LARGE,
    LINKS,
    SMALL,
    MeasuredTerm,
    Times,
    chain_job,
    exchange_job,
    summarised,
)
from penstock.engine.measure.calibration.run_jobs_on_penstock import run_jobs_on_penstock
from penstock.plans.errors import PenstockError

REPEATS = 3
SECONDS = 1.5


def calibrate_on_penstock(
    report: Callable[[str], None],
    budget: float = float("inf"),
    repeats: int = REPEATS,
    seconds: float = SECONDS,
) -> dict[str, MeasuredTerm]:
    """The terms of handing records on, by name, in processor time of all processes.

    A chain calls its operators without copies, so that `copy_ns` and `copy_ns_per_byte` are 0. What an
    exchange costs is measured as a whole, and divided evenly between the two ends: vertices run one after the
    other, so that only the sum matters. No job begins after `budget` seconds. Raises PenstockError unless
    each job has run once.
    """
    until = time.monotonic() + budget
    jobs = [
        chain_job("chain 0", 0, SMALL, reuse=True),
        chain_job("chain", LINKS, SMALL, reuse=True),
        exchange_job(f"exchange {SMALL}", SMALL),
        exchange_job(f"exchange {LARGE}", LARGE),
        exchange_job("forward", SMALL, parallelism=2),
        exchange_job("hash", SMALL, "HASH", parallelism=2),
    ]
    timed = [job._replace(seconds=seconds) for job in jobs]
    warm_up = timed[:1] * 2
    runs = run_jobs_on_penstock([*warm_up, *timed * repeats], report, until)[len(warm_up) :]
    measured: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        if run.error is not None:
            raise PenstockError(f"job {run.name} failed: {run.error}")
        nanoseconds = run.processor["process"] / sum(run.records_per_second.values()) * 1e9
        measured.setdefault(run.name, []).append({"process": nanoseconds})
    for job in timed:
        if job.name not in measured:
            raise PenstockError(f"job {job.name} has not run in {budget:g} s", "give it more: --budget")
    return summarised(measured, _terms)


def _terms(times: Times) -> dict[str, float]:
    each = {name: task["process"] for name, task in times.items()}
    call = (each["chain"] - each["chain 0"]) / LINKS
    small, large = (each[f"exchange {size}"] - each["chain 0"] + call for size in (SMALL, LARGE))
    of_byte = max((large - small) / (LARGE - SMALL), 0.0)
    half, half_of_byte = max(small - of_byte * SMALL, 0.0) / 2, of_byte / 2
    return {
        "call_ns": call,
        "copy_ns": 0.0,
        "copy_ns_per_byte": 0.0,
        "serialise_ns": half,
        "serialise_ns_per_byte": half_of_byte,
        "deserialise_ns": half,
        "deserialise_ns_per_byte": half_of_byte,
        "route_ns": each["hash"] - each["forward"],
        "handover_ns_per_buffer": 0.0,
    }
