"""Run a limited job on growing prefixes of its input, until there are enough results.

An exchange is a barrier on Spark: its readers begin when its producers have ended. In Flink both run at the
same time, and a limit stops producers that never end. Here the subtasks before an exchange are cut off after
a number of bytes. If this does not yield enough results, the job is run again with a larger number.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from penstock.engine.configuration import run_options as options
from penstock.engine.configuration.cluster_options import Option
from penstock.engine.output.print_line import print_message
from penstock.engine.run.runtime.compile_job import CompiledJob, CompiledVertex
from penstock.engine.run.runtime.job_monitor import Attempt, JobMonitor, now
from penstock.operators.connectors.sink import CollectSink
from penstock.operators.exchange.channel_writer import CUT_OFF
from penstock.plans.errors import JobCancelledError, JobCompileError, JobExecutionError, LostResultsError

#: Bytes that each subtask may write to each exchange in the first run, and the factor for each further run.
_FIRST_BUDGET_BYTES, _GROWTH = 16 << 20, 8

#: (edge, channel, sequence, payload) of each row that the driver received.
Rows = list[tuple[int, int, int, Any]]


def run_until_enough(
    compiled: CompiledJob,
    batch: bool,
    run: Callable[[CompiledJob], Rows],
    count: Callable[[Rows], int],
) -> Rows:
    """Return the rows of `run(compiled)`, over its whole input or over a prefix that suffices for its limit.

    `count` returns the number of records in rows. BATCH mode has barriers in Flink too, so nothing is cut
    off.
    """
    limit = None if batch else _limit(compiled)
    if limit is None:
        return run(compiled)
    for budget in _budgets():
        rows = run(_with_budget(compiled, budget))
        wanted = [row for row in rows if row[3].size != len(CUT_OFF)]
        if len(wanted) == len(rows) or count(wanted) >= limit:
            return wanted
    raise AssertionError("budgets have no end")


def _limit(compiled: CompiledJob) -> int | None:
    """Return the limit of a job whose only sink is a CollectSink; None for other jobs."""
    sinks = [terminal.sink for terminal in compiled.terminals]
    return sinks[0].limit if len(sinks) == 1 and isinstance(sinks[0], CollectSink) else None


def _budgets() -> Iterator[int]:
    budget = _FIRST_BUDGET_BYTES
    while True:
        yield budget
        budget *= _GROWTH


def _with_budget(compiled: CompiledJob, budget: int) -> CompiledJob:
    """Return `compiled` with a budget for every output, except outputs that Spark reads as a pipeline: the
    only output of a vertex, with one forward reader.
    """
    alone = {vertex.chain.vertex for vertex in compiled.vertices if len(vertex.chain.outputs) == 1}
    pulled = {
        gate.edge
        for vertex in compiled.vertices
        if vertex.forward_only and alone.issuperset(vertex.producers)
        for gate in vertex.chain.gates
    }

    def limited(vertex: CompiledVertex) -> CompiledVertex:
        outputs = tuple(
            output if output.edge in pulled else replace(output, budget_bytes=budget)
            for output in vertex.chain.outputs
        )
        return replace(vertex, chain=replace(vertex.chain, outputs=outputs))

    return CompiledJob(tuple(map(limited, compiled.vertices)), compiled.terminals)


# A job that fails is started again according to its restart strategy.
#
# Source: org.apache.flink.runtime.executiongraph.failover.ExecutionFailureHandler.


Result = TypeVar("Result")

_RESTARTS_AFTER_LOSS = 3
"""One fewer than the attempts that Spark makes of a stage."""


class Control(Protocol):
    """The attributes of a running job that are read and set here."""

    cancel_requested: threading.Event
    state: str
    monitor: JobMonitor | None


def start_again_after_failures(
    backoff: Backoff,
    control: Control,
    name: str,
    spark: SparkSession,
    start: Callable[[list[Attempt]], Result],
) -> Result:
    """Return the result of `start`, called with the attempts so far, as often as `backoff` allows.

    Only failures while the job `name` runs lead to a restart: JobCompileError, and an end of Spark itself, do
    not. LostResultsError leads to one without a strategy too, because Spark would repeat the lost work itself
    if it could. Raises the error of the last start, and JobCancelledError if the run is cancelled between
    two starts.
    """
    earlier: list[Attempt] = []
    restarts = losses = 0
    while True:
        try:
            return start(earlier)
        except JobExecutionError as error:
            lost = isinstance(error, LostResultsError)
            losses += lost
            delay = 0 if lost and losses <= _RESTARTS_AFTER_LOSS else backoff(now())
            if delay is None or not _is_running(spark):
                raise
            restarts += 1
            cause = error.message.splitlines()[0]
            print_message(f"{cause}; it starts again in {delay / 1000:g} s (restart {restarts})")
        control.state = "RESTARTING"
        if control.monitor is not None:
            earlier = control.monitor.snapshot()
        if control.cancel_requested.wait(delay / 1000):
            raise JobCancelledError(f"job {name!r} was cancelled; nothing of it is committed")


def _is_running(spark: SparkSession) -> bool:
    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except AttributeError:  # a session of several clients has no context in this process
        return True
    except (Py4JError, OSError):
        return False


# The time that a failed job waits until it starts again, and the end of its restarts.
#
# Source: org.apache.flink.runtime.executiongraph.failover.{RestartBackoffTimeStrategyFactoryLoader,
# FixedDelayRestartBackoffTimeStrategy,FailureRateRestartBackoffTimeStrategy,
# ExponentialDelayRestartBackoffTimeStrategy}.


#: Called with the time of each failure (milliseconds); returns milliseconds until the restart, None for none.
Backoff = Callable[[int], int | None]

_LONGEST = 2**62
"""Longest backoff in milliseconds. If Flink's arithmetic would overflow, it restarts at the first backoff."""


