"""Constants of the cost model, measured by micro runs on the real Flink's MiniCluster."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from statistics import median, quantiles
from typing import NamedTuple

from penstock.engine.flink.measured_jobs.run_measured_jobs import (
    JobRun,
    MeasuredJob,
    MeasuredOperator,
    MiniCluster,
    run_measured_jobs,
)
from penstock.plans.errors import PenstockError

REPEATS = 5
RESAMPLES = 200
SMALL, LARGE = 100, 1000
"""Bytes of records."""

LINKS = 8
"""Operators between source and sink of the long chain."""

LITTLE_BUFFER, BUFFER = 4096, 32_768

Times = Mapping[str, Mapping[str, float]]
"""By job and task: nanoseconds of processor time for each record."""


class MeasuredTerm(NamedTuple):
    """A term in the unit of its name, its quartiles, and how many runs it was measured by."""

    value: float
    low: float
    high: float
    runs: int


def calibrate_on_flink(
    report: Callable[[str], None], repeats: int = REPEATS, seconds: float = 1.0
) -> dict[str, MeasuredTerm]:
    """The terms of handing records on, by name.

    Times are the processor times of the tasks' own threads, so that other work on the machine does not count.
    Every repetition runs every job once, so that what drifts drifts for all. Raises what run_measured_jobs
    raises, and PenstockError if all runs of a job fail.
    """
    one_each = [_with_times(job, seconds) for job in (*_chains(), *_exchanges())]
    report(f"run {len(one_each)} jobs {repeats} times on Flink's MiniCluster")
    warm_up = [_with_times(job, 2 * seconds) for job in one_each[:2]]
    runs = run_measured_jobs([*warm_up, *one_each * repeats])[len(warm_up) :]
    little = _with_times(exchange_job("little buffers", LARGE), seconds)
    report("with small buffers")
    of_little = run_measured_jobs([little] * (repeats + 1), MiniCluster(buffer_bytes=LITTLE_BUFFER))[1:]
    remote = _with_times(exchange_job("remote", LARGE, apart=True), seconds)
    report("between two TaskManagers")
    of_remote = run_measured_jobs([remote] * (repeats + 1), MiniCluster(2, 1))[1:]
    measured: dict[str, list[dict[str, float]]] = {}
    failed: dict[str, str] = {}
    for run in (*runs, *of_little, *of_remote):
        if run.error is None:
            measured.setdefault(run.name, []).append(_nanoseconds(run))
        else:
            failed[run.name] = run.error
    for name, error in failed.items():
        if name not in measured:
            raise PenstockError(f"job {name} failed on Flink's MiniCluster: {error}")
    return summarised(measured, _terms)


def _with_times(job: MeasuredJob, seconds: float) -> MeasuredJob:
    return job._replace(warm_up_seconds=seconds, seconds=seconds)


def summarised(
    measured: Mapping[str, Sequence[Mapping[str, float]]], terms_of: Callable[[Times], dict[str, float]]
) -> dict[str, MeasuredTerm]:
    """The terms, of each task's median time; their quartiles over RESAMPLES bootstrap samples of the runs.

    `measured`: by job, for each run the nanoseconds of its tasks. A term is a difference of times, so that
    medians come first: of a difference of two single runs, one that was disturbed would make it negative.
    """
    random = Random(1)

    def sample(resampled: bool) -> dict[str, float]:
        chosen = {
            name: random.choices(runs, k=len(runs)) if resampled else runs for name, runs in measured.items()
        }
        times = {
            name: {task: median(run[task] for run in runs) for task in runs[0]}
            for name, runs in chosen.items()
        }
        return {name: max(value, 0.0) for name, value in terms_of(times).items()}

    values = sample(False)
    spread = [sample(True) for _ in range(RESAMPLES)]
    terms = {}
    for name, value in values.items():
        low, _, high = quantiles([terms_of_sample[name] for terms_of_sample in spread], n=4)
        terms[name] = MeasuredTerm(value, min(low, value), max(high, value), min(map(len, measured.values())))
    return terms


def _chains() -> list[MeasuredJob]:
    return [
        chain_job(f"chain {links} {size}{' reuse' if reuse else ''}", links, size, reuse)
        for links in (0, LINKS)
        for size, reuse in ((SMALL, True), (SMALL, False), (LARGE, False))
    ]


def _exchanges() -> list[MeasuredJob]:
    return [
        exchange_job(f"exchange {SMALL}", SMALL),
        exchange_job(f"exchange {LARGE}", LARGE),
        exchange_job("forward", SMALL, parallelism=2),
        exchange_job("hash", SMALL, "HASH", parallelism=2),
    ]


def chain_job(name: str, links: int, size: int, reuse: bool) -> MeasuredJob:
    """A source, `links` operators and a sink in one chain."""
    operators = [MeasuredOperator(0, 1, bytes=size)]
    operators += [
        MeasuredOperator(number, 1, bytes=size, inputs=[(number - 1, "FORWARD", "")])
        for number in range(1, links + 2)
    ]
    return MeasuredJob(name, operators, reuse)


def exchange_job(
    name: str, size: int, partitioner: str = "FORWARD", parallelism: int = 1, apart: bool = False
) -> MeasuredJob:
    """A source and a sink in vertices of their own; `apart`: in slots of their own."""
    source = MeasuredOperator(0, parallelism, bytes=size)
    sink = MeasuredOperator(
        1, parallelism, bytes=size, group="apart" if apart else "default", new_chain=True,
        inputs=[(0, partitioner, "")],
    )  # fmt: skip
    return MeasuredJob(name, [source, sink], True)


def _nanoseconds(run: JobRun) -> dict[str, float]:
    """Nanoseconds by task for each record of the source: `source`, `sink`, and `network` between them."""
    rate = sum(run.records_per_second.values())
    times = {"network": run.processor.get("network", 0.0) / rate * 1e9}
    for name, share in run.processor.items():
        if name.startswith("task Source"):
            times["source"] = share / rate * 1e9
        elif name.startswith("task Sink"):
            times["sink"] = share / rate * 1e9
    return times


def _terms(times: Times) -> dict[str, float]:
    """The terms that one repetition gives. A source without a sink is a chain of both without its call."""

    def link(size: int, reuse: bool) -> float:
        kind = f"{size}{' reuse' if reuse else ''}"
        return (times[f"chain {LINKS} {kind}"]["source"] - times[f"chain 0 {kind}"]["source"]) / LINKS

    call = link(SMALL, True)
    copies = {size: max(link(size, False) - call, 0.0) for size in (SMALL, LARGE)}
    copy_byte = max(copies[LARGE] - copies[SMALL], 0.0) / (LARGE - SMALL)
    alone = max(times[f"chain 0 {SMALL} reuse"]["source"] - call, 0.0)
    send = {size: times[f"exchange {size}"]["source"] - alone for size in (SMALL, LARGE)}
    receive = {size: times[f"exchange {size}"]["sink"] - call for size in (SMALL, LARGE)}
    both = {
        name: times[name]["source"] + times[name]["sink"] for name in ("little buffers", f"exchange {LARGE}")
    }
    more_buffers = LARGE / LITTLE_BUFFER - LARGE / BUFFER
    handover = max(both["little buffers"] - both[f"exchange {LARGE}"], 0.0) / more_buffers
    half = handover / BUFFER / 2
    send_byte = max((send[LARGE] - send[SMALL]) / (LARGE - SMALL) - half, 0.0)
    receive_byte = max((receive[LARGE] - receive[SMALL]) / (LARGE - SMALL) - half, 0.0)
    return {
        "call_ns": call,
        "copy_ns": copies[SMALL] - copy_byte * SMALL,
        "copy_ns_per_byte": copy_byte,
        "serialise_ns": send[SMALL] - (send_byte + half) * SMALL,
        "serialise_ns_per_byte": send_byte,
        "deserialise_ns": receive[SMALL] - (receive_byte + half) * SMALL,
        "deserialise_ns_per_byte": receive_byte,
        "route_ns": times["hash"]["source"] - times["forward"]["source"],
        "handover_ns_per_buffer": handover,
        "remote_ns_per_byte": times["remote"]["network"] / LARGE,
    }
