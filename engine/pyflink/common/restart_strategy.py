"""How often a failed job starts again. Source: pyflink.common.restart_strategy.

PyFlink 2.3 still has these classes, but no call that takes one: as in Flink 2, options say how often a job
starts again (`restart-strategy.type` and those below it, engine.configuration.restart_options).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from penstock.operators.common.arguments import require_integer


class RestartStrategyConfiguration(ABC):
    """One way to start again."""

    @abstractmethod
    def get_description(self) -> str:
        """What it does, in a sentence."""


class RestartStrategies:
    """Makes restart strategies."""

    @dataclass(frozen=True)
    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Never."""

        def get_description(self) -> str:
            """What it does."""
            return "Restart deactivated."

    @dataclass(frozen=True)
    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A number of times, with a delay (milliseconds or timedelta) before each."""

        restart_attempts: int
        delay_between_attempts_interval: int | timedelta

        def __post_init__(self) -> None:
            _at_least(0, self.restart_attempts, "restart_attempts")
            _milliseconds(self.delay_between_attempts_interval)

        def get_restart_attempts(self) -> int:
            """How often."""
            return self.restart_attempts

        def get_delay_between_attempts_interval(self) -> timedelta:
            """The delay."""
            return timedelta(milliseconds=_milliseconds(self.delay_between_attempts_interval))

        def get_description(self) -> str:
            """What it does."""
            delay = _milliseconds(self.delay_between_attempts_interval)
            return f"Restart with fixed delay ({delay} ms). #{self.restart_attempts} restart attempts."

    @dataclass(frozen=True)
    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """As long as not too many failures fall into an interval, with a delay before each."""

        max_failure_rate: int
        failure_interval: int | timedelta
        delay_between_attempts_interval: int | timedelta

        def __post_init__(self) -> None:
            _at_least(1, self.max_failure_rate, "max_failure_rate")
            _milliseconds(self.failure_interval)
            _milliseconds(self.delay_between_attempts_interval)

        def get_max_failure_rate(self) -> int:
            """How many failures may fall into the interval."""
            return self.max_failure_rate

        def get_failure_interval(self) -> timedelta:
            """The interval."""
            return timedelta(milliseconds=_milliseconds(self.failure_interval))

        def get_delay_between_attempts_interval(self) -> timedelta:
            """The delay."""
            return timedelta(milliseconds=_milliseconds(self.delay_between_attempts_interval))

        def get_description(self) -> str:
            """What it does."""
            interval = _milliseconds(self.failure_interval)
            delay = _milliseconds(self.delay_between_attempts_interval)
            return (
                f"Failure rate restart with maximum of {self.max_failure_rate} failures within interval "
                f"{interval} ms and fixed delay {delay} ms."
            )

    @dataclass(frozen=True)
    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """As the cluster does."""

        def get_description(self) -> str:
            """What it does."""
            return "Cluster level default restart strategy"

    @staticmethod
    def no_restart() -> NoRestartStrategyConfiguration:
        """Never."""
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> FallbackRestartStrategyConfiguration:
        """As the cluster does."""
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: int | timedelta
    ) -> FixedDelayRestartStrategyConfiguration:
        """A number of times, with a delay (milliseconds or timedelta) before each. TypeError for others."""
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: int | timedelta, delay_interval: int | timedelta
    ) -> FailureRateRestartStrategyConfiguration:
        """As long as no more failures fall into an interval. TypeError for what is no length of time."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )


def _at_least(least: int, number: int, name: str) -> None:
    if require_integer(number, name, 32) < least:
        raise ValueError(f"{name} {number}: at least {least}")


def _milliseconds(length: int | timedelta) -> int:
    if isinstance(length, timedelta):
        return round(length.total_seconds() * 1000)
    if not isinstance(length, int):
        raise TypeError(f"milliseconds or a timedelta are needed, not {length!r}")
    return length
