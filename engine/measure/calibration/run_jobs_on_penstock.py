"""Calibrate the cost model with jobs of known cost on Flink's MiniCluster or on Penstock's own runtime."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from statistics import median, quantiles
from time import process_time_ns
from typing import Any, NamedTuple

from penstock.engine.flink.capture.program_command import JAVA_OPTIONS
from penstock.engine.flink.plan_with_flink import FLINK_VERSION, compiled_measured_jobs, flink_jars
from penstock.engine.machine.folders import short_lived_folder
from penstock.engine.machine.operating_system import processor_seconds, with_parent
from penstock.engine.machine.replace_file import replace_file
from penstock.engine.machine.stop_on_signals import process_tree
from penstock.engine.measure.calibration.runtime import Runtime
from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.engine.spark.find_java import require_java
from penstock.operators.connectors.sink import DiscardSink
from penstock.operators.connectors.source import NumberSequenceSource
from penstock.operators.functions.functions import FlatMapFunction
from penstock.operators.functions.runtime_context import RuntimeContext
from penstock.plans.errors import PenstockError
from penstock.plans.installation import own_version
from penstock.plans.metrics.rates_and_loads import TERMS

# Jobs of known cost on the real Flink's MiniCluster, in a JVM that ends with the call.


HEAP = "2g"


class MeasuredOperator(NamedTuple):
    """An operator that spins for `nanoseconds` per record; `inputs` are (source, partitioner, tag or "")."""

    id: int
    parallelism: int
    nanoseconds: float = 0.0
    selectivity: float = 1.0
    bytes: int = 100
    group: str = "default"
    new_chain: bool = False
    inputs: Sequence[tuple[int, str, str]] = ()


class MeasuredJob(NamedTuple):
    """Operators in topological order, measured for `seconds` after `warm_up_seconds`."""

    name: str
    operators: Sequence[MeasuredOperator]
    object_reuse: bool = False
    warm_up_seconds: float = 1.0
    seconds: float = 1.0


class MiniCluster(NamedTuple):
    """TaskManagers in one process, which share all cores of the machine."""

    task_managers: int = 1
    slots: int = 64
    buffer_bytes: int = 32_768


class JobRun(NamedTuple):
    """Records/s of each source and processor seconds per second in one run.

    Processor time is by task and subtask (`task NAME`, `subtask NAME`), of `network` threads and of the
    `process`. `error`: the reason if it did not run.
    """

    name: str
    records_per_second: Mapping[int, float]
    processor: Mapping[str, float]
    error: str | None


class MeasuredJobsError(PenstockError):
    """The JVM that runs jobs ended early."""


ONE_TASK_MANAGER = MiniCluster()


def run_measured_jobs(jobs: Iterable[MeasuredJob], cluster: MiniCluster = ONE_TASK_MANAGER) -> list[JobRun]:
    """Run each job, in order, on one MiniCluster.

    Raises ConfigurationError (the extra `flink`, Java or javac are missing) and MeasuredJobsError.
    """
    java, jars = require_java(), flink_jars()
    classes = compiled_measured_jobs(jars, java)
    with short_lived_folder("flink-jobs") as folder:
        jobs_file, results, log = (Path(folder, name) for name in ("jobs", "results", "log"))
        jobs_file.write_text("".join(json.dumps(_as_json(job)) + "\n" for job in jobs), encoding="utf-8")
        command = [
            java.path, *JAVA_OPTIONS, f"-Xmx{HEAP}", "-Dlog4j2.level=ERROR", "-cp", f"{classes}:{jars / '*'}",
            "penstock.flink.measured.RunJobs", str(jobs_file), str(results),
            str(cluster.task_managers), str(cluster.slots), f"{cluster.buffer_bytes}b",
        ]  # fmt: skip
        with log.open("wb") as file:
            code = subprocess.run(
                with_parent(command), stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=False
            ).returncode
        if code:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise MeasuredJobsError(f"Flink's MiniCluster ended with exit code {code}: {''.join(last)}")
        return [_run_on_flink(json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]


def _as_json(job: MeasuredJob) -> dict[str, Any]:
    operators = []
    for operator in job.operators:
        inputs = [
            {"source": source, "partitioner": partitioner, "tag": tag}
            for source, partitioner, tag in operator.inputs
        ]
        operators.append({**operator._asdict(), "inputs": inputs})
    return {**job._asdict(), "operators": operators}


def _run_on_flink(result: Mapping[str, Any]) -> JobRun:
    if "error" in result:
        return JobRun(result["name"], {}, {}, result["error"])
    seconds = result["seconds"]
    return JobRun(
        result["name"],
        {int(source): count / seconds for source, count in result["records"].items()},
        {name: spent / seconds for name, spent in result["processor_seconds"].items()},
        None,
    )


# Constants of the cost model, measured by micro runs on the real Flink's MiniCluster.


REPEATS = 5
RESAMPLES = 200
SMALL, LARGE = 100, 1000
"""Sizes of records in bytes."""

_LINKS = 8
"""Operators between source and sink of the long chain."""

LITTLE_BUFFER, BUFFER = 4096, 32_768

Times = Mapping[str, Mapping[str, float]]
"""Nanoseconds of processor time per record, by job and task."""


class MeasuredTerm(NamedTuple):
    """A term in the unit of its name, its quartiles, and the number of measured runs."""

    value: float
    low: float
    high: float
    runs: int


def calibrate_on_flink(report: Callable[[str], None]) -> dict[str, MeasuredTerm]:
    """Measure the terms of handing records on, by name.

    Times are processor times of the tasks' own threads, so that other work on the machine does not count.
    Every repetition runs every job once, so that drift affects all jobs alike. Raises the errors of
    run_measured_jobs, and PenstockError if all runs of a job fail.
    """
    one_each = [*_chains(), *_exchanges()]
    report(f"run {len(one_each)} jobs {REPEATS} times on Flink's MiniCluster")
    warm_up = [job._replace(warm_up_seconds=2.0, seconds=2.0) for job in one_each[:2]]
    runs = run_measured_jobs([*warm_up, *one_each * REPEATS])[len(warm_up) :]
    little = _exchange_job("little buffers", LARGE)
    report("with small buffers")
    little_runs = run_measured_jobs([little] * (REPEATS + 1), MiniCluster(buffer_bytes=LITTLE_BUFFER))[1:]
    remote = _exchange_job("remote", LARGE, apart=True)
    report("between two TaskManagers")
    remote_runs = run_measured_jobs([remote] * (REPEATS + 1), MiniCluster(2, 1))[1:]
    measured: dict[str, list[dict[str, float]]] = {}
    failed: dict[str, str] = {}
    for run in (*runs, *little_runs, *remote_runs):
        if run.error is None:
            measured.setdefault(run.name, []).append(_nanoseconds(run))
        else:
            failed[run.name] = run.error
    for name, error in failed.items():
        if name not in measured:
            raise PenstockError(f"job {name} failed on Flink's MiniCluster: {error}")
    return summarised(measured, _terms)


def summarised(
    measured: Mapping[str, Sequence[Mapping[str, float]]], terms_of: Callable[[Times], dict[str, float]]
) -> dict[str, MeasuredTerm]:
    """Compute the terms from each task's median time; quartiles are over RESAMPLES bootstrap samples of runs.

    `measured` maps jobs to the nanoseconds of their tasks in each run. A term is a difference of times; the
    medians are taken first, because a single disturbed run could make the difference of two runs negative.
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
        _chain_job(f"chain {links} {size}{' reuse' if reuse else ''}", links, size, reuse)
        for links in (0, _LINKS)
        for size, reuse in ((SMALL, True), (SMALL, False), (LARGE, False))
    ]


