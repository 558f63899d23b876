"""How long a failed job waits until it starts again, and when it has failed for good.

Source: org.apache.flink.runtime.executiongraph.failover.{RestartBackoffTimeStrategyFactoryLoader,
FixedDelayRestartBackoffTimeStrategy,FailureRateRestartBackoffTimeStrategy,
ExponentialDelayRestartBackoffTimeStrategy}.
"""

import random
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from penstock.engine.configuration import restart_options as options
from penstock.engine.configuration.option import Option
from penstock.engine.runtime.errors import JobCompileError

#: Told of each failure when it is (milliseconds): milliseconds until the restart; None: there is none.
Backoff = Callable[[int], int | None]

_LONGEST = 2**62
"""Milliseconds; where Flink's arithmetic would overflow, it starts with the first backoff again."""


def restart_backoff(config: Mapping[str, str]) -> Backoff:
    """What the options of a job say; without `restart-strategy.type` it never starts again.

    Flink starts jobs with checkpoints again by default: there are none here. Raises JobCompileError for a
    value that is wrong, and for values that contradict each other.
    """
    made = {
        options.FIXED_DELAY: _fixed_delay,
        options.FAILURE_RATE: _failure_rate,
        options.EXPONENTIAL_DELAY: _exponential_delay,
    }.get(_read(config, options.STRATEGY), _no_restart)
    return made(config)


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
            f"option {options.FIRST_BACKOFF.key}: {first} ms, allowed: from 1 ms to {longest} ms, as "
            f"{options.LONGEST_BACKOFF.key} says"
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
        raise JobCompileError(f"option {key}: {config[key]!r} {error}, allowed: {option.allowed}") from None
