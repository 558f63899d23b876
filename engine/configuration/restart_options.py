"""Options of how often a failed job starts again.

Source: org.apache.flink.configuration.RestartStrategyOptions.
"""

from collections.abc import Callable
from typing import Any

from penstock.engine.configuration.option import A_DURATION, Option, Reader
from penstock.operators.common.configuration import parse_float
from penstock.plans.topology.flink_values import parse_duration, parse_int

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
        raise ValueError("is no restart strategy")
    return strategy


def _at_least(least: int) -> Callable[[str], int]:
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
    "how often a failed job starts again; none: never",
    "restart-strategy",
)
FIXED_ATTEMPTS = _option(
    "fixed-delay.attempts", _at_least(0), 1, "an integer from 0", "how often a job starts again"
)
FIXED_PAUSE = _delay("fixed-delay.delay", 1_000, "time before each restart")
RATE_FAILURES = _option(
    "failure-rate.max-failures-per-interval",
    _at_least(1),
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
    "factor of the time before a restart, from one to the next",
)
RESET_AFTER = _delay(
    "exponential-delay.reset-backoff-threshold",
    3_600_000,
    "time without a failure after which the first backoff counts again",
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
    _at_least(1),
    _INFINITE,
    "an integer from 1",
    "restarts until the job fails, unless the first backoff counts again before",
)

RESTART_OPTIONS = (
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
"""In the order of the reference."""