def _exchanges() -> list[MeasuredJob]:
    return [
        _exchange_job(f"exchange {SMALL}", SMALL),
        _exchange_job(f"exchange {LARGE}", LARGE),
        _exchange_job("forward", SMALL, parallelism=2),
        _exchange_job("hash", SMALL, "HASH", parallelism=2),
    ]


def _chain_job(name: str, links: int, size: int, reuse: bool) -> MeasuredJob:
    """Make a source, `links` operators and a sink in one chain."""
    operators = [MeasuredOperator(0, 1, bytes=size)]
    operators += [
        MeasuredOperator(number, 1, bytes=size, inputs=[(number - 1, "FORWARD", "")])
        for number in range(1, links + 2)
    ]
    return MeasuredJob(name, operators, reuse)


def _exchange_job(
    name: str, size: int, partitioner: str = "FORWARD", parallelism: int = 1, apart: bool = False
) -> MeasuredJob:
    """Make a source and a sink in separate vertices and, with `apart`, in separate slots."""
    source = MeasuredOperator(0, parallelism, bytes=size)
    sink = MeasuredOperator(
        1, parallelism, bytes=size, group="apart" if apart else "default", new_chain=True,
        inputs=[(0, partitioner, "")],
    )  # fmt: skip
    return MeasuredJob(name, [source, sink], True)