def restart_backoff(config: Mapping[str, str]) -> Backoff:
    """Return the backoff that a job's options configure; without `restart-strategy.type` there is no restart.

    Flink by default restarts jobs that take checkpoints; jobs here take none. Raises JobCompileError for a
    wrong value, and for values that contradict each other.
    """
    make_backoff = {
        options.FIXED_DELAY: _fixed_delay,
        options.FAILURE_RATE: _failure_rate,
        options.EXPONENTIAL_DELAY: _exponential_delay,
    }.get(_read(config, options.STRATEGY), _no_restart)
    return make_backoff(config)


def _no_restart(config: Mapping[str, str]) -> Backoff:
    return lambda now: None


def _fixed_delay(config: Mapping[str, str]) -> Backoff:
    attempts, delay = _read(config, options.FIXED_ATTEMPTS), _read(config, options.FIXED_PAUSE)
    failures = 0

    def backoff(now: int) -> int | None:
        nonlocal failures
        failures += 1
        return int(delay) if failures <= attempts else None

    return backoff


def _failure_rate(config: Mapping[str, str]) -> Backoff:
    most, interval = _read(config, options.RATE_FAILURES), _read(config, options.RATE_INTERVAL)
    delay = _read(config, options.RATE_PAUSE)
    failures: deque[int] = deque(maxlen=most + 1)

    def backoff(now: int) -> int | None:
        failures.append(now)
        return int(delay) if len(failures) <= most or now - failures[0] > interval else None

    return backoff


def _exponential_delay(config: Mapping[str, str]) -> Backoff:
    first, longest = _read(config, options.FIRST_BACKOFF), _read(config, options.LONGEST_BACKOFF)
    if not 1 <= first <= longest:
        raise JobCompileError(
            f"option {options.FIRST_BACKOFF.key} must be from 1 ms to {longest} ms, the value of "
            f"{options.LONGEST_BACKOFF.key}; got {first} ms"
        )
    multiplier, jitter = _read(config, options.MULTIPLIER), _read(config, options.JITTER)
    reset_after, attempts = _read(config, options.RESET_AFTER), _read(config, options.BACKOFF_ATTEMPTS)
    restarts, last_restart = 0, 0

    def backoff(now: int) -> int | None:
        nonlocal restarts, last_restart
        if now - last_restart >= reset_after:
            restarts = 0
        grown = _LONGEST
        with suppress(OverflowError):
            grown = min(_LONGEST, int(first * multiplier**restarts))
        offset = int(grown * jitter)
        wait = max(first, min(longest, grown + random.randint(-offset, offset)))
        restarts, last_restart = restarts + 1, now + wait
        return int(wait) if restarts <= attempts else None

    return backoff


def _read(config: Mapping[str, str], option: Option) -> Any:
    key = next((key for key in (option.key, *option.deprecated) if key in config), None)
    if key is None:
        return option.default
    try:
        return option.parse(config[key])
    except ValueError as error:
        raise JobCompileError(f"option {key}: {config[key]!r} {error}; it must be {option.allowed}") from None
