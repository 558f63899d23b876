"""Runs jobs of known cost on Penstock's own runtime, and measures their rates and processor time."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from time import process_time_ns
from typing import Any

from penstock.engine.flink.measured_jobs.run_measured_jobs import JobRun, MeasuredJob, MeasuredOperator
from penstock.engine.pyflink.common import Types, WatermarkStrategy
from penstock.engine.pyflink.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from penstock.engine.pyflink.datastream.connectors.number_seq import NumberSequenceSource
from penstock.engine.pyflink.datastream.data_stream import DataStream
from penstock.engine.pyflink.datastream.functions import FlatMapFunction, RuntimeContext
from penstock.operators.connectors.sink import DiscardSink
from penstock.plans.errors import PenstockError

GUESSED_NANOSECONDS = 3_000.0
"""What an operator is guessed to take for a record beside its work, to choose the number of records."""

FEW, MANY = 2, 8_000_000
"""Records of a source: in the run that is taken off, and at most."""
MORE = 4
"""Times as many records as before, where they took too little time to be told from the start of a job."""

_TICKS = os.sysconf("SC_CLK_TCK")


def run_jobs_on_penstock(
    jobs: Iterable[MeasuredJob], report: Callable[[str], None], until: float = float("inf")
) -> list[JobRun]:
    """A run for each job, in their order, in this process's session of Spark; none begins after `until`
    (time.monotonic).

    A job runs with next to no records first, then with about as many as `seconds` of one core need; with more
    where both differ by less than half of that. What is reported is the difference: records/s that each
    source emits, and processor seconds a second of `process`, which are this process, the JVM and all Python
    workers. Slot sharing groups do not matter: Spark gives tasks to cores as these come free. Jobs with side
    outputs are not run (`error`), nor are those that take no longer with MANY records.
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
    """A guess at the processor time of all operators for each record of the sources."""
    flow: dict[int, float] = {}
    total = sources = 0.0
    for operator in job.operators:
        arriving = sum(flow[source] for source, _, _ in operator.inputs) if operator.inputs else 1.0
        sources += 0.0 if operator.inputs else 1.0
        flow[operator.id] = arriving * (operator.selectivity if operator.inputs else 1.0)
        total += arriving * (operator.nanoseconds + GUESSED_NANOSECONDS)
    return total / sources


def _execute(job: MeasuredJob, records: int) -> tuple[float, float]:
    """Execute a job: seconds by the clock, and processor seconds."""
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    streams: dict[int, DataStream] = {}
    read = {source for operator in job.operators for source, _, _ in operator.inputs}
    for operator in job.operators:
        env.set_parallelism(operator.parallelism)
        streams[operator.id] = _stream(env, operator, streams, records)
        if operator.id not in read:
            streams[operator.id].sink_to(DiscardSink())
    started, spent = time.monotonic(), processor_seconds(os.getpid())
    env.execute(job.name)
    return time.monotonic() - started, processor_seconds(os.getpid()) - spent


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
    return stream.rebalance()  # keys of one input among several do not outlive the union


def processor_seconds(process: int) -> float:
    """Processor time of a process and all that it has started, in user and system mode."""
    ticks: dict[int, float] = {}
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
        children.setdefault(int(fields[1]), []).append(int(folder.name))
    todo: Sequence[int] = [process]
    total = 0.0
    while todo:
        total += sum(ticks.get(pid, 0.0) for pid in todo)
        todo = [child for pid in todo for child in children.get(pid, [])]
    return total / _TICKS


# Functions of known cost, for jobs that are measured on Penstock's own runtime.


_LOOPS = 200_000
_TRIALS = 5

Record = tuple[int, bytes]


class Work(FlatMapFunction):
    """Loops for `nanoseconds` a record, and emits `selectivity` records of `size` bytes for it, keys kept."""

    def __init__(self, nanoseconds: float, selectivity: float, size: int) -> None:
        self._nanoseconds, self._selectivity, self._size = nanoseconds, selectivity, size
        self._owed = 0.0
        self._turns = range(0)
        self._payload = b""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Measure how long the loop takes in this process."""
        self._turns = range(round(self._nanoseconds / _nanoseconds_of_turn()))
        self._payload = bytes(self._size)

    def flat_map(self, value: Any) -> Iterator[Record]:
        """The records for a record, or for a number of the source."""
        for _ in self._turns:
            pass
        self._owed += self._selectivity
        while self._owed >= 1.0:
            self._owed -= 1.0
            yield (value if isinstance(value, int) else value[0]), self._payload


@cache
def _nanoseconds_of_turn() -> float:
    """Processor time of one turn of the loop: the least of some trials."""
    best = float("inf")
    for _ in range(_TRIALS):
        started = process_time_ns()
        for _ in range(_LOOPS):
            pass
        best = min(best, (process_time_ns() - started) / _LOOPS)
    return max(best, 1.0)