def _nanoseconds(run: JobRun) -> dict[str, float]:
    """Return nanoseconds per record of the source for tasks `source`, `sink`, and `network` between them."""
    rate = sum(run.records_per_second.values())
    times = {"network": run.processor.get("network", 0.0) / rate * 1e9}
    for name, share in run.processor.items():
        if name.startswith("task Source"):
            times["source"] = share / rate * 1e9
        elif name.startswith("task Sink"):
            times["sink"] = share / rate * 1e9
    return times


def _terms(times: Times) -> dict[str, float]:
    """Compute the terms of one repetition. A source without a sink is a chain of both without its call."""

    def link(size: int, reuse: bool) -> float:
        kind = f"{size}{' reuse' if reuse else ''}"
        return (times[f"chain {_LINKS} {kind}"]["source"] - times[f"chain 0 {kind}"]["source"]) / _LINKS

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


GUESSED_NANOSECONDS = 3_000.0
"""Guess of an operator's time per record in addition to its work, to choose the number of records."""

FEW, MANY = 2, 8_000_000
"""Records of a source: in the run that is subtracted, and at most."""
MORE = 4
"""Factor of records if the last number took too little time to be distinguished from the start of a job."""


def run_jobs_on_penstock(
    jobs: Iterable[MeasuredJob], report: Callable[[str], None], until: float = float("inf")
) -> list[JobRun]:
    """Run each job, in order, in this process's session of Spark; none begins after `until` (time.monotonic).

    A job runs with almost no records first, then with about as many as need `seconds` of one core; with more
    if the two runs differ by less than half of that. The result is the difference: records/s of each source,
    and processor seconds per second of `process`, which is this process, the JVM and all Python workers. Slot
    sharing groups do not matter: Spark gives tasks to cores as they become free. Jobs with side outputs are
    not run (`error`), nor are jobs that take no longer with MANY records.
    """
    runs: list[JobRun] = []
    for job in jobs:
        if time.monotonic() > until:
            break
        report(job.name)
        try:
            runs.append(_run(job))
        except PenstockError as error:
            runs.append(JobRun(job.name, {}, {}, error.message))
    return runs


