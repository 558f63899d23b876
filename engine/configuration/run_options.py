"""Options for running the jobs of a script; settings of the script win over the configuration."""

from collections.abc import Callable
from typing import Any

from penstock.engine.configuration.cluster_options import A_DURATION, Option, Reader
from penstock.operators.common.configuration import parse_float
from penstock.plans.topology.flink_options import (
    parse_duration,
    parse_int,
    parse_long,
    parse_map,
    parse_string,
)

# Options of restart strategies: how often a failed job restarts.
#
# Source: org.apache.flink.configuration.RestartStrategyOptions.


NO_RESTART, FIXED_DELAY, FAILURE_RATE, EXPONENTIAL_DELAY = (
    "none",
    "fixed-delay",
    "failure-rate",
    "exponential-delay",
)
_ALIASES = {
    "off": NO_RESTART,
    "disable": NO_RESTART,
    "fixeddelay": FIXED_DELAY,
    "failurerate": FAILURE_RATE,
    "exponentialdelay": EXPONENTIAL_DELAY,
}
_TYPES = (NO_RESTART, FIXED_DELAY, FAILURE_RATE, EXPONENTIAL_DELAY)
_INFINITE = 2**31 - 1


def _parse_type(text: str) -> str:
    word = text.strip().lower()
    strategy = _ALIASES.get(word, word)
    if strategy not in _TYPES:
        raise ValueError("is not a restart strategy")
    return strategy


def _restarts_at_least(least: int) -> Callable[[str], int]:
    def parsed(text: str) -> int:
        number = parse_int(text)
        if number < least:
            raise ValueError(f"is below {least}")
        return number

    return parsed


def _parse_share(text: str) -> float:
    share = parse_float(text)
    if not 0 <= share <= 1:
        raise ValueError("is not between 0 and 1")
    return share


def _parse_multiplier(text: str) -> float:
    multiplier = parse_float(text)
    if not 1 < multiplier < float("inf"):
        raise ValueError("is not above 1")
    return multiplier


def _option(
    key: str, parse: Callable[[str], Any], default: Any, allowed: str, meaning: str, *deprecated: str
) -> Option:
    return Option(f"restart-strategy.{key}", parse, default, allowed, meaning, Reader.RUNS, deprecated)


def _delay(key: str, default: int, meaning: str) -> Option:
    return _option(key, parse_duration, default, A_DURATION, meaning)


STRATEGY = _option(
    "type",
    _parse_type,
    None,
    ", ".join(_TYPES),
    "how often a failed job restarts; none: never",
    "restart-strategy",
)
FIXED_ATTEMPTS = _option(
    "fixed-delay.attempts", _restarts_at_least(0), 1, "an integer from 0", "restarts of a job, at most"
)
FIXED_PAUSE = _delay("fixed-delay.delay", 1_000, "time before each restart")
RATE_FAILURES = _option(
    "failure-rate.max-failures-per-interval",
    _restarts_at_least(1),
    1,
    "an integer from 1",
    "restarts within the interval, at most",
)
RATE_INTERVAL = _delay("failure-rate.failure-rate-interval", 60_000, "the interval")
RATE_PAUSE = _delay("failure-rate.delay", 1_000, "time before each restart")
FIRST_BACKOFF = _delay("exponential-delay.initial-backoff", 1_000, "time before the first restart")
LONGEST_BACKOFF = _delay("exponential-delay.max-backoff", 60_000, "time before a restart, at most")
MULTIPLIER = _option(
    "exponential-delay.backoff-multiplier",
    _parse_multiplier,
    1.5,
    "a number above 1",
    "factor by which the time before a restart grows",
)
RESET_AFTER = _delay(
    "exponential-delay.reset-backoff-threshold",
    3_600_000,
    "time without a failure after which backoffs start again with the first",
)
JITTER = _option(
    "exponential-delay.jitter-factor",
    _parse_share,
    0.1,
    "a number from 0 to 1",
    "share of the time before a restart that is random",
)
BACKOFF_ATTEMPTS = _option(
    "exponential-delay.attempts-before-reset-backoff",
    _restarts_at_least(1),
    _INFINITE,
    "an integer from 1",
    "restarts until the job fails, unless backoffs start again with the first before",
)

_RESTART_OPTIONS = (
    STRATEGY,
    FIXED_ATTEMPTS,
    FIXED_PAUSE,
    RATE_FAILURES,
    RATE_INTERVAL,
    RATE_PAUSE,
    FIRST_BACKOFF,
    LONGEST_BACKOFF,
    MULTIPLIER,
    RESET_AFTER,
    JITTER,
    BACKOFF_ATTEMPTS,
)
"""Options of restart strategies, in the order of the reference."""


_A_PATH = "paths separated by commas"
_BYTES = "a whole number of bytes"


def _at_least(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        number = parse_long(text)
        if number < least:
            raise ValueError(f"is below {least}")
        return number

    return parse


def _run(
    key: str,
    parse: Callable[[str], object],
    default: object,
    allowed: str,
    meaning: str,
    deprecated: tuple[str, ...] = (),
    is_map: bool = False,
) -> Option:
    return Option(key, parse, default, allowed, meaning, Reader.RUNS, deprecated, is_map=is_map)


BLOCK_BYTES = _run(
    "penstock.exchange.block-bytes", _at_least(1), 1 << 20, _BYTES, "size of a block between tasks"
)
SORT_MEMORY_BYTES = _run(
    "penstock.batch.sort-memory-bytes",
    _at_least(1),
    64 << 20,
    _BYTES,
    "memory that sorting by key may use before it spills to disk",
)
STATE_MEMORY_BYTES = _run(
    "penstock.state.memory-bytes",
    _at_least(1),
    256 << 20,
    _BYTES,
    "memory that the state of a task may use before it spills to disk",
)
SEED = _run("penstock.seed", parse_long, 0, "a 64-bit integer", "seed of the shuffle partitioner")
PENSTOCK_OPTIONS = (BLOCK_BYTES, SORT_MEMORY_BYTES, STATE_MEMORY_BYTES, SEED)
"""Penstock's own options, set like Flink's."""

SLOT_REQUEST_TIMEOUT = _run(
    "slot.request.timeout",
    parse_duration,
    300_000,
    A_DURATION,
    "time that a job waits for its slots on a cluster or in a session",
    ("slot.request.timeout.ms",),
)

RUN_OPTIONS = (
    _run("pipeline.auto-watermark-interval", parse_duration, 200, A_DURATION, "time between watermarks"),
    _run(
        "pipeline.global-job-parameters",
        parse_map,
        {},
        "name:value,name:value, or a map",
        "parameters that functions of a job see",
        is_map=True,
    ),
    _run("python.files", parse_string, None, _A_PATH, "Python files, zips and folders for the workers"),
    _run(
        "python.requirements",
        parse_string,
        None,
        "a requirements.txt, and after # a folder of packages",
        "packages to install for the workers",
    ),
    _run(
        "python.archives",
        parse_string,
        None,
        "zips separated by commas, each with its folder after #",
        "archives that workers extract",
    ),
    SLOT_REQUEST_TIMEOUT,
    _run("python.executable", parse_string, None, "a path", "the interpreter of the workers"),
    *_RESTART_OPTIONS,
    *PENSTOCK_OPTIONS,
)
"""Options that running reads in addition to options of jobs."""