def _run(job: MeasuredJob) -> JobRun:
    if any(tag for operator in job.operators for _, _, tag in operator.inputs):
        return JobRun(job.name, {}, {}, "it has side outputs")
    sources = [operator for operator in job.operators if not operator.inputs]
    wanted = min(round(job.seconds * 1e9 / _guessed_nanoseconds(job)), MANY)
    records = max(wanted // len(sources), 10 * FEW)
    few = _execute(job, FEW)
    while True:
        many = _execute(job, records)
        seconds, processor = many[0] - few[0], many[1] - few[1]
        if min(seconds, processor) >= job.seconds / 2:
            rates = dict.fromkeys((source.id for source in sources), (records - FEW) / seconds)
            return JobRun(job.name, rates, {"process": processor / seconds}, None)
        if records * MORE * len(sources) > MANY:
            return JobRun(job.name, {}, {}, f"{records:,} records take too little time to be measured")
        records *= MORE


def _guessed_nanoseconds(job: MeasuredJob) -> float:
    """Guess the processor time of all operators per record of the sources."""
    flow: dict[int, float] = {}
    total = sources = 0.0
    for operator in job.operators:
        arriving = sum(flow[source] for source, _, _ in operator.inputs) if operator.inputs else 1.0
        sources += 0.0 if operator.inputs else 1.0
        flow[operator.id] = arriving * (operator.selectivity if operator.inputs else 1.0)
        total += arriving * (operator.nanoseconds + GUESSED_NANOSECONDS)
    return total / sources


def _execute(job: MeasuredJob, records: int) -> tuple[float, float]:
    """Execute a job; return wall-clock seconds and processor seconds."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    streams: dict[int, DataStream] = {}
    read = {source for operator in job.operators for source, _, _ in operator.inputs}
    for operator in job.operators:
        env.set_parallelism(operator.parallelism)
        streams[operator.id] = _stream(env, operator, streams, records)
        if operator.id not in read:
            streams[operator.id].sink_to(DiscardSink())
    started, spent = time.monotonic(), processor_seconds_of_tree(os.getpid())
    env.execute(job.name)
    return time.monotonic() - started, processor_seconds_of_tree(os.getpid()) - spent


def _stream(
    env: StreamExecutionEnvironment,
    operator: MeasuredOperator,
    streams: Mapping[int, DataStream],
    records: int,
) -> DataStream:
    work = Work(operator.nanoseconds, operator.selectivity if operator.inputs else 1.0, operator.bytes)
    if not operator.inputs:
        source = NumberSequenceSource(0, records - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), f"{operator.id}", Types.LONG())
        return numbers.flat_map(work)
    alone = len(operator.inputs) == 1
    first, *others = [
        _partitioned(streams[source], partitioner, alone) for source, partitioner, _ in operator.inputs
    ]
    stream = first.union(*others).flat_map(work) if others else first.flat_map(work)
    return stream.start_new_chain() if operator.new_chain else stream


def _partitioned(stream: DataStream, partitioner: str, alone: bool) -> DataStream:
    match partitioner:
        case "FORWARD":
            return stream.forward()
        case "HASH" if alone:
            return stream.key_by(lambda record: record[0], Types.LONG())
        case "BROADCAST":
            return stream.broadcast()
        case "GLOBAL":
            return stream.global_()
        case "RESCALE":
            return stream.rescale()
        case "SHUFFLE":
            return stream.shuffle()
    return stream.rebalance()  # keys of one input are lost in the union with others


def processor_seconds_of_tree(process: int) -> float:
    """Return the processor time of a process and all its descendants, in user and system mode."""
    return sum(map(processor_seconds, process_tree(process)))


# Functions of known cost, for jobs that are measured on Penstock's own runtime.


_LOOPS = 200_000
_TRIALS = 5

Record = tuple[int, bytes]


class Work(FlatMapFunction):
    """Loops for `nanoseconds` per record, and emits `selectivity` records of `size` bytes with its key."""

    def __init__(self, nanoseconds: float, selectivity: float, size: int) -> None:
        self._nanoseconds, self._selectivity, self._size = nanoseconds, selectivity, size
        self._owed = 0.0
        self._turns = range(0)
        self._payload = b""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Measure the time of the loop in this process."""
        self._turns = range(round(self._nanoseconds / _nanoseconds_of_turn()))
        self._payload = bytes(self._size)

    def flat_map(self, value: Any) -> Iterator[Record]:
        """Return the records for a record, or for a number of the source."""
        for _ in self._turns:
            pass
        self._owed += self._selectivity
        while self._owed >= 1.0:
            self._owed -= 1.0
            yield (value if isinstance(value, int) else value[0]), self._payload


@cache
def _nanoseconds_of_turn() -> float:
    """Return the processor time of one turn of the loop, the least of some trials."""
    best = float("inf")
    for _ in range(_TRIALS):
        started = process_time_ns()
        for _ in range(_LOOPS):
            pass
        best = min(best, (process_time_ns() - started) / _LOOPS)
    return max(best, 1.0)


# Constants of the cost model, measured by micro runs on Penstock's own runtime, on Spark.


PENSTOCK_REPEATS = 3
SECONDS = 1.5


def calibrate_on_penstock(
    report: Callable[[str], None], budget: float = float("inf")
) -> dict[str, MeasuredTerm]:
    """Measure the terms of handing records on, by name, in processor time of all processes.

    A chain calls its operators without copies, so `copy_ns` and `copy_ns_per_byte` are 0. The cost of an
    exchange is measured as a whole and divided evenly between its two ends: vertices run one after the other,
    so only the sum matters. No job begins after `budget` seconds. Raises PenstockError unless each job has
    run once.
    """
    until = time.monotonic() + budget
    jobs = [
        _chain_job("chain 0", 0, SMALL, reuse=True),
        _chain_job("chain", _LINKS, SMALL, reuse=True),
        _exchange_job(f"exchange {SMALL}", SMALL),
        _exchange_job(f"exchange {LARGE}", LARGE),
        _exchange_job("forward", SMALL, parallelism=2),
        _exchange_job("hash", SMALL, "HASH", parallelism=2),
    ]
    timed = [job._replace(seconds=SECONDS) for job in jobs]
    warm_up = timed[:1] * 2
    runs = run_jobs_on_penstock([*warm_up, *timed * PENSTOCK_REPEATS], report, until)[len(warm_up) :]
    measured: dict[str, list[dict[str, float]]] = {}
    for run in runs:
        if run.error is not None:
            raise PenstockError(f"job {run.name} failed: {run.error}")
        nanoseconds = run.processor["process"] / sum(run.records_per_second.values()) * 1e9
        measured.setdefault(run.name, []).append({"process": nanoseconds})
    for job in timed:
        if job.name not in measured:
            raise PenstockError(f"job {job.name} has not run in {budget:g} s", "use a larger --budget")
    return summarised(measured, _penstock_terms)


def _penstock_terms(times: Times) -> dict[str, float]:
    each = {name: task["process"] for name, task in times.items()}
    call = (each["chain"] - each["chain 0"]) / _LINKS
    small, large = (each[f"exchange {size}"] - each["chain 0"] + call for size in (SMALL, LARGE))
    per_byte = max((large - small) / (LARGE - SMALL), 0.0)
    half, half_per_byte = max(small - per_byte * SMALL, 0.0) / 2, per_byte / 2
    return {
        "call_ns": call,
        "copy_ns": 0.0,
        "copy_ns_per_byte": 0.0,
        "serialise_ns": half,
        "serialise_ns_per_byte": half_per_byte,
        "deserialise_ns": half,
        "deserialise_ns_per_byte": half_per_byte,
        "route_ns": each["hash"] - each["forward"],
        "handover_ns_per_buffer": 0.0,
    }


# The file of measured constants that --constants takes.


FORMAT = 1


def calibrate(path: Path, runtime: Runtime, budget: float, report: Callable[[str], None]) -> dict[str, Any]:
    """Measure the terms, write them to `path`, and return them.

    On Penstock's runtime no job begins after `budget` seconds. Raises the errors of calibrate_on_flink and
    calibrate_on_penstock, and OSError.
    """
    from penstock.engine.measure.bench.measure_suites import describe_machine, describe_versions

    machine = describe_machine()
    if runtime is Runtime.FLINK:
        measured_by = f"Flink {FLINK_VERSION} MiniCluster"
        terms = calibrate_on_flink(report)
    else:
        measured_by = f"Penstock {own_version()} on Spark"
        terms = calibrate_on_penstock(report, budget)
    written = {
        "format": FORMAT,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
        "machine": machine,
        "versions": describe_versions(True),
        "terms": {name: _entry(name, term, measured_by) for name, term in terms.items()},
    }
    with replace_file(path) as file:
        file.write((json.dumps(written, indent=2) + "\n").encode())
    return written


def _entry(name: str, term: MeasuredTerm, measured_by: str) -> dict[str, Any]:
    source = f"measured: {measured_by}, median and quartiles of {term.runs} runs"
    numbers = {key: round(getattr(term, key), 4) for key in ("value", "low", "high")}
    return {**numbers, "unit": TERMS[name].unit, "about": TERMS[name].about, "source": source}
